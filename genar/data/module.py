"""Batches of spots under Lightning."""

from collections.abc import Iterator

import lightning as L
import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from genar.data.spots import Draw, SpotTable


class Batches(Sampler[Draw]):
    """The batches of one process in an epoch.

    All processes shuffle alike, and each takes its part of every batch: two processes see together what one would.

    Parameters
    ----------
    table
        The spots.
    batch_size
        Spots a batch, of all processes together.
    seed
        Seed of the order; None for the table's own order, each spot once and as it is.
    rank, processes
        Which process this is, and of how many.
    """

    def __init__(self, table: SpotTable, batch_size: int, seed: int | None, rank: int = 0, processes: int = 1) -> None:
        self.table, self.batch_size, self.seed = table, batch_size, seed
        self.rank, self.processes, self.epoch = rank, processes, 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch follows; Lightning calls this, also after a resumption."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches; a last, smaller one is left out in training, unless it is the only one."""
        whole, rest = divmod(len(self.table), self.batch_size)
        return whole + (rest > 0 and (self.seed is None or whole == 0))

    def __iter__(self) -> Iterator[Draw]:
        """Draw the batches."""
        n = len(self.table)
        rows, views = np.arange(n), np.zeros(n, dtype=np.int64)
        if self.seed is not None:
            random = np.random.Generator(np.random.Philox(key=np.array([self.seed, self.epoch], dtype=np.uint64)))
            rows = random.permutation(n)
            if self.table.views:
                views = random.integers(self.table.views[0].shape[1] + 1, size=n)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            own = slice(start + self.rank, min(start + self.batch_size, n), self.processes)
            yield Draw(rows[own], views[own])


class SpotsDataModule(L.LightningDataModule):
    """Shuffled batches for training, and the held-out spots that it is stopped by.

    Parameters
    ----------
    train
        The training spots.
    validation
        The held-out spots, if any.
    batch_size
        Spots a batch, of all processes together.
    seed
        Seed of the order.
    workers
        Processes that read beside each that trains.
    first_epoch
        The epoch that a resumed training begins with: Lightning fetches its first batch before it says so.
    """

    def __init__(
        self,
        train: SpotTable,
        validation: SpotTable | None,
        batch_size: int,
        *,
        seed: int = 0,
        workers: int = 0,
        first_epoch: int = 0,
    ) -> None:
        super().__init__()
        self.train, self.validation, self.batch_size = train, validation, batch_size
        self.seed, self.workers, self.first_epoch = seed, workers, first_epoch

    def train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        """Return the training batches."""
        return self._loader(self.train, self.seed)

    def val_dataloader(self) -> DataLoader[dict[str, Tensor]] | list[object]:
        """Return the held-out batches."""
        return [] if self.validation is None else self._loader(self.validation, None)

    def _loader(self, table: SpotTable, seed: int | None) -> DataLoader[dict[str, Tensor]]:
        rank, processes = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        batches = Batches(table, self.batch_size, seed, rank, processes)
        batches.set_epoch(self.first_epoch)
        return DataLoader(
            table,
            batch_size=None,
            sampler=batches,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            pin_memory=self.trainer is not None and self.trainer.strategy.root_device.type == "cuda",
        )
