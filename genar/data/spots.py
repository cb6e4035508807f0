"""Spots as tensors, for training."""

from collections.abc import Sequence
from dataclasses import dataclass

import lightning as L
import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from numpy.typing import NDArray
from torch.utils.data import DataLoader, TensorDataset

from genar import keys

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def scaled_position(spots: AnnData) -> NDArray[np.float32]:
    """Scale x and y of a slide's spots to [0, 1], each axis by its own range, as in the paper: float32 [N, 2]."""
    xy = np.asarray(spots.obsm[keys.SPATIAL], dtype=np.float64)
    low, high = xy.min(axis=0), xy.max(axis=0)
    return np.asarray((xy - low) / np.where(high > low, high - low, 1.0), dtype=np.float32)


@dataclass(frozen=True)
class SpotTable:
    """Spots of one or more sections, stacked.

    Parameters
    ----------
    features
        float32 [N, D].
    position
        float32 [N, 2], in [0, 1] over each section.
    counts
        int64 [N, G].
    section
        Section of each spot, [N].
    """

    features: NDArray[np.float32]
    position: NDArray[np.float32]
    counts: NDArray[np.int64]
    section: NDArray[np.str_]

    @classmethod
    def of(cls, sections: Sequence[AnnData], genes: pd.Index, encoder: str) -> "SpotTable":
        """Stack the ``genes`` and the ``encoder``'s features of sections."""
        return cls(
            np.concatenate([np.asarray(s.obsm[keys.features(encoder)], dtype=np.float32) for s in sections]),
            np.concatenate([scaled_position(s) for s in sections]),
            np.concatenate([s[:, genes].X.toarray().astype(np.int64) for s in sections]),
            np.concatenate([np.full(s.n_obs, str(s.obs[keys.LIBRARY_ID].iloc[0])) for s in sections]),
        )


class SpotsDataModule(L.LightningDataModule):
    """Shuffled batches of (features, position, counts) for training.

    Parameters
    ----------
    table
        The training spots.
    batch_size
        Spots a batch; a last, smaller batch is dropped unless it is the only one.
    """

    def __init__(self, table: SpotTable, batch_size: int) -> None:
        super().__init__()
        arrays = (table.features, table.position, table.counts)
        self.dataset = TensorDataset(*(torch.from_numpy(a) for a in arrays))
        self.batch_size = batch_size

    def train_dataloader(self) -> DataLoader[tuple[torch.Tensor, ...]]:
        """Return the batches."""
        return DataLoader(self.dataset, self.batch_size, shuffle=True, drop_last=len(self.dataset) >= self.batch_size)
