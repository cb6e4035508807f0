"""Genes clustered coarse to fine: the scales at which counts are decoded."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from genar import keys
from genar.errors import ConfigError, ModelError


@dataclass(frozen=True)
class Hierarchy:
    """Nested groups of an ordered panel of G genes, s_1 < ... < s_K = G groups at the K scales.

    Parameters
    ----------
    groups
        For each scale, the group of each gene: int [G], from 0 to s_k - 1, never falling along the panel.
        At the last scale every gene is its own group, so ``groups[-1]`` is ``arange(G)``.
    """

    groups: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        last = self.groups[-1]
        if not np.array_equal(last, np.arange(last.size)):
            msg = "the last scale of a hierarchy must hold one gene a group"
            raise ValueError(msg)
        self._check_nesting()

    def _check_nesting(self) -> None:
        for coarse, fine in zip(self.groups, self.groups[1:], strict=False):
            if np.any(np.diff(coarse) < 0) or np.any(np.diff(coarse)[np.diff(fine) == 0] != 0):
                msg = "groups must be contiguous, and each must lie inside one group of the scale before"
                raise ValueError(msg)

    @property
    def scales(self) -> tuple[int, ...]:
        """Number of groups at each scale, (s_1, ..., s_K)."""
        return tuple(int(g[-1]) + 1 for g in self.groups)

    def parents(self, k: int) -> NDArray[np.int64]:
        """Return, for each group of scale ``k`` > 0, its group at scale ``k - 1``: int [s_k]."""
        _, first_gene = np.unique(self.groups[k], return_index=True)
        return self.groups[k - 1][first_gene]

    def members(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which genes are averaged over at scale ``k``: a gene and its group for each pair, two int [M]."""
        return np.arange(self.groups[k].size), self.groups[k]

    def columns(self) -> pd.DataFrame:
        """Return the groups as columns ``group_<s>``, one row a gene."""
        return pd.DataFrame({keys.group(s): g for s, g in zip(self.scales, self.groups, strict=True)})

    @classmethod
    def from_columns(cls, genes: pd.DataFrame, scales: tuple[int, ...]) -> "Hierarchy":
        """Rebuild the hierarchy from the ``group_<s>`` columns of a panel in decoding order."""
        missing = [keys.group(s) for s in scales if keys.group(s) not in genes]
        if missing:
            raise ModelError("genes.tsv", f"it lacks the columns {missing}", "use a complete model directory")
        return cls(tuple(genes[keys.group(s)].to_numpy(np.int64) for s in scales))


@dataclass(frozen=True)
class Blocks(Hierarchy):
    """The published hierarchy: equal blocks of the ordered panel, whether or not they cut each other.

    Means are adaptive average pools, whose windows overlap where a scale does not divide the panel.
    """

    @classmethod
    def of(cls, scales: tuple[int, ...]) -> "Blocks":
        """Return the blocks of a panel of ``scales[-1]`` genes."""
        return cls(tuple(np.arange(scales[-1]) * s // scales[-1] for s in scales))

    def _check_nesting(self) -> None:
        """Blocks of neighbouring scales may cut each other."""

    def parents(self, k: int) -> NDArray[np.int64]:
        """Return, for each block j of scale ``k`` > 0, the one at scale ``k - 1`` that holds its start: int [s_k]."""
        return np.arange(self.scales[k]) * self.scales[k - 1] // self.scales[k]

    def members(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the genes in each block's window, from floor(i G / s) up to ceil((i + 1) G / s)."""
        n_genes, size = self.scales[-1], self.scales[k]
        windows = [np.arange(i * n_genes // size, -(-(i + 1) * n_genes // size)) for i in range(size)]
        return np.concatenate(windows), np.repeat(np.arange(size), [w.size for w in windows])


def _shares(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Split ``total`` subgroups over groups in proportion to their sizes, each getting 1 to its size."""
    shares = np.ones_like(sizes)
    while shares.sum() < total:
        room = np.where(shares < sizes, sizes / shares, -1.0)
        shares[int(room.argmax())] += 1
    return shares


def kmeans(counts: NDArray[np.integer], scales: tuple[int, ...], seed: int) -> tuple[NDArray[np.int64], Hierarchy]:
    """Cluster genes coarse to fine: k-means inside each group of the scale before.

    As in GenAR (Ouyang et al., Medical Image Analysis 2026) genes are described by their z-scored counts over
    the training spots. Unlike there, every scale's groups are clusters, of unequal sizes, and no border cuts one.

    Parameters
    ----------
    counts
        Raw counts of the training spots, int [N, G].
    scales
        Groups at each scale, rising strictly to G.
    seed
        Seed of k-means.

    Returns
    -------
    order
        The panel's decoding order: int [G], indices into the columns of ``counts``.
    hierarchy
        The groups of the genes in that order.

    Raises
    ------
    ConfigError
        If the scales do not rise to the number of genes.
    """
    n_genes = counts.shape[1]
    if scales[-1] != n_genes or scales[0] < 1 or any(a >= b for a, b in zip(scales, scales[1:], strict=False)):
        raise ConfigError(
            "hierarchy.scales",
            f"{list(scales)} does not rise to the panel's {n_genes} genes",
            "end it with that number",
        )
    values = counts.astype(np.float64).T
    sd = values.std(axis=1, keepdims=True)
    profiles = (values - values.mean(axis=1, keepdims=True)) / np.where(sd > 0, sd, 1.0)
    labels = [np.zeros(n_genes, dtype=np.int64)]
    for size in scales[:-1]:
        labels.append(_split(profiles, labels[-1], size, seed))
    labels.append(np.arange(n_genes))
    order = np.lexsort(labels[::-1])
    ordered = (label[order] for label in labels[1:])
    return order, Hierarchy(tuple(np.unique(_run_ids(g), return_inverse=True)[1].astype(np.int64) for g in ordered))


def _split(profiles: NDArray[np.float64], labels: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Split the groups in ``labels`` into ``size`` subgroups by k-means on the genes' profiles."""
    ids, sizes = np.unique(labels, return_counts=True)
    fine = np.zeros_like(labels)
    start = 0
    for group, share in zip(ids, _shares(sizes.astype(np.int64), size), strict=True):
        members = np.flatnonzero(labels == group)
        fine[members] = start + _clusters(profiles[members], int(share), seed)
        start += int(share)
    return fine


def _clusters(profiles: NDArray[np.float64], number: int, seed: int) -> NDArray[np.int64]:
    """Cluster profiles by k-means into exactly ``number`` clusters; equal profiles are split where they must be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different profiles than clusters
        found = KMeans(number, n_init=10, random_state=seed).fit_predict(profiles)
    labels = np.unique(found, return_inverse=True)[1].astype(np.int64)
    for new in range(int(labels.max()) + 1, number):
        largest = np.bincount(labels).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = new
    return labels


def _run_ids(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the runs of equal labels along the panel the numbers 0, 1, ..."""
    return np.concatenate([[0], np.cumsum(np.diff(labels) != 0)])
