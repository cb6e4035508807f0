"""What a benchmark compares: GenAR, its continuous control and the baselines, each trained on one fold."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd
import torch
from anndata import AnnData

from genar.baselines import BASELINES
from genar.data.splits import Split
from genar.data.spots import SpotTable
from genar.device import device_of
from genar.errors import ConfigError
from genar.jobs.config import TrainConfig
from genar.jobs.evaluation import GENAR
from genar.jobs.judge import predicted
from genar.jobs.train import Data, train_one
from genar.metrics import Prediction, Training
from genar.store import Model

CONTINUOUS = "continuous GenAR"
METHODS = (GENAR, CONTINUOUS, *BASELINES)
UNSEEDED = ("gene mean", "k-nearest spots", "HEST-Bench ridge", "ridge")  # run once, whatever the seeds


@dataclass(frozen=True)
class Fold:
    """One fold: what every method learns from, and the sections that it is judged on.

    Parameters
    ----------
    config
        How the networks are trained.
    data
        The sections.
    run
        Which of their splits.
    """

    config: TrainConfig
    data: Data
    run: str

    @property
    def split(self) -> Split:
        """Who is on which side."""
        return self.data.runs[self.run]

    @property
    def genes(self) -> pd.Index:
        """The panel, of the sections that the final network of the fold is trained on."""
        return (self.data.refits if self.config.trainer.refit else self.data.panels)[self.run]

    @property
    def tests(self) -> list[AnnData]:
        """The sections left out."""
        return self.data.of(self.split.test)

    @cached_property
    def known(self) -> SpotTable:
        """The spots that a baseline learns from: those that the networks learn from, or are stopped by."""
        return SpotTable.of(self.data.of(self.split.learnt), self.genes, self.config.tiles.encoder)

    @cached_property
    def training(self) -> Training:
        """What judging takes from the training counts."""
        return Training.of(self.known.counts, self.known.measured[self.known.section])

    def predictions(self, method: str, seed: int, folder: Path) -> list[Prediction]:
        """Train a method and predict each section left out, of :attr:`genes`.

        Parameters
        ----------
        method
            One of :data:`METHODS`.
        seed
            Of the method; the split and the features do not depend on it.
        folder
            Where a network is trained, and its training goes on.
        """
        if method in BASELINES:
            tables = [SpotTable.of([test], None, self.config.tiles.encoder) for test in self.tests]
            return BASELINES[method](self.known, tables, seed)
        model = train_one(_variant(self.config, method, seed), self.data, self.run, folder)
        order = model.panel.index.get_indexer(self.genes)
        device = device_of(self.config.trainer.device)
        return [_predicted(model, test, device).genes(order) for test in self.tests]


def check_methods(methods: tuple[str, ...]) -> None:
    """Raise ConfigError unless all ``methods`` are known, and named once."""
    for number, name in enumerate(methods):
        if name not in METHODS:
            raise ConfigError("--methods", f"{name!r} is not known", f"give some of: {', '.join(METHODS)}")
        if name in methods[:number]:
            raise ConfigError("--methods", f"{name!r} is named twice", "name it once")


def seeds_of(method: str, first: int, seeds: int) -> range:
    """Return the seeds that a method is run with."""
    return range(first, first + (1 if method in UNSEEDED else seeds))


def _variant(config: TrainConfig, method: str, seed: int) -> TrainConfig:
    """Return how a network is trained: as configured, or to regress log1p counts (the paper's control)."""
    settings = config.model_dump() | {"seed": seed}
    if method == CONTINUOUS:
        settings["model"] |= {"distribution": "mse", "linear": False}
        settings["trainer"] |= {"monitor": "pcc"}  # a regression has no likelihood
    return TrainConfig.model_validate(settings)


def _predicted(model: Model, section: AnnData, device: torch.device) -> Prediction:
    """Predict a section left out; a regression has no distribution."""
    found = predicted(model, section, device)
    return replace(found, spread=None) if model.info.network.distribution == "mse" else found
