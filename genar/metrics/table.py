"""One row of figures for a prediction."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from genar.metrics.correlation import TOPS, binned_pcc, mean_pcc, ranked_pcc, top_pcc
from genar.metrics.errors import library_size_pearson, precision_recall_f1
from genar.metrics.genes import by_gene
from genar.metrics.negative_binomial import Training
from genar.metrics.prediction import Prediction
from genar.metrics.spatial import Neighbours, morans_agreement
from genar.metrics.values import Numbers
from genar.metrics.vocabulary import distinct, unused


def score(
    prediction: Prediction,
    measured_counts: ArrayLike,
    *,
    training: Training | None = None,
    neighbours: Neighbours | None = None,
    section: NDArray[np.generic] | None = None,
    table: pd.DataFrame | None = None,
    edges: Sequence[float] = (10, 100),
    threads: int = 1,
) -> dict[str, float]:
    """Return every figure of a prediction. Genes that were not measured are for the caller to leave out.

    Parameters
    ----------
    prediction, measured_counts, training, neighbours, section, threads
        As of :func:`~genar.metrics.by_gene`.
    table
        What that made of the same, where it is at hand.
    edges
        Between the bins of expression, of a gene's largest measured count.

    Returns
    -------
    Figures by name, on log2(count + 1) unless they name counts. A gene whose correlation is undefined counts as 0; for
    the others undefined genes are left out, and NaN stands where none is left.

    - ``PCC-k``, ``PCC``, ``Spearman``, ``PCC <10`` and so on by bin; ``PCC-k train-ranked``, of the genes with the
      highest training means; ``PCC-k within``, mean over sections of those of each, where there are sections
    - ``MSE``, ``MAE``, ``MSE counts``, ``MAE counts``, ``RVD``, ``library size PCC``, ``NB NLL``
    - ``zero precision``, ``zero recall``, ``zero F1``
    - ``Moran PCC``, ``Moran MAE``, ``SSIM``
    - ``NLL``, ``CRPS``, ``covered 50%`` and so on
    - ``distinct measured``, ``distinct predicted``, ``unused``, ``distinct modes``, ``unused by modes``: see
      :mod:`genar.metrics.vocabulary`

    Raises
    ------
    DataError
        If the counts are not whole, not of the prediction's shape, or there are none.
    """
    measured = np.asarray(measured_counts)
    if table is None:
        table = by_gene(
            prediction, measured, training=training, neighbours=neighbours, section=section, threads=threads
        )
    zeros = precision_recall_f1(*(_mean(table, f"zero_{which}") for which in ("both", "predicted", "measured")))
    found = _correlations(table, edges) | {
        "MSE": _mean(table, "mse"),
        "MAE": _mean(table, "mae"),
        "MSE counts": _mean(table, "mse_counts"),
        "MAE counts": _mean(table, "mae_counts"),
        "RVD": _mean(table, "variance_distance"),
        "library size PCC": library_size_pearson(prediction.counts, measured),
        **dict(zip(("zero precision", "zero recall", "zero F1"), zeros, strict=True)),
    }
    if "nb_nll" in table:
        found["NB NLL"] = _mean(table, "nb_nll")
    if "ssim" in table:
        moran = morans_agreement(table["moran_predicted"].to_numpy(), table["moran_measured"].to_numpy())
        found |= {"Moran PCC": moran[0], "Moran MAE": moran[1], "SSIM": _mean(table, "ssim")}
    if "nll" in table:
        found |= {"NLL": _mean(table, "nll"), "CRPS": _mean(table, "crps")}
        covered = [str(c) for c in table if str(c).startswith("covered_")]
        found |= {f"{c.replace('_', ' ')}%": _mean(table, c) for c in covered}
    return found | _vocabulary(prediction, measured)


def _mean(table: pd.DataFrame, column: str) -> float:
    """Return the mean of what is defined."""
    return float(table[column].mean())


def _correlations(table: pd.DataFrame, edges: Sequence[float]) -> dict[str, float]:
    """Return what says how well genes are followed."""
    pcc = table["pcc"].to_numpy()
    found = {f"PCC-{k}": top_pcc(pcc, k) for k in TOPS}
    found |= {"PCC": mean_pcc(pcc), "Spearman": mean_pcc(table["spearman"].to_numpy())}
    if "train_mean" in table:
        mean = table["train_mean"].to_numpy()
        found |= {f"PCC-{k} train-ranked": ranked_pcc(pcc, mean, k) for k in TOPS}
    within = [table[c].to_numpy() for c in table if str(c).startswith("pcc@")]
    if within:
        found |= {f"PCC-{k} within": float(np.mean([top_pcc(one, k) for one in within])) for k in TOPS}
    bins = binned_pcc(pcc, table["max_measured"].to_numpy(), edges)
    return found | {f"PCC {name}": mean for name, (_, mean) in bins.items()}


def _vocabulary(prediction: Prediction, measured: Numbers) -> dict[str, float]:
    """Return which counts are used."""
    known, said = distinct(measured), distinct(prediction.counts)
    found = {"distinct measured": len(known), "distinct predicted": len(said), "unused": unused(said, known)}
    if prediction.spread is not None:
        modes = distinct(prediction.spread.modes)
        found |= {"distinct modes": len(modes), "unused by modes": unused(modes, known)}
    return found
