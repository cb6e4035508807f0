"""Augmented views of a tile: one of the square's eight symmetries and a jitter of its stains."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from skimage.color import hed_from_rgb, rgb_from_hed
from torch import Tensor
from torch.utils.data import Dataset

from genar.slide.chunks import Tiles

STRENGTH = 0.05
"""Default of ``strength``: the "light" jitter of Tellez et al. (2018)."""

DENSITY = -np.log((np.arange(256) + 1) / 256, dtype=np.float32)  # optical density of each 8-bit value, 0 for white


def symmetry(tile: NDArray[np.uint8], code: int) -> NDArray[np.uint8]:
    """Turn a tile [px, px, 3] by ``code % 4`` quarters anticlockwise, then mirror it left to right if ``code >= 4``.

    The codes 0 to 7 are the eight flips and rotations of a square; 0 leaves the tile as it is.
    """
    turned = np.rot90(tile, code % 4)
    return turned[:, ::-1] if code >= 4 else turned


def stain(tile: NDArray[np.uint8], scale: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Change how much haematoxylin, eosin and DAB (here: the residue) a tile shows.

    The stains' matrix is scikit-image's, but its ``rgb2hed`` is not used: it cuts negative amounts off, which changes
    an H&E image by a few grey levels even where nothing is to be changed, and its unit is 13.8 times ours.

    Parameters
    ----------
    tile
        RGB, uint8 [px, px, 3].
    scale, shift
        The amount s of each stain, in optical density to base e, becomes scale * s + shift; [3] each.

    Returns
    -------
    RGB, uint8 [px, px, 3].
    """
    matrix = (hed_from_rgb * scale @ rgb_from_hed).astype(np.float32)
    density = DENSITY[tile] @ matrix + (shift @ rgb_from_hed).astype(np.float32)
    stained: NDArray[np.uint8] = np.rint(256 * np.exp(-density) - 1).clip(0, 255).astype(np.uint8)
    return stained


def augment(
    tile: NDArray[np.uint8], *, seed: int, view: int, index: int, strength: float = STRENGTH
) -> NDArray[np.uint8]:
    """Return a view of a tile, the same whenever it is asked for.

    Parameters
    ----------
    tile
        RGB, uint8 [px, px, 3].
    seed, view, index
        What the view depends on: the seed, below 2**63, the number of the view and that of the spot.
    strength
        Each stain's amount is multiplied by a number from 1 - strength to 1 + strength, and one from -strength to
        strength, in optical density to base e, is added (Tellez et al., IEEE Transactions on Medical Imaging 2018).
        0 leaves the colours alone; 0.2 is that paper's "strong" jitter.

    Returns
    -------
    RGB, uint8 [px, px, 3].
    """
    counter = np.array([0, 0, 0, index], dtype=np.uint64)  # the highest word, so that no two streams ever meet
    random = np.random.Generator(np.random.Philox(counter=counter, key=np.array([seed, view], dtype=np.uint64)))
    code = int(random.integers(8))
    scale, shift = random.uniform(-strength, strength, (2, 3))
    return stain(symmetry(tile, code), 1 + scale, shift)


class AugmentedTiles(Dataset[Tensor]):
    """One augmented view of every tile, in the same form and order.

    Parameters
    ----------
    tiles
        The tiles.
    seed, view, strength
        As in :func:`augment`.
    """

    def __init__(self, tiles: Tiles, *, seed: int, view: int, strength: float = STRENGTH) -> None:
        self.tiles, self.seed, self.view, self.strength = tiles, seed, view, strength

    @property
    def chunks(self) -> Sequence[NDArray[np.int64]]:
        """The spots of each chunk."""
        return self.tiles.chunks

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, index: int) -> Tensor:
        tiles = self.tiles[index].permute(0, 2, 3, 1).numpy()
        seen = [
            augment(tile, seed=self.seed, view=self.view, index=int(spot), strength=self.strength)
            for tile, spot in zip(tiles, self.chunks[index], strict=True)
        ]
        return torch.from_numpy(np.stack(seen)).permute(0, 3, 1, 2)
