"""How far figures of a prediction may be trusted: percentile intervals (Efron & Tibshirani, 1993)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genar.metrics.correlation import TOPS
from genar.metrics.errors import difference
from genar.metrics.values import Numbers

FLAT = 1e-12  # variance over mean square at which rounding cannot be told from variation
CELLS = 1 << 23  # of an array that is held at once


def intervals(
    predicted_log: Numbers,
    measured_log: Numbers,
    section: NDArray[np.generic],
    n: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return intervals of PCC-10/50/200, mean PCC and MSE over spots, which are drawn anew within each section.

    Spots beside one another are alike, so that they are narrower than those of other sections would be: see
    :func:`over_sections`. PCC-k chooses its genes in every draw.

    Parameters
    ----------
    predicted_log, measured_log
        log2(count + 1), [N, G].
    section
        The section of each spot, [N].
    n
        How many draws.
    level
        Of the intervals.
    seed
        Of the draws.

    Returns
    -------
    By figure, the lower and the upper end.
    """
    error = (difference(predicted_log, measured_log) ** 2).mean(axis=1)
    found: dict[str, list[float]] = {name: [] for name in (*(f"PCC-{k}" for k in TOPS), "PCC", "MSE")}
    for weights in draws(section, n, np.random.default_rng(seed)):
        pcc = np.nan_to_num(weighted_pcc(predicted_log, measured_log, weights), nan=0.0)
        pcc.sort(axis=1)
        for k in TOPS:
            found[f"PCC-{k}"].extend(pcc[:, -k:].mean(axis=1))
        found["PCC"].extend(pcc.mean(axis=1))
        found["MSE"].extend(weights @ error / len(error))
    return {name: _interval(values, level) for name, values in found.items()}


def over_sections(values: ArrayLike, n: int = 1000, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the interval of the mean over sections of one figure.

    Parameters
    ----------
    values
        The figure of each section, [S]; an undefined one is left out. Of one section the interval is a point.
    n, level, seed
        As of :func:`intervals`.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        return np.nan, np.nan
    rows = np.random.default_rng(seed).integers(len(known), size=(n, len(known)))
    return _interval(known[rows].mean(axis=1), level)


def draws(section: NDArray[np.generic], n: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Yield ``n`` draws of spots, some at a time: how often each was drawn, whole, float64 [R, N].

    Of each section as many are drawn as it has.
    """
    _, index = np.unique(section, return_inverse=True)
    members = [np.flatnonzero(index == s) for s in range(index.max(initial=-1) + 1)]
    step = max(1, CELLS // max(len(section), 1))
    for first in range(0, n, step):
        number = min(step, n - first)
        weights = np.empty((number, len(section)))
        for spots in members:
            size = len(spots)
            drawn = rng.integers(size, size=(number, size)) + size * np.arange(number)[:, None]
            weights[:, spots] = np.bincount(drawn.ravel(), minlength=number * size).reshape(number, size)
        yield weights


def weighted_pcc(predicted: Numbers, measured: Numbers, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each gene's correlation under each row of weights, float64 [R, G]; NaN where either side is constant.

    Parameters
    ----------
    predicted, measured
        Values, [N, G].
    weights
        Of the spots, [R, N].
    """
    pcc = np.empty((len(weights), measured.shape[1]))
    step = max(1, CELLS // max(len(measured), 1))
    total = weights.sum(axis=1, keepdims=True)
    for first in range(0, measured.shape[1], step):
        genes = slice(first, first + step)
        x, y = (v[:, genes] - v[:, genes].mean(axis=0, dtype=np.float64) for v in (predicted, measured))
        mean_x, mean_y = weights @ x / total, weights @ y / total
        square_x, square_y = weights @ x**2 / total, weights @ y**2 / total
        var_x, var_y = square_x - mean_x**2, square_y - mean_y**2
        flat = (var_x <= FLAT * square_x) | (var_y <= FLAT * square_y)
        product = np.where(flat, 1.0, var_x * var_y)
        pcc[:, genes] = np.where(flat, np.nan, (weights @ (x * y) / total - mean_x * mean_y) / np.sqrt(product))
    return pcc


def _interval(values: ArrayLike, level: float) -> tuple[float, float]:
    """Return the percentiles between which ``level`` of the values lies."""
    low, high = np.quantile(np.asarray(values), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
