"""What the training spots that look most alike express."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.neighbors import NearestNeighbors

from genar.baselines.known import Known, features_of
from genar.baselines.reduce import components_of, reduction
from genar.data.folds import inner_folds
from genar.data.spots import SpotTable
from genar.metrics import Prediction

KS = (5, 10, 20, 50, 100)


def nearest_spots(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict the mean log2(count + 1) of the k training spots whose features are nearest.

    Near in 256 principal components of the standardised features, or as many as the data allow. The k is the one of
    :data:`KS` with the least squared error on left-out training sections.

    Parameters
    ----------
    train
        Training spots.
    tests
        Spots to predict, a table a section.
    seed
        Draws the spots, where there are very many.
    """
    known = Known.of(train, seed)
    folds = inner_folds(known.section)
    components = components_of(known.features, folds)
    ks = [k for k in KS if k <= min(len(rows) for rows, _ in folds)] or [1]
    error = np.zeros(len(ks))
    for rows, held in folds:
        means = _Means(known.features[rows], known.logs[rows], components, max(ks))
        near = means.nearest(known.features[held])
        error += [np.square(means.predict(near[:, :k]) - known.logs[held]).mean() for k in ks]
    k = ks[int(error.argmin())]
    means = _Means(known.features, known.logs, components, k)
    return [Prediction.of_log(means.predict(means.nearest(features_of(test)))) for test in tests]


class _Means:
    """Training spots to look up: as scikit-learn's KNeighborsRegressor, but that one search serves every k.

    Parameters
    ----------
    features
        [N, D].
    logs
        Values, [N, G].
    components
        Principal components in which distances are taken.
    k
        How many are found.
    """

    def __init__(self, features: NDArray[np.floating], logs: NDArray[np.float64], components: int, k: int) -> None:
        self.logs = logs
        self.reduction = reduction(components)
        self.search = NearestNeighbors(n_neighbors=k).fit(self.reduction.fit_transform(features))

    def nearest(self, features: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return rows of the nearest training spots, nearest first, int64 [M, k]."""
        found = self.search.kneighbors(self.reduction.transform(features), return_distance=False)
        return np.asarray(found, dtype=np.int64)

    def predict(self, near: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean values of training spots [M, k] at a time: [M, G]."""
        m, k = near.shape
        weight = csr_matrix((np.full(m * k, 1 / k), near.ravel(), np.arange(0, m * k + 1, k)), (m, len(self.logs)))
        return np.asarray(weight @ self.logs)
