"""Running an encoder over tiles."""

import multiprocessing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from genar.device import cores
from genar.encoders.registry import Encoder
from genar.errors import GenarError
from genar.progress import counter
from genar.slide.chunks import Tiles

PREFETCHED = 2  # chunks that each worker process reads ahead
MOST_WORKERS = 8  # more than keep one GPU busy


class _Caught(Dataset[Tensor | GenarError]):
    """Chunks, or the error that stands for one: torch would make a RuntimeError of what a worker raises."""

    def __init__(self, tiles: Tiles) -> None:
        self.tiles = tiles

    def __getitem__(self, index: int) -> Tensor | GenarError:
        try:
            return self.tiles[index]
        except GenarError as e:
            return e


def order(tiles: Tiles) -> NDArray[np.int64]:
    """Return the numbers of the spots in the order in which their tiles are read, int64 [N]."""
    return np.concatenate([np.empty(0, np.int64), *tiles.chunks])


def workers_for(device: str | torch.device) -> int:
    """Return how many processes should read tiles beside the one that encodes them.

    On a CPU none, since reading takes a small part of the time there; for a GPU as many as there are cores, up to 8. A
    process that may not start others has none.
    """
    if torch.device(device).type == "cpu" or multiprocessing.current_process().daemon:
        return 0
    return min(MOST_WORKERS, cores())


def encode(
    encoder: Encoder,
    tiles: Tiles,
    *,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int | None = None,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Encode tiles: the features that :func:`batches` yields, in the order of the spots, float32 [N, dim]."""
    parts = batches(encoder, tiles, device=device, batch_size=batch_size, workers=workers, progress=progress)
    turn, done = order(tiles), 0
    values = np.empty((len(turn), encoder.spec.dim), np.float32)
    for batch in parts:
        values[turn[done : done + len(batch)]] = batch
        done += len(batch)
    return values


@torch.inference_mode()
def batches(
    encoder: Encoder,
    tiles: Tiles,
    *,
    start: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int | None = None,
    progress: bool = False,
    description: str = "Encoding tiles",
) -> Iterator[NDArray[np.float32]]:
    """Encode tiles batch by batch, in the order in which they are read (:func:`order`).

    Parameters
    ----------
    encoder
        The encoder; moved to ``device``.
    tiles
        What to encode.
    start
        How many tiles, from the first that is read, to leave out.
    device
        Where to compute.
    batch_size
        Tiles at once.
    workers
        Processes that read tiles beside this one; by default :func:`workers_for` the device.
    progress
        Show a progress bar on stderr, where that is a terminal.
    description
        What stands beside it.

    Yields
    ------
    Features of the next tiles, float32 [batch_size, dim]; the last may be fewer.

    Raises
    ------
    GenarError
        What reading a tile raises, in whatever process.
    """
    encoder = encoder.to(device)
    total = sum(map(len, tiles.chunks))
    with _watched(), counter(description, total, done=min(start, total), shown=progress) as advance:
        for batch in _batches(_read(tiles, start, device, workers), batch_size):
            yield encoder(batch.to(device, non_blocking=True)).float().cpu().numpy()
            advance(len(batch))


def _read(tiles: Tiles, start: int, device: str | torch.device, workers: int | None) -> Iterator[Tensor]:
    """Read the chunks that hold the tiles from ``start`` on, in pinned memory where they go to a GPU."""
    ends = np.cumsum([len(chunk) for chunk in tiles.chunks])
    first = int(np.searchsorted(ends, start, side="right"))
    skipped = start - int(ends[first - 1]) if first else start  # tiles of the first chunk
    workers = min(workers_for(device) if workers is None else workers, len(ends) - first)
    loader = DataLoader(
        Subset(_Caught(tiles), range(first, len(ends))),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        pin_memory=torch.device(device).type == "cuda",
    )
    for chunk in loader:
        if isinstance(chunk, GenarError):
            raise chunk
        yield chunk[skipped:]
        skipped = 0


@contextmanager
def _watched() -> Iterator[None]:
    """Say what it means if a worker process is gone, which torch may raise at any point."""
    try:
        yield
    except RuntimeError as e:
        if not str(e).startswith("DataLoader worker"):
            raise
        remedy = "give --workers 0 or fewer, or a machine with more memory"
        raise GenarError("reading tiles", "a worker process was killed, perhaps for want of memory", remedy) from e


def _batches(chunks: Iterable[Tensor], size: int) -> Iterator[Tensor]:
    """Cut chunks into batches of ``size`` tiles, the last of which may have fewer; copy only where two chunks meet."""
    rest: list[Tensor] = []
    for chunk in chunks:
        missing = size - sum(map(len, rest))
        rest.append(chunk[:missing])
        if len(chunk) < missing:
            continue
        yield rest[0] if len(rest) == 1 else torch.cat(rest)
        *full, last = (chunk[start : start + size] for start in range(missing, len(chunk) + 1, size))
        yield from full
        rest = [last] if len(last) else []
    if rest:
        yield torch.cat(rest)
