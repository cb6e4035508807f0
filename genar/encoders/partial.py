"""Features of a slide whose encoding is under way, on disk as they come."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from genar.write.atomic import beside

logger: logging.Logger = logging.getLogger("genar")

ORDER_BYTES = 32  # of the SHA-256 of the order of reading, after the fingerprint
CLOSE = 1e-4  # of the fingerprint's largest value: what two runs of the same numerics may differ by


@dataclass(frozen=True)
class Rows:
    """An open file of features.

    Parameters
    ----------
    file
        The file, open for appending and reading.
    offset
        Where in it the rows begin, in bytes.
    dim
        Values in a row.
    done
        How many rows there were when it was opened.
    """

    file: BinaryIO
    offset: int
    dim: int
    done: int

    def append(self, rows: NDArray[np.float32]) -> None:
        """Append rows, float32 [n, dim]; they are kept whatever becomes of this process."""
        self.file.write(np.ascontiguousarray(rows, np.float32).tobytes())
        self.file.flush()

    def values(self, n: int) -> NDArray[np.float32]:
        """Map the first ``n`` rows, float32 [n, dim]."""
        return np.memmap(self.file, np.float32, "r", self.offset, (n, self.dim))


@contextmanager
def growing(
    path: Path, fingerprint: NDArray[np.float32], order: NDArray[np.int64], dim: int, views: int, batch_size: int
) -> Iterator[Rows]:
    """Open a file of features in the order in which tiles are read, to which each batch is appended.

    It begins with the encoder's fingerprint and the hash of the order, and goes on with rows of float32. A process
    that is killed leaves whole batches and perhaps a torn one, which is cut off here; a machine that loses power may
    leave rows of zeros, which are cut off likewise.

    Parameters
    ----------
    path
        The file; made if need be, and made anew where other numerics or another order of reading began it. It stays,
        unless it holds no row.
    fingerprint
        Features of a fixed input, float32 [F], which tell the encoder's numerics.
    order
        Numbers of the spots in the order in which their tiles are read, int64 [N].
    dim
        Values in a row.
    views
        How many augmented views follow the N rows of the tiles as they are, N rows each.
    batch_size
        Rows of a batch; the last of the tiles, and of each view, may be fewer.

    Raises
    ------
    OSError
        If the file cannot be read or written.
    """
    head = fingerprint.tobytes() + hashlib.sha256(np.ascontiguousarray(order).tobytes()).digest()
    # the rows move to a new file: one who lost the lock while it stood still has the old one open, and may wake
    with beside(path) as temporary, temporary.open("wb") as new:
        new.write(head)
        done = 0
        if path.exists():
            with path.open("rb") as old:
                if _same(old.read(len(head)), head):
                    done = _whole(Rows(old, len(head), dim, 0), len(order), views, batch_size)
                    new.writelines(Rows(old, len(head), dim, 0).values(done) if done else ())
                else:
                    logger.info("%s was begun by another encoder or genar; its slide is encoded anew", path)
    with path.open("a+b") as file:
        try:
            yield Rows(file, len(head), dim, done)
        finally:
            if file.seek(0, 2) == len(head):  # nothing was appended
                path.unlink(missing_ok=True)


def _same(known: bytes, head: bytes) -> bool:
    """Tell whether a file's head tells of the same order and, but for rounding, of the same numerics."""
    if len(known) < len(head) or known[-ORDER_BYTES:] != head[-ORDER_BYTES:]:
        return False
    theirs, ours = (np.frombuffer(one[:-ORDER_BYTES], np.float32) for one in (known, head))
    return bool(np.abs(theirs - ours).max() <= CLOSE * np.abs(ours).max())


def _whole(rows: Rows, n: int, views: int, batch_size: int) -> int:
    """Return how many rows there are in whole batches before the end, or before a row of zeros, which no tile has."""
    size = rows.file.seek(0, 2) - rows.offset
    done = min(size // (4 * rows.dim), (1 + views) * n)
    if done:
        empty = np.flatnonzero(~rows.values(done).any(axis=1))
        done = max(int(empty[0]) - 1, 0) if len(empty) else done  # the row before may be half there
    return done - done % n % batch_size
