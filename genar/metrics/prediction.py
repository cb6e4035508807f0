"""What a method says of a section: point estimates and, where it has one, what its distribution is worth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genar.errors import DataError

LEVELS = (0.5, 0.8, 0.95)  # of the central intervals
Columns = slice | NDArray[np.integer] | NDArray[np.bool_]


def log_counts(counts: ArrayLike) -> NDArray[np.float64]:
    """Return log2(count + 1), the scale of the paper's metrics."""
    return np.log2(np.asarray(counts, dtype=np.float64) + 1)


@dataclass(frozen=True)
class Spread:
    """What predicted distributions are worth at the measured counts, N spots x G genes; see ``metrics.distribution``.

    Parameters
    ----------
    nll
        Negative log-likelihood, nats, float [N, G].
    crps
        Continuous ranked probability score, counts, float [N, G].
    covered
        For the level of each central interval, whether it holds the measured count, bool [N, G].
    modes
        The most probable count, int [N, G].
    """

    nll: NDArray[np.floating]
    crps: NDArray[np.floating]
    covered: dict[float, NDArray[np.bool_]]
    modes: NDArray[np.integer]

    @classmethod
    def joined(cls, parts: Sequence["Spread"], axis: int = 1) -> "Spread":
        """Join chunks of genes (``axis`` 1) or batches of spots (0), in their order."""
        return cls(
            nll=np.concatenate([p.nll for p in parts], axis=axis),
            crps=np.concatenate([p.crps for p in parts], axis=axis),
            covered={c: np.concatenate([p.covered[c] for p in parts], axis=axis) for c in parts[0].covered},
            modes=np.concatenate([p.modes for p in parts], axis=axis),
        )

    def genes(self, columns: Columns) -> "Spread":
        """Return that of some genes."""
        covered = {level: inside[:, columns] for level, inside in self.covered.items()}
        return Spread(self.nll[:, columns], self.crps[:, columns], covered, self.modes[:, columns])


@dataclass(frozen=True)
class Prediction:
    """A method's prediction of N spots and G genes.

    Parameters
    ----------
    log
        Point estimate of log2(count + 1), not rounded, float [N, G]; of GenAR E[log2(count + 1)].
    counts
        Point estimate in counts, real or whole, [N, G].
    spread
        What its distribution is worth; None where it has none.

    Raises
    ------
    DataError
        If the shapes differ, or are not of two dimensions.
    """

    log: NDArray[np.floating]
    counts: NDArray[np.floating] | NDArray[np.integer]
    spread: Spread | None = None

    def __post_init__(self) -> None:
        shapes = {self.log.shape, self.counts.shape}
        if self.spread is not None:
            inside = self.spread.covered.values()
            shapes |= {a.shape for a in (self.spread.nll, self.spread.crps, self.spread.modes, *inside)}
        if len(shapes) > 1 or self.log.ndim != 2:
            why = f"its arrays are of shapes {sorted(shapes)}"
            raise DataError("prediction", why, "give arrays of the same spots x genes")

    @classmethod
    def of_log(cls, log: NDArray[np.floating]) -> "Prediction":
        """Return the prediction of a method that knows log2(count + 1) alone; below 0 it is a count of 0."""
        exact: NDArray[np.float64] = np.asarray(log, dtype=np.float64)
        return cls(exact, np.maximum(np.exp2(exact) - 1, 0))

    def genes(self, columns: Columns) -> "Prediction":
        """Return that of some genes, as of those that a section measured."""
        spread = None if self.spread is None else self.spread.genes(columns)
        return Prediction(self.log[:, columns], self.counts[:, columns], spread)
