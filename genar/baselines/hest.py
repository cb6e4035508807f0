"""The regression of HEST-Bench (Jaume et al., NeurIPS 2024), number by number."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genar.baselines.known import Known, features_of
from genar.baselines.reduce import COMPONENTS
from genar.data.spots import SpotTable
from genar.metrics import Prediction

SEED = 1  # HEST-Bench's
ITERATIONS = 1000


def hest_ridge(
    train: NDArray[np.floating], train_log1p: NDArray[np.floating], test: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Predict as HEST-Bench does: ridge regression on principal components of the standardised features.

    Its published settings: 256 components (fewer where the data allow no more), the penalty ``100 / (C G)`` of C
    components and G genes, solved by LSQR, and no intercept. Since the components have mean 0, the predictions then
    have mean 0, too: they rank spots, which is all that the benchmark's correlation asks, and miss each gene's level.

    Parameters
    ----------
    train
        Features of the training spots, [N, D].
    train_log1p
        Their natural log of (count + 1), [N, G].
    test
        Features of the spots to predict, [M, D].

    Returns
    -------
    Predicted log1p counts, [M, G], in the precision of the features.
    """
    components = min(COMPONENTS, *train.shape)
    alpha = 100 / (components * train_log1p.shape[1])
    ridge = Ridge(alpha, fit_intercept=False, max_iter=ITERATIONS, solver="lsqr", random_state=SEED)
    model = make_pipeline(StandardScaler(), PCA(components, random_state=SEED), ridge).fit(train, train_log1p)
    predicted: NDArray[np.floating] = model.predict(test).reshape(len(test), -1)  # of one gene it is [M]
    return predicted


def hest_bench_ridge(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict by :func:`hest_ridge`, whose natural log becomes log2(count + 1)."""
    known = Known.of(train, seed)
    target = known.logs * np.log(2)
    predicted = hest_ridge(known.features, target, np.concatenate([features_of(test) for test in tests]))
    parts = np.split(np.asarray(predicted, dtype=np.float64), np.cumsum([len(test) for test in tests])[:-1])
    return [Prediction(part / np.log(2), np.maximum(np.expm1(part), 0.0)) for part in parts]
