"""Clusters of genes: labels and orders, nothing of scales' meaning."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

Labels = NDArray[np.int64]  # the group of each gene, [G]

RESTARTS = 10
FIRST_STAGE, LARGEST_WHOLE, SECOND_STAGE = 4, 10, 12  # the published clusters, and genes in one


def profiles(counts: NDArray[np.floating]) -> NDArray[np.float64]:
    """Describe genes by their z-scored counts, so that distances between genes are those of z-scores.

    Parameters
    ----------
    counts
        float [N, G], NaN where not measured.

    Returns
    -------
    float64 [G, min(N, G)]. G points span at most G dimensions: with more spots than genes, the axes are turned into
    those, which changes no distance and makes clustering independent of the number of spots.
    """
    values = counts.T.astype(np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice|Degrees of freedom", RuntimeWarning)  # measured nowhere
        values -= np.nanmean(values, axis=1, keepdims=True)
        sd = np.nanstd(values, axis=1, keepdims=True)
    values /= np.where(sd > 0, sd, 1.0)
    np.nan_to_num(values, copy=False)
    if values.shape[1] <= values.shape[0]:
        return values
    size, axes = np.linalg.eigh(values @ values.T)
    return np.asarray(axes * np.sqrt(np.clip(size, 0, None)))


def kmeans(points: NDArray[np.float64], number: int, seed: int) -> Labels:
    """Cluster genes by k-means into at most ``number`` clusters: labels, int64 [G]."""
    if number == 1:
        return np.zeros(len(points), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different genes than clusters
        found = KMeans(number, n_init=RESTARTS, random_state=seed).fit_predict(points)
    return np.asarray(found, dtype=np.int64)


def two_stage_order(points: NDArray[np.float64], seed: int) -> Labels:
    """Order genes as published: 4 clusters; those of more than 10 genes again, into a twelfth of their number."""
    order = []
    first = kmeans(points, min(FIRST_STAGE, len(points)), seed)
    for cluster in range(FIRST_STAGE):
        members = np.flatnonzero(first == cluster)
        if members.size > LARGEST_WHOLE:
            second = kmeans(points[members], max(2, members.size // SECOND_STAGE), seed)
            members = members[np.argsort(second, kind="stable")]
        order.append(members)
    return np.concatenate(order)


def nested_kmeans(points: NDArray[np.float64], scales: tuple[int, ...], seed: int) -> list[Labels]:
    """Cluster genes by k-means inside each group of the scale before: labels at each scale, the last one a gene each.

    A group's share of the next scale's groups follows its number of genes.
    """
    labels = [np.zeros(len(points), dtype=np.int64)]
    for size in scales[:-1]:
        fine, start = np.zeros_like(labels[-1]), 0
        for group, share in enumerate(_shares(np.bincount(labels[-1]), size)):
            members = np.flatnonzero(labels[-1] == group)
            fine[members] = start + _exactly(kmeans(points[members], int(share), seed), int(share))
            start += int(share)
        labels.append(fine)
    return [*labels[1:], np.arange(len(points))]


def random_groups(scales: tuple[int, ...], seed: int) -> list[Labels]:
    """Split genes in random order into nested groups of near-equal size: labels as of :func:`nested_kmeans`."""
    rank = np.random.default_rng(seed).permutation(scales[-1])
    sizes = np.array([scales[-1]])
    labels = []
    for scale in scales[:-1]:
        shares = _shares(sizes, scale)
        sizes = np.concatenate([np.diff(np.arange(n + 1) * size // n) for size, n in zip(sizes, shares, strict=True)])
        labels.append(np.repeat(np.arange(scale), sizes)[rank])
    return [*labels, rank]


def _shares(sizes: Labels, total: int) -> Labels:
    """Split ``total`` subgroups over groups in proportion to their sizes, each getting 1 to its size."""
    shares = np.ones_like(sizes)
    while shares.sum() < total:
        room = np.where(shares < sizes, sizes / shares, -1.0)
        shares[int(room.argmax())] += 1
    return shares


def _exactly(found: Labels, number: int) -> Labels:
    """Renumber clusters from 0 and split the largest until there are ``number``."""
    labels = np.unique(found, return_inverse=True)[1].astype(np.int64)
    for new in range(int(labels.max()) + 1, number):
        largest = np.bincount(labels).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = new
    return labels
