"""HEST-Bench: how well an encoder's features predict genes, by the benchmark's own protocol."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys, metrics
from genar.baselines.hest import hest_ridge
from genar.encoders.cache import default_cache, features
from genar.metrics.correlation import mean_pcc
from genar.read.hest_bench import Fold, Sample, Task
from genar.read.hest_bench import tasks as find_tasks
from genar.read.hest_sample import as_section, log1p, side_um
from genar.slide.section import metadata


class Score(NamedTuple):
    """Correlations of a fold: their mean, that of each gene [G] (NaN where undefined), and how many are undefined."""

    pcc: float
    by_gene: NDArray[np.float64]
    undefined: int


def hest_bench(
    root: Path | str,
    encoder: str,
    *,
    weights: Path | None = None,
    tasks: Sequence[str] | None = None,
    cache: Path | None = None,
    device: str = "cpu",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run HEST-Bench with an encoder.

    In each fold ridge regression on principal components (:func:`genar.baselines.hest.hest_ridge`) learns log1p counts
    from the training samples' spots, and is judged by each gene's Pearson correlation over the spots of all test
    samples together. The encoder runs in float32, where the published figures are of half precision for some, and
    takes a tile as genar gives it, resized to its input.

    Parameters
    ----------
    root
        The folder of the benchmark; see :func:`genar.read.hest_bench.tasks`.
    encoder, weights
        Name of the encoder, and a file of its weights; see :func:`genar.encoders.registry.create`.
    tasks
        Names of the tasks; by default all there are.
    cache
        The folder to keep features in; by default :func:`genar.encoders.cache.default_cache`.
    device
        Where the encoder runs.

    Returns
    -------
    folds
        A row a task and fold: ``n_train`` and ``n_test`` spots, ``pcc``, the mean over genes, and ``undefined``, the
        number of genes without a correlation, which count as 0. (The published code makes such a fold's mean NaN.)
    genes
        A row a task, fold and gene: ``pcc``, NaN where it is undefined.

    Raises
    ------
    DataError
        If the folder is not laid out as the benchmark is.
    ModelError
        If the encoder is not known, or its weights are not what they should be.
    """
    rows, by_gene = [], []
    for task in find_tasks(root, tasks):
        sections = read_task(task, encoder, weights=weights, cache=cache, device=device)
        for fold in task.folds:
            score, n_train, n_test = run_fold(fold, sections, encoder)
            where = {"task": task.name, "fold": fold.number}
            counted = {"n_train": n_train, "n_test": n_test, "pcc": score.pcc, "undefined": score.undefined}
            rows.append(where | counted)
            by_gene.append(pd.DataFrame(where | {"gene": task.genes, "pcc": score.by_gene}))
    return pd.DataFrame(rows), pd.concat(by_gene, ignore_index=True)


def read_task(
    task: Task,
    encoder: str,
    *,
    weights: Path | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    views: int = 0,
    seed: int = 0,
) -> dict[Sample, AnnData]:
    """Read the samples of a task, each with the encoder's features in ``obsm``, mapped from the cache.

    ``views`` and ``seed`` are those of :func:`genar.encoders.cache.features`.
    """
    found: dict[Sample, AnnData] = {}
    for fold in task.folds:
        for sample in (*fold.train, *fold.test):
            if sample in found:
                continue
            section = as_section(sample, task.genes)
            kept = features(
                section, encoder=encoder, weights=weights, tile_um=side_um(sample), cache=cache or default_cache(),
                views=views, seed=seed, device=device, progress=True,
            )  # fmt: skip
            section.obsm[keys.features(encoder)] = kept.plain
            if kept.views is not None:
                section.obsm[keys.views(encoder)] = kept.views.transpose(1, 0, 2)
            metadata(section)[keys.fingerprint(encoder)] = kept.fingerprint
            found[sample] = section
    return found


def run_fold(fold: Fold, sections: dict[Sample, AnnData], encoder: str) -> tuple[Score, int, int]:
    """Fit and judge a fold; return its score, and the numbers of training and test spots."""
    (train, known), (test, measured) = (
        stacked([sections[s] for s in side], encoder) for side in (fold.train, fold.test)
    )
    return fold_score(hest_ridge(train, known, test), measured), len(train), len(test)


def fold_score(predicted: NDArray[np.floating], measured: NDArray[np.floating]) -> Score:
    """Judge predictions of log1p counts, both [N, G], the spots of all test samples together.

    A gene whose prediction or measurement does not vary has no correlation, and counts as 0.
    """
    by_gene = metrics.pearson(predicted.astype(np.float64), measured)
    return Score(mean_pcc(by_gene), by_gene, int(np.isnan(by_gene).sum()))


def means(folds: pd.DataFrame) -> pd.Series:
    """Return each task's mean over its folds, and under ``"mean"`` that over tasks: the benchmark's figure."""
    by_task = folds.groupby("task", sort=False)["pcc"].mean()
    found: pd.Series = pd.concat([by_task, pd.Series({"mean": by_task.mean()})])
    return found


def stacked(sections: Sequence[AnnData], encoder: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the features [N, D] and log1p counts [N, G] of sections, one below the other."""
    rows = [np.asarray(section.obsm[keys.features(encoder)], dtype=np.float32) for section in sections]
    return np.concatenate(rows), np.concatenate([log1p(section) for section in sections])
