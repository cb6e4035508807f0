"""A small network with none of GenAR's structure: squared error on log2(count + 1)."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genar.baselines.fit import Batch, Recipe, chunks, fit
from genar.data.spots import SpotTable
from genar.metrics import Prediction

HIDDEN, DROPOUT = 256, 0.5
RECIPE = Recipe(lr=3e-4, weight_decay=30.0)  # which bounds a weight by 1 / 30 or so


class Standardised(nn.Module):
    """Features standardised by the training spots' moments; one that never varies is only centred.

    Parameters
    ----------
    table
        Training spots.
    """

    def __init__(self, table: SpotTable) -> None:
        super().__init__()
        mean, std = table.feature_moments()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("std", torch.from_numpy(std))

    def forward(self, features: Tensor) -> Tensor:
        """Standardise ``features`` [B, D]."""
        return (features - self.mean) / self.std


def network(table: SpotTable, hidden: int = HIDDEN, dropout: float = DROPOUT) -> nn.Sequential:
    """Make the untrained network, which begins at each gene's mean: [B, D] to [B, G]."""
    last = nn.Linear(hidden, table.counts.shape[1])
    nn.init.zeros_(last.weight)
    last.bias.data.copy_(torch.from_numpy(np.log2(table.mean_counts() + 1)))
    first = nn.Linear(table.features[0].shape[1], hidden)
    return nn.Sequential(Standardised(table), nn.Dropout(dropout), first, nn.GELU(), nn.Dropout(dropout), last)


def squared_error(network: nn.Module, batch: Batch) -> Tensor:
    """Return the squared error of log2(count + 1), [B, G]."""
    predicted: Tensor = network(batch["features"])
    return (predicted - torch.log2(batch["counts"].float() + 1)).square()


def mlp_regression(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict log2(count + 1) by a network of one hidden layer, from the features alone.

    Width, dropout, learning rate and weight decay were chosen once, by training as here without one of the four
    training sections of each fold of her2st C2 to C6, and judging on that one.

    Parameters
    ----------
    train
        Training spots.
    tests
        Spots to predict, a table a section.
    seed
        See :func:`genar.baselines.fit.fit`.
    """
    trained = fit(lambda: network(train), squared_error, train, seed, RECIPE)
    return [Prediction.of_log(_predict(trained, test)) for test in tests]


@torch.inference_mode()
def _predict(trained: nn.Module, table: SpotTable) -> NDArray[np.float32]:
    parts = [trained(table.batch(rows)["features"]) for rows in chunks(len(table))]
    return torch.cat(parts).numpy()
