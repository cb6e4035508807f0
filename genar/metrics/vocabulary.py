"""Which counts a method ever predicts, beside those that were measured."""

import numpy as np
from numpy.typing import NDArray

from genar.metrics.values import Numbers

TABLE = 1 << 20  # counts that are marked in a table; larger ones are sorted
CELLS = 1 << 21  # looked at at once


def distinct(counts: Numbers) -> NDArray[np.int64]:
    """Return the distinct ``counts`` [N, G], rounded and not below 0, in rising order, int64."""
    step = max(1, CELLS // max(counts.shape[1], 1))
    marked, large = np.zeros(TABLE, dtype=bool), [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(counts), step):
        whole = np.maximum(np.rint(counts[first : first + step]), 0).astype(np.int64)
        beyond = whole >= TABLE
        if beyond.any():
            large.append(np.unique(whole[beyond]))
            whole = whole[~beyond]
        marked[whole] = True
    return np.concatenate([np.flatnonzero(marked), np.unique(np.concatenate(large))])


def unused(predicted: NDArray[np.int64], measured: NDArray[np.int64]) -> float:
    """Return the share of the counts from the least to the largest measured that are never predicted.

    Parameters
    ----------
    predicted, measured
        Distinct counts in rising order, as of :func:`distinct`; NaN where none was measured.
    """
    if not len(measured):
        return np.nan
    low, high = int(measured[0]), int(measured[-1])
    inside = int(((predicted >= low) & (predicted <= high)).sum())
    return 1 - inside / (high - low + 1)
