"""What a prediction is worth, gene by gene."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from genar.errors import DataError
from genar.metrics import correlation, errors, spatial
from genar.metrics.negative_binomial import Training, nb_nll
from genar.metrics.prediction import Prediction, Spread, log_counts
from genar.metrics.ranks import average_ranks
from genar.metrics.values import Numbers

CELLS = 1 << 21  # that a thread judges at once
Columns = dict[str, NDArray[np.generic]]


def by_gene(
    prediction: Prediction,
    measured_counts: ArrayLike,
    *,
    genes: pd.Index | None = None,
    training: Training | None = None,
    neighbours: spatial.Neighbours | None = None,
    section: NDArray[np.generic] | None = None,
    threads: int = 1,
) -> pd.DataFrame:
    """Judge each gene of a prediction. Genes that were not measured are for the caller to leave out.

    Parameters
    ----------
    prediction
        Of N spots and G genes.
    measured_counts
        Whole numbers, [N, G].
    genes
        Their names; by default numbers.
    training
        What the training counts say of the genes.
    neighbours
        Of the spots.
    section
        The section of each spot, [N].
    threads
        How many judge at once.

    Returns
    -------
    A row a gene. ``pcc``, ``spearman``, ``mse``, ``mae``, ``variance_distance`` and ``ssim`` on log2(count + 1),
    ``mse_counts`` and ``mae_counts`` in counts; undefined is NaN. ``zero_...`` are shares of the spots.
    ``train_mean`` and ``nb_nll`` where there is a training, ``moran_...`` and ``ssim`` where there are neighbours,
    ``pcc@<section>`` where there are sections, ``nll``, ``crps`` and ``covered_<percent>`` where there is a spread.

    Raises
    ------
    DataError
        If the counts are not whole, not of the prediction's shape, or there are none.
    """
    measured = np.asarray(measured_counts)
    if measured.shape != prediction.log.shape or not measured.size:
        why = f"they are of shape {measured.shape}, the prediction of {prediction.log.shape}"
        raise DataError("measured counts", why, "give one for each predicted spot and gene")
    step = max(1, CELLS // len(measured))
    blocks = [slice(first, first + step) for first in range(0, measured.shape[1], step)]

    def judge(block: slice) -> pd.DataFrame:
        known = None if training is None else training.genes(block)
        return pd.DataFrame(_judged(prediction.genes(block), _whole(measured[:, block]), known, neighbours, section))

    with ThreadPoolExecutor(threads) as pool:
        table = pd.concat(pool.map(judge, blocks), ignore_index=True)
    return table if genes is None else table.set_axis(genes)


def _whole(counts: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return counts as integers."""
    whole = counts.astype(np.int64)
    if (whole != counts).any() or whole.min() < 0:
        raise DataError("measured counts", "some are negative or not whole", "give raw counts")
    return whole


def _judged(
    prediction: Prediction,
    counts: NDArray[np.int64],
    training: Training | None,
    neighbours: spatial.Neighbours | None,
    section: NDArray[np.generic] | None,
) -> Columns:
    """Return the columns of a block of genes."""
    log, measured = np.asarray(prediction.log, dtype=np.float64), log_counts(counts)
    pcc = correlation.pearson(log, measured)
    ranks = average_ranks(counts)  # those of their logs too
    columns: Columns = {
        "pcc": pcc,
        "spearman": correlation.pearson(average_ranks(prediction.log), ranks),
    }
    if section is not None:
        names = np.unique(section)
        within = [pcc] if len(names) == 1 else correlation.pearson_within(log, measured, section)
        columns |= {f"pcc@{name}": one for name, one in zip(names, within, strict=True)}
    columns |= _errors(log, measured, prediction.counts, counts)
    if training is not None:
        nll = nb_nll(counts, prediction.counts, training.dispersion)
        columns |= {"train_mean": training.mean, "nb_nll": nll.mean(axis=0)}
    if neighbours is not None:
        columns |= {
            "moran_measured": spatial.morans_i(measured, neighbours),
            "moran_predicted": spatial.morans_i(log, neighbours),
            "ssim": spatial.ssim(log, measured, neighbours),
        }
    return columns | ({} if prediction.spread is None else _spread(prediction.spread))


def _errors(
    log: NDArray[np.float64],
    measured: NDArray[np.float64],
    predicted_counts: Numbers,
    counts: NDArray[np.int64],
) -> Columns:
    """Return errors, the genes' levels, and the shares of zeros."""
    zero, zero_predicted = counts == 0, errors.is_zero(predicted_counts)
    return {
        "mse": errors.mse(log, measured),
        "mae": errors.mae(log, measured),
        "variance_distance": errors.variance_distance(log, measured),
        "mse_counts": errors.mse(predicted_counts, counts),
        "mae_counts": errors.mae(predicted_counts, counts),
        "mean_measured": counts.mean(axis=0),
        "mean_predicted": predicted_counts.mean(axis=0, dtype=np.float64),
        "max_measured": counts.max(axis=0),
        "zero_measured": zero.mean(axis=0),
        "zero_predicted": zero_predicted.mean(axis=0),
        "zero_both": (zero & zero_predicted).mean(axis=0),
    }


def _spread(spread: Spread) -> Columns:
    """Return what the distributions are worth."""
    covered = {f"covered_{100 * level:g}": inside.mean(axis=0) for level, inside in spread.covered.items()}
    means = {"nll": spread.nll.mean(axis=0, dtype=np.float64), "crps": spread.crps.mean(axis=0, dtype=np.float64)}
    return means | covered
