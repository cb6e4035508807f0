"""How well predicted counts follow measured ones."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def log_counts(counts: ArrayLike) -> NDArray[np.float64]:
    """Return log2(count + 1), the scale of the paper's metrics."""
    return np.log2(np.asarray(counts, dtype=np.float64) + 1)


def pearson(predicted: NDArray[np.floating], measured: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return each gene's Pearson correlation over spots, NaN where either side is constant.

    Parameters
    ----------
    predicted, measured
        Values, [N, G].

    Returns
    -------
    Correlations, float64 [G].
    """
    a = predicted - predicted.mean(axis=0, dtype=np.float64)
    b = measured - measured.mean(axis=0, dtype=np.float64)
    norm_a, norm_b = np.sqrt((a**2).sum(axis=0)), np.sqrt((b**2).sum(axis=0))
    flat = (np.ptp(predicted, axis=0) == 0) | (np.ptp(measured, axis=0) == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(flat, np.nan, (a * b).sum(axis=0) / (norm_a * norm_b))


def top_pcc(pcc: NDArray[np.floating], k: int) -> float:
    """Return PCC-k: the mean over the k genes with the highest correlation; an undefined one counts as 0."""
    return float(np.sort(np.nan_to_num(pcc, nan=0.0))[::-1][:k].mean())


def summary(predicted_log: NDArray[np.floating], measured_counts: ArrayLike) -> dict[str, float]:
    """Return PCC-10/50/200 and MSE of a prediction on the log2(count + 1) scale.

    Parameters
    ----------
    predicted_log
        Predicted log2(count + 1), [N, G].
    measured_counts
        Measured counts, [N, G].
    """
    measured = log_counts(measured_counts)
    pcc = pearson(predicted_log, measured)
    return {f"PCC-{k}": top_pcc(pcc, k) for k in (10, 50, 200)} | {
        "MSE": float(((predicted_log - measured) ** 2).mean())
    }
