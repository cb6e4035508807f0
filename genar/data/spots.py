"""Spots as tensors: what a model takes of them, for training and for prediction."""

from collections.abc import Sequence
from dataclasses import dataclass

import lightning as L
import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from genar import keys
from genar.model.condition import Spots
from genar.model.config import ModelConfig, PositionName
from genar.slide.section import metadata


def position(spots: AnnData, name: PositionName) -> NDArray[np.float32]:
    """Return x and y, float32 [N, 2], of a slide's spots as ``ModelConfig.position`` says; zeros for ``"none"``."""
    xy = np.asarray(spots.obsm[keys.SPATIAL], dtype=np.float64)
    if name == "none":
        return np.zeros(xy.shape, dtype=np.float32)
    if name == "relative_um":
        mpp = float(metadata(spots)[keys.MPP])
        return np.asarray((xy - xy.mean(axis=0)) * mpp / 1000, dtype=np.float32)
    low, high = xy.min(axis=0), xy.max(axis=0)
    return np.asarray((xy - low) / np.where(high > low, high - low, 1.0), dtype=np.float32)


def neighbours(spots: AnnData, number: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
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
    """Return the median over spots of a measured section's total counts, over all its genes."""
    return float(np.median(np.asarray(section.X.sum(axis=1))))


@dataclass(frozen=True)
class SpotTable(Dataset[dict[str, Tensor]]):
    """Spots of one or more slides, stacked.

    Parameters
    ----------
    features
        float32 [N, D].
    position
        float32 [N, 2].
    log_library_size
        Log of the slide's median library size, float32 [N].
    neighbours, offsets
        From :func:`neighbours`, rows of this table.
    counts
        int64 [N, G].
    section
        Section of each spot, [N].
    """

    features: NDArray[np.float32]
    position: NDArray[np.float32]
    log_library_size: NDArray[np.float32]
    neighbours: NDArray[np.int64]
    offsets: NDArray[np.float32]
    counts: NDArray[np.int64]
    section: NDArray[np.str_]

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
        start = np.cumsum([0, *(s.n_obs for s in sections)])
        around = [neighbours(s, network.neighbours) for s in sections]
        sizes = [library_size(s) if depth is None else depth for s in sections]
        none = np.empty((start[-1], 0), dtype=np.int64)
        return cls(
            np.concatenate([np.asarray(s.obsm[keys.features(encoder)], dtype=np.float32) for s in sections]),
            np.concatenate([position(s, network.position) for s in sections]),
            np.concatenate(
                [np.full(s.n_obs, np.log(max(v, 1.0)), np.float32) for s, v in zip(sections, sizes, strict=True)]
            ),
            np.concatenate([rows + first for (rows, _), first in zip(around, start, strict=False)]),
            np.concatenate([offsets for _, offsets in around]),
            none if genes is None else np.concatenate([s[:, genes].X.toarray().astype(np.int64) for s in sections]),
            np.concatenate([np.full(s.n_obs, str(s.obs[keys.LIBRARY_ID].iloc[0])) for s in sections]),
        )

    def __len__(self) -> int:
        """Return the number of spots, N."""
        return len(self.features)

    def __getitem__(self, rows: Sequence[int] | slice) -> dict[str, Tensor]:
        """Return a batch of spots: the fields of :class:`~genar.model.condition.Spots`, and ``counts``."""
        batch = {
            "features": self.features[rows],
            "position": self.position[rows],
            "log_library_size": self.log_library_size[rows],
            "counts": self.counts[rows],
        }
        if self.neighbours.shape[1]:
            batch |= {
                "neighbour_features": self.features[self.neighbours[rows]],
                "neighbour_offsets": self.offsets[rows],
            }
        return {name: torch.from_numpy(array) for name, array in batch.items()}

    def spots(self, rows: slice, device: torch.device | str) -> Spots:
        """Return a batch as the network takes it."""
        return Spots(**{name: tensor.to(device) for name, tensor in self[rows].items() if name != "counts"})


class SpotsDataModule(L.LightningDataModule):
    """Shuffled batches for training.

    Parameters
    ----------
    table
        The training spots.
    batch_size
        Spots a batch; a last, smaller batch is dropped unless it is the only one.
    """

    def __init__(self, table: SpotTable, batch_size: int) -> None:
        super().__init__()
        self.table, self.batch_size = table, batch_size

    def train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        """Return the batches."""
        whole = len(self.table) >= self.batch_size
        sampler = BatchSampler(RandomSampler(self.table), self.batch_size, drop_last=whole)
        return DataLoader(self.table, batch_size=None, sampler=sampler)
