"""How unlike the training tissue a spot's features are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from genar.data.folds import inner_folds
from genar.data.spots import CHUNK, SpotTable

Array = NDArray[np.float32]

COMPONENTS = 64  # at most
SPOTS_EACH = 8  # training spots a component, at least: of fewer, variances and the residual are too small
MOST_FITTED = 20_000  # training spots, which are held in memory
REGIONS = 5  # of a single section
FEWEST = 8  # spots that a reference is of, at least
FLAT = 1e-6  # share of the variance below which a direction, or what is left, counts as none
FAR = 99.0  # percentile from which a spot counts as unlike the training tissue
MANY = 0.2  # share of such spots from which it is said


@dataclass(frozen=True)
class Reference:
    """What features of the training tissue look like.

    Of features x of length 1 the distance is the root of

        (1 / k) sum_i z_i^2 / v_i + r^2 / s^2,

    z_i the k principal components of x - mean, v_i their variances over the training spots, r the length of what they
    leave of x - mean, s^2 the mean of r^2 over the training spots: a Mahalanobis distance in the components (Lee et
    al., NeurIPS 2018) of features of length 1 (Mueller and Hein, ICML 2025), and the residual beside it. Each of the
    two terms is 1 on average over the training spots.

    Parameters
    ----------
    mean
        float32 [D].
    components, variance
        float32 [k, D] and [k].
    residual
        s^2.
    quantiles
        The percentiles 0, 1, ... 100 of the distances that left-out training spots have from the others, float32 [101].
    """

    mean: Array
    components: Array
    variance: Array
    residual: float
    quantiles: Array

    def distance(self, features: NDArray[np.floating]) -> Array:
        """Return the distances of spots, float32 [N], from their features [N, D]."""
        parts = [self._distance(features[i : i + CHUNK]) for i in range(0, len(features), CHUNK)]
        return np.concatenate([np.empty(0, np.float32), *parts])

    def percentile(self, features: NDArray[np.floating]) -> Array:
        """Return the percentile, float32 [N] in 0..100, that the distances of spots have among left-out training spots.

        It is 100 beyond the largest distance among those.
        """
        return np.interp(self.distance(features), self.quantiles, np.arange(101)).astype(np.float32)

    def tensors(self) -> dict[str, Array]:
        """Return what is stored, by name."""
        return vars(self) | {"residual": np.array([self.residual], np.float32)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array], dim: int) -> "Reference":
        """Take up what was stored, for features of dimension ``dim``.

        Raises
        ------
        KeyError, ValueError
            If something is missing or cannot be.
        """
        found = {name: np.asarray(tensors[name], dtype=np.float32) for name in cls.__dataclass_fields__}
        k = len(found["variance"])
        wanted = {"mean": (dim,), "components": (k, dim), "variance": (k,), "residual": (1,), "quantiles": (101,)}
        for name, array in found.items():
            if array.shape != wanted[name] or not np.isfinite(array).all():
                msg = f"the reference's {name} is not finite, or of shape {array.shape}, not {wanted[name]}"
                raise ValueError(msg)
        if not ((found["variance"] > 0).all() and found["residual"] > 0 and (np.diff(found["quantiles"]) >= 0).all()):
            msg = "the reference's variances are not above 0, or its quantiles not in order"
            raise ValueError(msg)
        residual = float(found.pop("residual")[0])
        return cls(**found, residual=residual)

    def _distance(self, features: NDArray[np.floating]) -> Array:
        """Return distances of as many spots as fit into memory."""
        x = _unit(features) - self.mean
        z = x @ self.components.T
        left = np.square(x - z @ self.components).sum(axis=1)
        inside = (z**2 / self.variance).sum(axis=1) / max(len(self.variance), 1)
        return np.asarray(np.sqrt(inside + left / self.residual), dtype=np.float32)


def fit(table: SpotTable, xy: NDArray[np.floating]) -> Reference | None:
    """Describe the training tissue.

    Distances that are known are of each section from a reference of the others (of a fifth of the sections, where there
    are more than five; of a region, where there is one): in-sample ones flatter. Of very many spots some are drawn.

    Parameters
    ----------
    table
        The training spots, N.
    xy
        Their centres, [N, 2], by which a single section is cut into regions.

    Returns
    -------
    The reference; None where there are too few spots to tell, or features that are no numbers, of which nothing can be
    learnt.
    """
    rows = table.sample(MOST_FITTED, 0)
    fold = _folds(table.section[rows], xy[rows])
    fewest = len(rows) - int(np.bincount(fold).max())
    if fewest < FEWEST:
        return None
    features = table.plain_features(rows)
    if not np.isfinite(features).all():
        return None
    k = min(COMPONENTS, fewest // SPOTS_EACH, features.shape[1])  # as many each time: distances depend on it
    distances = [_describe(features[fold != f], k).distance(features[fold == f]) for f in np.unique(fold)]
    known = np.quantile(np.concatenate(distances), np.linspace(0, 1, 101)).astype(np.float32)
    return replace(_describe(features, k), quantiles=known)


def unlike(percentile: NDArray[np.floating]) -> float:
    """Return the share of spots that look unlike the training tissue; 0 of none."""
    return float(np.mean(percentile > FAR)) if len(percentile) else 0.0


def ood_warning(percentile: NDArray[np.floating], model: str) -> str | None:
    """Return a sentence if many spots look unlike what ``model`` was trained on, else None."""
    share = unlike(percentile)
    if share <= MANY:
        return None
    return (
        f"{100 * share:.0f} % of spots look unlike the tissue that {model} was trained on (ood > {FAR:g}): "
        "do not rely on their counts"
    )


def _folds(section: NDArray[np.int64], xy: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return which part each spot is left out with, int [N]."""
    if len(np.unique(section)) == 1:
        regions = min(REGIONS, len(np.unique(xy, axis=0)))
        return np.asarray(KMeans(regions, n_init=1, random_state=0).fit_predict(xy), dtype=np.int64)
    fold = np.empty(len(section), dtype=np.int64)
    for number, (_, held) in enumerate(inner_folds(section)):
        fold[held] = number
    return fold


def _describe(features: Array, k: int) -> Reference:
    """Fit mean, at most k components and variances to features [N, D]; no distances are known yet."""
    x = _unit(features)
    mean = x.mean(axis=0, dtype=np.float64).astype(np.float32)
    total = max(float(np.square(x - mean).sum(axis=1).mean()), 1e-12)
    with np.errstate(invalid="ignore"):  # the share of a variance of none
        pca = PCA(k, random_state=0).fit(x - mean)
    kept = pca.explained_variance_ > FLAT * total
    components, variance = (a[kept].astype(np.float32) for a in (pca.components_, pca.explained_variance_))
    z = (x - mean) @ components.T
    left = float(np.square(x - mean - z @ components).sum(axis=1).mean())
    return Reference(mean, components, variance, max(left, FLAT * total), np.empty(0, np.float32))


def _unit(features: NDArray[np.floating]) -> Array:
    """Scale features to length 1; those of length 0 stay as they are."""
    x = np.asarray(features, dtype=np.float32)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(length > 0, length, 1), dtype=np.float32)
