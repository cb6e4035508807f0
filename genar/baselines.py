"""What a prediction has to beat."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDS = 5  # of the training sections, or of the spots of a single one
ALPHAS = np.logspace(1, 5, 9)


def pca_ridge(
    features: NDArray[np.floating],
    log_counts: NDArray[np.floating],
    section: NDArray[np.generic],
    tests: Sequence[NDArray[np.floating]],
) -> list[NDArray[np.float64]]:
    """Predict log2(count + 1) by ridge regression on principal components of the standardised features.

    There are 256 of them, or as many as the spots and features allow.

    The penalty is the one of :data:`ALPHAS` that does best on left-out training sections.

    Parameters
    ----------
    features, log_counts
        Training spots: [N, D], and log2(count + 1), [N, G].
    section
        The section of each training spot, [N].
    tests
        Features of the spots to predict, [M, D] for each section.

    Returns
    -------
    Predictions, [M, G] for each section.
    """
    n_sections = len(np.unique(section))
    splitter = LeaveOneGroupOut() if 1 < n_sections <= FOLDS else GroupKFold(FOLDS)
    groups = section if n_sections > 1 else np.arange(len(section))
    smallest = min(len(train) for train, _ in splitter.split(features, groups=groups))
    components = min(256, smallest, features.shape[1])
    error = np.zeros(len(ALPHAS))
    for train, held in splitter.split(features, groups=groups):
        reduce = make_pipeline(StandardScaler(), PCA(components, random_state=0)).fit(features[train])
        known, unknown = reduce.transform(features[train]), reduce.transform(features[held])
        for i, alpha in enumerate(ALPHAS):  # the components of a fold serve all penalties
            predicted = Ridge(alpha).fit(known, log_counts[train]).predict(unknown)
            error[i] += mean_squared_error(log_counts[held], predicted)
    best = make_pipeline(StandardScaler(), PCA(components, random_state=0), Ridge(ALPHAS[error.argmin()]))
    best.fit(features, log_counts)
    return [np.asarray(best.predict(test), dtype=np.float64) for test in tests]


def gene_mean(log_counts: NDArray[np.floating], n_spots: int) -> NDArray[np.float64]:
    """Predict, for every spot, each gene's mean log2(count + 1) over the training spots: [n_spots, G]."""
    return np.repeat(log_counts.mean(axis=0, keepdims=True), n_spots, axis=0)
