"""How far predicted values lie from measured ones. ``predicted`` and ``measured`` are [N, G]."""

import numpy as np
from numpy.typing import NDArray

from genar.metrics.correlation import pearson
from genar.metrics.values import Numbers, constant


def difference(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
    """Return predicted - measured, float64 [N, G], of integers without a sign too."""
    return np.asarray(predicted, dtype=np.float64) - measured


def mse(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
    """Return each gene's mean squared error, float64 [G]."""
    gap = difference(predicted, measured)
    return np.asarray(np.einsum("ng,ng->g", gap, gap) / len(gap), dtype=np.float64)


def mae(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
    """Return each gene's mean absolute error, float64 [G]."""
    return np.asarray(np.abs(difference(predicted, measured)).mean(axis=0), dtype=np.float64)


def variance_distance(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
    """Return each gene's ((var_predicted - var_measured) / var_measured)^2, float64 [G].

    Its mean over genes is the relative variance distance (RVD) of Stem (Zhu et al., 2025), of values on a log scale:
    0 where variation is right, 1 where nothing varies. NaN where the measured values are constant.
    """
    of_predicted, of_measured = (np.var(v, axis=0, dtype=np.float64) for v in (predicted, measured))
    flat = constant(measured)
    return np.where(flat, np.nan, (of_predicted / np.where(flat, 1.0, of_measured) - 1) ** 2)


def is_zero(counts: Numbers) -> NDArray[np.bool_]:
    """Return which ``counts`` [...] are 0 when rounded, half to even, as numpy does; what is below 0 is too."""
    return counts <= 0.5


def precision_recall_f1(both: float, predicted: float, measured: float) -> tuple[float, float, float]:
    """Return precision, recall and F1 of an event, as scikit-learn's with ``zero_division=0``.

    Parameters
    ----------
    both, predicted, measured
        How often, or in which share of the cells, it was predicted and measured, predicted, measured.
    """
    precision = both / predicted if predicted else 0.0
    recall = both / measured if measured else 0.0
    return precision, recall, 2 * both / (predicted + measured) if predicted + measured else 0.0


def zero_scores(predicted: Numbers, measured: Numbers) -> tuple[float, float, float]:
    """Return precision, recall and F1 of zeros, over all cells, of counts."""
    a, b = is_zero(predicted), is_zero(measured)
    return precision_recall_f1(int((a & b).sum()), int(a.sum()), int(b.sum()))


def library_size_pearson(predicted: Numbers, measured: Numbers) -> float:
    """Return the correlation over spots of the summed counts; NaN where either is constant."""
    totals = (counts.sum(axis=1, dtype=np.float64, keepdims=True) for counts in (predicted, measured))
    return float(pearson(*totals)[0])
