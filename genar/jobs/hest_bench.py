"""HEST-Bench's protocol on one fold; :mod:`genar.jobs.bench_hest` goes through all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys, metrics
from genar.baselines.hest import hest_ridge
from genar.encoders.cache import default_cache, features
from genar.metrics.correlation import mean_pcc
from genar.read.hest_bench import Fold, Sample, Task
from genar.read.hest_sample import as_section, log1p, side_um
from genar.slide.section import metadata


class Score(NamedTuple):
    """Correlations of a fold: their mean, that of each gene [G] (NaN where undefined), and how many are undefined."""

    pcc: float
    by_gene: NDArray[np.float64]
    undefined: int


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
    """Fit and judge the benchmark's regression (:func:`genar.baselines.hest.hest_ridge`).

    Returns
    -------
    The score, and the numbers of training and test spots.
    """
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


def stacked(sections: Sequence[AnnData], encoder: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the features [N, D] and log1p counts [N, G] of sections, one below the other."""
    rows = [np.asarray(section.obsm[keys.features(encoder)], dtype=np.float32) for section in sections]
    return np.concatenate(rows), np.concatenate([log1p(section) for section in sections])
