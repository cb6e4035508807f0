"""Spots as tensors: what a model takes of them, for training and for prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.utils.data import Dataset

from genar import keys
from genar.model.condition import Spots
from genar.model.config import ModelConfig, PositionName
from genar.slide.section import metadata

Array = NDArray[np.float32]
CHUNK = 8192  # spots whose features are read at once
FLAT = 1e-6  # standard deviation up to which a feature counts as one that never varies


def position(spots: AnnData, name: PositionName) -> Array:
    """Return x and y, float32 [N, 2], of a slide's spots as ``ModelConfig.position`` says; zeros for ``"none"``."""
    xy = np.asarray(spots.obsm[keys.SPATIAL], dtype=np.float64)
    if name == "none":
        return np.zeros(xy.shape, dtype=np.float32)
    if name == "relative_um":
        mpp = float(metadata(spots)[keys.MPP])
        return np.asarray((xy - xy.mean(axis=0)) * mpp / 1000, dtype=np.float32)
    low, high = xy.min(axis=0), xy.max(axis=0)
    return np.asarray((xy - low) / np.where(high > low, high - low, 1.0), dtype=np.float32)


def neighbours(spots: AnnData, number: int) -> tuple[NDArray[np.int64], Array]:
    """Find the nearest spots of each spot of a slide.

    Returns
    -------
    rows
        int [N, number], nearest first; the spot itself where there are no more.
    offsets
        Where they lie from it, in pitches, float32 [N, number, 2]; NaN where there are no more.
    """
    xy = np.asarray(spots.obsm[keys.SPATIAL], dtype=np.float64)
    rows = np.tile(np.arange(len(xy))[:, None], number)
    offsets = np.full((len(xy), number, 2), np.nan, dtype=np.float32)
    found = min(number, len(xy) - 1)
    if found > 0:
        known = metadata(spots)
        rows[:, :found] = NearestNeighbors(n_neighbors=found).fit(xy).kneighbors(return_distance=False)
        pitch = float(known[keys.PITCH_UM]) / float(known[keys.MPP])
        offsets[:, :found] = (xy[rows[:, :found]] - xy[:, None]) / pitch
    return rows, offsets


def library_size(section: AnnData) -> float:
    """Return the median over spots of a measured section's total counts, over all its genes.

    They are taken from ``obs["total_counts"]`` where it is, since a section may hold but some of its genes.
    """
    known = keys.TOTAL_COUNTS in section.obs
    return float(np.median(section.obs[keys.TOTAL_COUNTS] if known else np.asarray(section.X.sum(axis=1))))


def counts_of(section: AnnData, genes: pd.Index) -> NDArray[np.int32]:
    """Return the counts of ``genes``, int32 [N, G]; 0 where the section did not measure one."""
    column = section.var_names.get_indexer(genes)
    counts = np.zeros((section.n_obs, len(genes)), dtype=np.int32)
    if len(genes):
        found = section.X[:, column[column >= 0]]
        counts[:, column >= 0] = found.toarray() if issparse(found) else found
    return counts


def _stacked(sections: Sequence[AnnData], genes: pd.Index) -> NDArray[np.integer]:
    """Return the counts of ``genes`` in all sections, [N, G], in as few bytes as hold them."""
    largest = max((s.X.max() for s in sections if len(genes) and s.n_vars), default=0)
    dtype = np.uint16 if largest <= np.iinfo(np.uint16).max else np.int32
    start = np.cumsum([0, *(s.n_obs for s in sections)])
    counts = np.empty((start[-1], len(genes)), dtype=dtype)
    for section, first in zip(sections, start, strict=False):
        counts[first : first + section.n_obs] = counts_of(section, genes)
    return counts


class Draw(NamedTuple):
    """Rows of a :class:`SpotTable`, and of each the view to take: 0 the tile as it is, i its i-th augmented view."""

    rows: NDArray[np.int64]
    views: NDArray[np.int64]


@dataclass(frozen=True)
class SpotTable(Dataset[dict[str, Tensor]]):
    """Spots of one or more slides, stacked, N in all. Features stay where they are, on disk if they are there.

    Parameters
    ----------
    features
        For each slide, float32 [N_s, D].
    views
        For each slide, features of augmented views of its tiles, float32 [N_s, V, D]; empty for none.
    start
        The first row of each slide, and N, int64 [S + 1].
    position
        float32 [N, 2].
    log_library_size
        Log of the slide's median library size, float32 [N].
    neighbours, offsets
        From :func:`neighbours`, rows of this table.
    counts
        uint16 [N, G] where that holds them, else int32; 0 where not measured.
    measured
        Which genes each slide measured, bool [S, G].
    names
        Name of each slide.
    context
        Whether the mean of the neighbours' features stands beside the spot's own in a batch.
    fold
        The inner fold of each spot, int64 [N], where a linear path was fitted without each in turn.
    """

    features: tuple[Array, ...]
    views: tuple[Array, ...]
    start: NDArray[np.int64]
    position: Array
    log_library_size: Array
    neighbours: NDArray[np.int64]
    offsets: Array
    counts: NDArray[np.integer]
    measured: NDArray[np.bool_]
    names: tuple[str, ...]
    context: bool = False
    fold: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        sections: Sequence[AnnData],
        genes: pd.Index | None,
        encoder: str,
        network: ModelConfig | None = None,
        depth: float | None = None,
    ) -> "SpotTable":
        """Stack slides.

        Parameters
        ----------
        sections
            Slides with features.
        genes
            Genes whose counts to take; None for slides that are not measured.
        encoder
            Name of the features' encoder.
        network
            The network that takes the table, for its position and neighbours.
        depth
            Median library size; by default measured.
        """
        network = network or ModelConfig()
        genes = pd.Index([]) if genes is None else genes
        start = np.cumsum([0, *(s.n_obs for s in sections)])
        around = [neighbours(s, network.neighbours) for s in sections]
        depths = np.array([max(library_size(s) if depth is None else depth, 1.0) for s in sections])
        return cls(
            features=tuple(s.obsm[keys.features(encoder)] for s in sections),
            views=tuple(s.obsm[keys.views(encoder)] for s in sections if keys.views(encoder) in s.obsm),
            start=start,
            position=np.concatenate([position(s, network.position) for s in sections]),
            log_library_size=np.repeat(np.log(depths).astype(np.float32), np.diff(start)),
            neighbours=np.concatenate([rows + first for (rows, _), first in zip(around, start, strict=False)]),
            offsets=np.concatenate([offsets for _, offsets in around]),
            counts=_stacked(sections, genes),
            measured=np.stack([genes.isin(s.var_names) for s in sections]),
            names=tuple(str(s.obs[keys.LIBRARY_ID].iloc[0]) for s in sections),
            context=network.context,
        )

    def ordered(self, genes: NDArray[np.int64]) -> "SpotTable":
        """Return the table with its genes in another order; the counts are put in order in place."""
        for start in range(0, len(self), CHUNK):
            rows = slice(start, start + CHUNK)
            self.counts[rows] = self.counts[rows][:, genes]
        return replace(self, measured=self.measured[:, genes])

    def mean_counts(self) -> NDArray[np.float64]:
        """Return each gene's mean count over the spots that measured it, [G]."""
        spots = np.diff(self.start) @ self.measured
        total = np.zeros(self.counts.shape[1])
        for start in range(0, len(self), CHUNK):
            total += self.counts[start : start + CHUNK].sum(axis=0, dtype=np.int64)
        return np.asarray(total / np.maximum(spots, 1))

    @property
    def section(self) -> NDArray[np.int64]:
        """The slide of each row, int64 [N]."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.start))

    def __len__(self) -> int:
        """Return the number of spots, N."""
        return int(self.start[-1])

    def __getitem__(self, draw: Draw) -> dict[str, Tensor]:
        """Return a batch of spots, as :meth:`batch` does."""
        return self.batch(draw.rows, draw.views)

    def batch(self, rows: NDArray[np.int64], views: NDArray[np.int64] | None = None) -> dict[str, Tensor]:
        """Return a batch of spots.

        Returns
        -------
        The fields of :class:`~genar.model.condition.Spots`; ``counts``; ``section``, the slide of each; and
        ``measured``, bool [B, G], unless every slide measured every gene.
        """
        section = np.searchsorted(self.start, rows, side="right") - 1
        found = {
            "features": self.seen(rows, views),
            "position": self.position[rows],
            "log_library_size": self.log_library_size[rows],
            "counts": self.counts[rows].astype(np.int32),
            "section": section,
        }
        if self.fold is not None:
            found["fold"] = self.fold[rows]
        if self.neighbours.shape[1] and not self.context:
            found["neighbour_features"] = self._neighbours(rows, section, None)
            found["neighbour_offsets"] = self.offsets[rows]
        if not self.measured.all():
            found["measured"] = self.measured[section]
        return {name: torch.from_numpy(array) for name, array in found.items()}

    def spots(self, rows: slice, device: torch.device | str) -> Spots:
        """Return a batch as the network takes it."""
        return spots_of(self.batch(np.arange(*rows.indices(len(self)))), device)

    def sample(self, most: int, seed: int) -> NDArray[np.int64]:
        """Return all rows, or ``most`` that the seed draws of more, rising."""
        if len(self) <= most:
            return np.arange(len(self))
        return np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False))

    def plain_features(self, rows: NDArray[np.int64]) -> Array:
        """Return the features of some spots' tiles as they are, float32 [B, D]."""
        return self._features(rows, np.searchsorted(self.start, rows, side="right") - 1, None)

    def feature_moments(self) -> tuple[Array, Array]:
        """Return the mean and standard deviation of a batch's features over all spots, float32 [D] each.

        The deviation of a feature that never varies is 1: what another slide has there is not blown up.
        """
        size = CHUNK // (1 + self.neighbours.shape[1])
        rows = [np.arange(start, min(start + size, len(self))) for start in range(0, len(self), size)]
        total = sum(self.seen(part).sum(axis=0, dtype=np.float64) for part in rows)
        mean = np.asarray(total) / len(self)
        squares = sum(np.square(self.seen(part) - mean).sum(axis=0) for part in rows)
        std = np.sqrt(np.asarray(squares) / len(self)).astype(np.float32)
        return mean.astype(np.float32), np.where(std > FLAT, std, np.float32(1))

    def seen(self, rows: NDArray[np.int64], views: NDArray[np.int64] | None = None) -> Array:
        """Return the features of a batch alone, float32 [B, D], or [B, 2D] with the context."""
        section = np.searchsorted(self.start, rows, side="right") - 1
        own = self._features(rows, section, views)
        return np.hstack([own, self._around(rows, section, views)]) if self.context else own

    def _around(self, rows: NDArray[np.int64], section: NDArray[np.int64], views: NDArray[np.int64] | None) -> Array:
        """Average the neighbours' features, float32 [B, D]; a spot without any has its own."""
        there: NDArray[np.bool_] = np.isfinite(self.offsets[rows, :, 0])
        there[:, 0] |= ~there.any(axis=1)  # where there is none, the row is the spot's own
        near = self._neighbours(rows, section, views) * there[..., None]
        return np.asarray(near.sum(axis=1) / there.sum(axis=1, keepdims=True), dtype=np.float32)

    def _neighbours(
        self, rows: NDArray[np.int64], section: NDArray[np.int64], views: NDArray[np.int64] | None
    ) -> Array:
        """Gather the neighbours' features, float32 [B, n, D], in the view that the spot is seen in."""
        around = self.neighbours[rows]
        n = around.shape[1]
        seen = None if views is None else np.repeat(views, n)
        return self._features(around.ravel(), np.repeat(section, n), seen).reshape(*around.shape, -1)

    def _features(self, rows: NDArray[np.int64], section: NDArray[np.int64], views: NDArray[np.int64] | None) -> Array:
        """Gather features, float32 [B, D], slide by slide."""
        found = np.empty((len(rows), self.features[0].shape[1]), dtype=np.float32)
        for s in np.unique(section):
            here = np.flatnonzero(section == s)
            own = rows[here] - self.start[s]
            found[here] = self.features[s][own]
            if views is not None and self.views:
                augmented = np.flatnonzero(views[here])
                found[here[augmented]] = self.views[s][own[augmented], views[here[augmented]] - 1]
        return found


def filled(values: NDArray[np.float64], measured: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Put each gene's mean over the spots that measured it, 0 where none did, in place of what was not: [N, G]."""
    mean = (values * measured).sum(axis=0) / np.maximum(measured.sum(axis=0), 1)
    return np.where(measured, values, mean)


def spots_of(batch: dict[str, Tensor], device: torch.device | str) -> Spots:
    """Return the part of a batch that the network takes, on its device."""
    return Spots(**{name: batch[name].to(device) for name in Spots.__dataclass_fields__ if name in batch})
