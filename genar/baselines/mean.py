"""The least that a prediction has to beat."""

from collections.abc import Sequence

import numpy as np

from genar.baselines.known import Known
from genar.data.spots import SpotTable
from genar.metrics import Prediction


def gene_mean(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict each gene's mean log2(count + 1) over the training spots, everywhere."""
    mean = Known.of(train, seed).logs.mean(axis=0)
    return [Prediction.of_log(np.tile(mean, (len(test), 1))) for test in tests]
