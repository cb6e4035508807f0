"""Features as regressions take them: standardised, and their principal components."""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from genar.data.folds import Rows

COMPONENTS = 256


def reduction(components: int | None, seed: int = 0) -> Pipeline:
    """Return what standardises features and takes ``components`` of them; None for all features as they are."""
    steps = [StandardScaler()] if components is None else [StandardScaler(), PCA(components, random_state=seed)]
    return make_pipeline(*steps)


def components_of(features: NDArray[np.floating], folds: list[tuple[Rows, Rows]], wanted: int = COMPONENTS) -> int:
    """Return how many components of features [N, D] every fold allows, up to ``wanted``."""
    smallest = min(len(train) for train, _ in folds)
    return int(min(wanted, features.shape[1], smallest))
