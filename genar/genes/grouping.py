"""How a panel's genes are ordered and grouped: by their counts over the training spots, by a file, or at random."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics.pairwise import euclidean_distances

from genar.errors import ConfigError
from genar.genes import clusters
from genar.genes.group_file import labels_of
from genar.genes.hierarchy import Blocks, Hierarchy

Method = Literal["kmeans", "published", "ward", "random", "file"]
Labels = NDArray[np.int64]  # the group of each gene, [G]


def auto_scales(n_genes: int) -> tuple[int, ...]:
    """Return scales for a panel of G genes.

    From the top 1, 4, 8, then five times as many each, 40, 200, ..., as long as that is at most half of G / 5; from the
    bottom G / 5, G / 2 and G. For 200 genes these are the published scales, 1, 4, 8, 40, 100, 200.
    """
    scales = {1, *(s for s in (n_genes // 5, n_genes // 2, n_genes) if s > 0)}
    coarse = [1, 4, 8]
    while coarse[-1] * 5 <= n_genes:
        coarse.append(coarse[-1] * 5)
    return tuple(sorted(scales | {s for s in coarse if 2 * s <= n_genes // 5}))


def build(
    counts: NDArray[np.floating],
    genes: pd.Index,
    method: Method,
    scales: tuple[int, ...] | None,
    seed: int,
    path: Path | None = None,
) -> tuple[Labels, Hierarchy]:
    """Order a panel and group it at every scale.

    Parameters
    ----------
    counts
        Raw counts of the training spots, float [N, G], NaN where a spot's section did not measure the gene. Genes are
        compared by their z-scores over the spots that did; the others count as average.
    genes
        Symbols of the panel, in the order of the columns.
    method
        ``"kmeans"``: k-means, again inside each group of the scale before; groups of unequal size. ``"published"``:
        the order of Ouyang et al. (Medical Image Analysis 2026), k-means in two stages, cut into equal blocks whatever
        the clusters. ``"ward"``: one tree of Ward's linkage, cut at every scale. ``"random"``: a random order cut into
        nested groups of near-equal size, the control. ``"file"``: the groups of ``path``.
    scales
        Groups at each scale, rising strictly to G; None chooses: the file's own, or :func:`auto_scales`.
    seed
        Seed of k-means and of the random order.
    path
        Of ``"file"``: a table (tabs, or commas in a ``.csv``) with the column ``gene`` and one or more columns of group
        names, coarse to fine, each group inside one of the column before. Its scales are the number of groups in each
        column, below a single group and above the genes; genes that it lacks become one more group. Genes of other
        panels may stand in it.

    Returns
    -------
    order
        The panel's decoding order: int64 [G], indices into ``genes``.
    hierarchy
        The groups of the genes in that order; :class:`Blocks` for ``"published"``.

    Raises
    ------
    ConfigError
        If the scales do not rise to the number of genes, or the file cannot be used.
    """
    if method == "file":
        if path is None or scales is not None:
            raise ConfigError("hierarchy", "method file takes its scales from a file", "set hierarchy.file, not scales")
        return _nested([*labels_of(path, genes), np.arange(len(genes))])
    scales = auto_scales(len(genes)) if scales is None else scales
    _check(scales, len(genes))
    if method == "random":
        return _nested(clusters.random_groups(scales, seed))
    profiles = clusters.profiles(counts)
    if method == "published":
        return clusters.two_stage_order(profiles, seed), Blocks.of(scales)
    return _nested(_ward(profiles, scales) if method == "ward" else clusters.nested_kmeans(profiles, scales, seed))


def _check(scales: tuple[int, ...], n_genes: int) -> None:
    """Make sure that scales rise to the number of genes."""
    if scales[-1:] != (n_genes,) or scales[0] < 1 or any(a >= b for a, b in zip(scales, scales[1:], strict=False)):
        why = f"{list(scales)} does not rise to the panel's {n_genes} genes"
        raise ConfigError("hierarchy.scales", why, f"end it with that number, as {list(auto_scales(n_genes))} does")


def _nested(labels: Sequence[Labels]) -> tuple[Labels, Hierarchy]:
    """Sort genes by their groups, coarse to fine, where the last labels are the genes' ranks."""
    order = np.lexsort(labels[::-1])
    runs = (np.diff(label[order], prepend=label[order[0]]) != 0 for label in labels)
    return order, Hierarchy(tuple(np.cumsum(run).astype(np.int64) for run in runs))


def _ward(profiles: NDArray[np.float64], scales: tuple[int, ...]) -> list[Labels]:
    """Cut one tree at every scale; the last labels are the genes' places along its leaves."""
    n_genes = len(profiles)
    tree = linkage(squareform(euclidean_distances(profiles), checks=False), "ward")
    place = np.empty(n_genes, dtype=np.int64)
    place[leaves_list(tree)] = np.arange(n_genes)
    # every merge joins two neighbouring runs of leaves; undoing the last s - 1 merges leaves their s - 1 borders
    first = np.concatenate([place, np.zeros(n_genes - 1, dtype=np.int64)])
    borders = np.empty(n_genes - 1, dtype=np.int64)
    for i, (left, right) in enumerate(tree[:, :2].astype(np.int64)):
        first[n_genes + i], borders[i] = sorted((first[left], first[right]))
    cuts = [np.isin(np.arange(n_genes), borders[n_genes - s :]) for s in scales]
    return [np.cumsum(cut, dtype=np.int64)[place] for cut in cuts]
