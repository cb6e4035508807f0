"""What tiles are to an encoder: images of spots, read several at a time."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

CHUNK = 64  # tiles read at once, where nothing speaks for another number


class Tiles(Protocol):
    """Tiles of N spots, read chunk by chunk."""

    @property
    def chunks(self) -> Sequence[NDArray[np.int64]]:
        """The numbers of the spots whose tiles each chunk holds, int64 [n] each; every spot is in one of them."""

    def __getitem__(self, index: int) -> Tensor:
        """Read the tiles of ``chunks[index]``: RGB, uint8 [n, 3, px, px]."""


def in_turn(n: int) -> list[NDArray[np.int64]]:
    """Split the spots 0 to n - 1, in their order, into chunks."""
    return np.array_split(np.arange(n), range(CHUNK, n, CHUNK)) if n else []


def by_region(
    corners: NDArray[np.int64], side: int, *, cell: NDArray[np.float64], block: NDArray[np.float64], most: int
) -> list[NDArray[np.int64]]:
    """Split spots into chunks whose tiles are cut from one region each.

    The plane is divided into cells, row by row, and a tile belongs to the cell that its top left corner lies in. The
    tiles of a cell are one chunk, or several where there are too many of them, or where they lie so far apart that the
    file's blocks between them are more than those that would be decoded twice.

    Parameters
    ----------
    corners
        Top left corners of the tiles (x, y) in pixels of the grid they are cut from, int64 [N, 2].
    side
        Side of a tile in these pixels.
    cell
        Width and height of a cell in these pixels, [2].
    block
        Width and height of what the file decodes at once, in these pixels, [2].
    most
        How many tiles a chunk holds at most.
    """
    if not len(corners):
        return []
    cells = np.floor(corners / cell).astype(np.int64)
    order = np.lexsort((cells[:, 0], cells[:, 1]))  # stable: within a cell, as they come
    starts = np.flatnonzero((np.diff(cells[order], axis=0) != 0).any(axis=1)) + 1
    first = np.floor(corners / block)  # the blocks that a tile's corners lie in
    last = np.floor((corners + side - 1) / block)
    parts = [part for spots in np.split(order, starts) for part in _parts(spots, corners, first, last, most)]
    return [np.sort(part) for part in parts]


def _parts(
    spots: NDArray[np.int64],
    corners: NDArray[np.int64],
    first: NDArray[np.float64],
    last: NDArray[np.float64],
    most: int,
) -> Iterator[NDArray[np.int64]]:
    """Halve a cell's spots along its longer side until they can be read as one region."""

    def blocks(of: NDArray[np.int64]) -> float:
        return float((last[of].max(axis=0) - first[of].min(axis=0) + 1).prod())

    chunks = -(-len(spots) // most)
    cut = len(spots) * (chunks // 2) // chunks if chunks > 1 else len(spots) // 2
    axis = int(np.ptp(corners[spots], axis=0).argmax())
    ordered = spots[np.argsort(corners[spots, axis], kind="stable")]
    halves = (ordered[:cut], ordered[cut:])
    alone = float((last[spots] - first[spots] + 1).prod(axis=1).sum())
    if len(spots) == 1 or (chunks == 1 and blocks(spots) <= min(alone, sum(map(blocks, halves)))):
        yield spots
        return
    for half in halves:
        yield from _parts(half, corners, first, last, most)
