"""GenAR's condition without its decoder: a negative binomial of each gene, given the spot."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from genar.baselines.fit import Batch, Recipe, chunks, fit
from genar.data.spots import SpotTable, spots_of
from genar.estimate import log_mean
from genar.metrics import Prediction
from genar.model.condition import Condition
from genar.model.config import ModelConfig
from genar.model.distributions import NegativeBinomial

CONFIG = ModelConfig(
    distribution="nb", condition_width=128, histology_width=128, dropout=0.2, feature_dropout=0.5, position="none"
)  # the sizes of configs/her2st-mini.yaml
RECIPE = Recipe(lr=3e-3, weight_decay=0.01)
CELLS = 2**24  # probabilities in memory at once


class Regression(nn.Module):
    """The condition, a linear layer to each gene's log mean, and a log dispersion of each gene, free of the spot.

    Parameters
    ----------
    table
        Training spots, whose mean counts it begins at.
    """

    def __init__(self, table: SpotTable) -> None:
        super().__init__()
        self.condition = Condition(CONFIG, table.features[0].shape[1])
        mean, std = table.feature_moments()
        self.condition.feature_mean.copy_(torch.from_numpy(mean))
        self.condition.feature_std.copy_(torch.from_numpy(std))
        level = np.maximum(table.mean_counts(), 1e-3)
        self.log_mean = nn.Linear(CONFIG.condition_width, len(level))
        nn.init.zeros_(self.log_mean.weight)
        self.log_mean.bias.data.copy_(torch.from_numpy(np.log(level)))
        self.log_dispersion = nn.Parameter(torch.zeros(len(level)))
        self.law = NegativeBinomial(CONFIG, max(1, int(table.counts.max(initial=0))), 2)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logs of mean and dispersion, [B, G, 2]."""
        level = self.log_mean(self.condition(spots_of(batch, "cpu")))
        return torch.stack([level, self.log_dispersion.expand_as(level)], dim=-1)


def likelihood(network: Regression, batch: Batch) -> Tensor:
    """Return the negative log-likelihood of each count, [B, G]."""
    return network.law.loss(network(batch), batch["counts"].float(), last=True)


def nb_regression(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict a negative binomial of each gene.

    The estimate of log2(count + 1) is its expectation over counts up to the largest of the training spots, that of the
    count the mean. The learning rate was chosen as those of :func:`genar.baselines.mlp.mlp_regression` were.

    Parameters
    ----------
    train
        Training spots.
    tests
        Spots to predict, a table a section.
    seed
        See :func:`genar.baselines.fit.fit`.
    """
    trained = fit(lambda: Regression(train), likelihood, train, seed, RECIPE)
    return [_predict(trained, test) for test in tests]


@torch.inference_mode()
def _predict(trained: Regression, table: SpotTable) -> Prediction:
    law, genes = trained.law, len(trained.log_dispersion)
    logs, means = [], []
    for rows in chunks(len(table), max(1, CELLS // (genes * (law.max_count + 1)))):
        out = trained(table.batch(rows))
        logs.append(log_mean(law.probabilities(out)))
        means.append(out[..., 0].exp())
    return Prediction(torch.cat(logs).double().numpy(), torch.cat(means).double().numpy())
