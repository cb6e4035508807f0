"""How well predicted genes follow measured ones over spots."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genar.metrics.ranks import average_ranks
from genar.metrics.values import Numbers, constant

TOPS = (10, 50, 200)  # k of the PCC-k that are reported


def pearson(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
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
    square_a, square_b, product = (np.einsum("ng,ng->g", x, y) for x, y in ((a, a), (b, b), (a, b)))
    flat = constant(predicted) | constant(measured)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(flat, np.nan, product / (np.sqrt(square_a) * np.sqrt(square_b)))


def spearman(predicted: Numbers, measured: Numbers) -> NDArray[np.float64]:
    """Return each gene's Spearman correlation over spots, float64 [G]; NaN where either side is constant.

    Parameters
    ----------
    predicted, measured
        Values, [N, G], on any rising scale: that of counts and of their logs is the same.
    """
    return pearson(average_ranks(predicted), average_ranks(measured))


def pearson_within(predicted: Numbers, measured: Numbers, section: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return each gene's correlation over the spots of each section, float64 [S, G], sections in sorted order.

    Parameters
    ----------
    predicted, measured
        Values, [N, G].
    section
        The section of each spot, [N].
    """
    return np.stack([pearson(predicted[section == s], measured[section == s]) for s in np.unique(section)])


def top_pcc(pcc: NDArray[np.floating], k: int) -> float:
    """Return PCC-k: the mean over the k genes with the highest correlation; an undefined one counts as 0."""
    return float(np.sort(np.nan_to_num(pcc, nan=0.0))[::-1][:k].mean())


def mean_pcc(pcc: NDArray[np.floating]) -> float:
    """Return the mean correlation over all genes; an undefined one counts as 0."""
    return float(np.nan_to_num(pcc, nan=0.0).mean())


def ranked_pcc(pcc: NDArray[np.floating], train_mean: NDArray[np.floating], k: int) -> float:
    """Return the mean correlation of the k genes with the highest mean in training; an undefined one counts as 0.

    Unlike PCC-k it chooses no gene by what is judged.

    Parameters
    ----------
    pcc, train_mean
        Of each gene, [G].
    k
        How many genes.
    """
    return mean_pcc(pcc[np.argsort(-train_mean, kind="stable")[:k]])


def binned_pcc(
    pcc: NDArray[np.floating], level: Numbers, edges: Sequence[float] = (10, 100)
) -> dict[str, tuple[int, float]]:
    """Return how many genes each bin of expression holds, and their mean correlation; an undefined one counts as 0.

    Parameters
    ----------
    pcc
        Of each gene, [G].
    level
        What a gene is binned by, [G]. The reports give its largest measured count: the range of counts that had to be
        predicted. Means over spots fall below 10 for nearly every gene of a spatial assay, and totals grow with the
        section.
    edges
        Rising; a level on an edge belongs to the bin above it.

    Returns
    -------
    By bin, as ``"<10"``, ``"10-100"`` and ``">=100"``: number of genes, and mean, NaN if it has none.
    """
    names = [f"<{edges[0]:g}", *(f"{a:g}-{b:g}" for a, b in zip(edges, edges[1:], strict=False)), f">={edges[-1]:g}"]
    bins = np.digitize(level, edges)
    chosen = [pcc[bins == i] for i in range(len(names))]
    return {n: (len(one), mean_pcc(one) if len(one) else np.nan) for n, one in zip(names, chosen, strict=True)}
