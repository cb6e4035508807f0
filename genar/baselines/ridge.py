"""Ridge regression, as well tuned as training sections allow."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from genar.baselines.known import Known, features_of
from genar.baselines.reduce import components_of, reduction
from genar.data.folds import Rows, inner_folds
from genar.data.spots import SpotTable
from genar.metrics import Prediction

ALPHAS = np.logspace(1, 5, 9)
MORE_ALPHAS = np.logspace(1, 5, 17)
NUMBERS = (64, 128, 256)


def tuned_ridge(train: SpotTable, tests: Sequence[SpotTable], seed: int) -> list[Prediction]:
    """Predict log2(count + 1) by ridge regression, each gene with a penalty of its own.

    The features are standardised, and all of them taken, or their first principal components. How many, of
    :data:`NUMBERS`, and each gene's penalty, of :data:`MORE_ALPHAS`, is what errs least on left-out training sections.

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
    numbers = dict.fromkeys(components_of(known.features, folds, number) for number in NUMBERS)
    errors = {number: _errors(known, folds, number, MORE_ALPHAS) for number in (*numbers, None)}
    best = min(errors, key=lambda number: float(errors[number].min(axis=0).sum()))
    alpha = MORE_ALPHAS[errors[best].argmin(axis=0)]
    fitted = _Ridge(known.features, known.logs, best)
    return [Prediction.of_log(fitted.predict(features_of(test), alpha)) for test in tests]


def fit_pca_ridge(known: Known, tests: Sequence[NDArray[np.floating]]) -> list[NDArray[np.float64]]:
    """Predict log2(count + 1) by ridge regression on principal components of the standardised features.

    There are 256 of them, or as many as the spots and features allow. The penalty, of all genes alike, is the one of
    :data:`ALPHAS` that does best on left-out training sections.

    Parameters
    ----------
    known
        Training spots.
    tests
        Features of the spots to predict, [M, D] for each section.

    Returns
    -------
    Predictions, [M, G] for each section.
    """
    folds = inner_folds(known.section)
    components = components_of(known.features, folds)
    error = _errors(known, folds, components, ALPHAS).mean(axis=1)
    fitted = _Ridge(known.features, known.logs, components)
    return [fitted.predict(test, ALPHAS[error.argmin()]) for test in tests]


def _errors(
    known: Known, folds: list[tuple[Rows, Rows]], components: int | None, alphas: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the squared error of each penalty and gene on left-out spots, [A, G], summed over the folds' means."""
    total = np.zeros((len(alphas), known.logs.shape[1]))
    for rows, held in folds:
        fitted = _Ridge(known.features[rows], known.logs[rows], components)
        for i, alpha in enumerate(alphas):
            total[i] += np.square(fitted.predict(known.features[held], alpha) - known.logs[held]).mean(axis=0)
    return total


class _Ridge:
    """Ridge regression with an intercept for any penalty: one eigendecomposition serves them all.

    It is that of the Gram matrix of the features, or of the spots where these are fewer.

    Parameters
    ----------
    features
        [N, D].
    logs
        Values to predict, [N, G].
    components
        Principal components to take; None for all features as they are.
    """

    def __init__(self, features: NDArray[np.floating], logs: NDArray[np.float64], components: int | None) -> None:
        self.reduction = reduction(components)
        x = self.reduction.fit_transform(features).astype(np.float64)
        self.centre, self.level = x.mean(axis=0), logs.mean(axis=0)
        x -= self.centre
        if len(x) < x.shape[1]:
            values, vectors = eigh(x @ x.T)
            self.vectors, self.loadings = x.T @ vectors, vectors.T @ (logs - self.level)
        else:
            values, self.vectors = eigh(x.T @ x)
            self.loadings = self.vectors.T @ (x.T @ (logs - self.level))
        self.values = np.maximum(values, 0.0)[:, None]

    def predict(self, features: NDArray[np.floating], alpha: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict spots [M, D] by a penalty, or one for each gene [G]: [M, G]."""
        x = self.reduction.transform(features) - self.centre
        predicted: NDArray[np.float64] = (x @ self.vectors) @ (self.loadings / (self.values + alpha)) + self.level
        return predicted
