"""Whether predicted genes lie in space as measured ones do, on a graph of a section's spots."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors, radius_neighbors_graph

from genar.metrics.correlation import pearson
from genar.metrics.values import Numbers, constant

Sparse = Any  # [N, N], of scipy
REACH = 1.25  # pitches: between 1 and the diagonal of a square lattice
K1, K2 = 0.01, 0.03  # Wang et al. (2004)


@dataclass(frozen=True)
class Neighbours:
    """Who is whose neighbour among N spots. Of several sections, join their graphs by ``scipy.sparse.block_diag``.

    Parameters
    ----------
    lag
        Takes the weighted mean over a spot's neighbours, sparse [N, N]; 0 where it has none.
    window
        Takes the mean over a spot and its neighbours, sparse [N, N].
    size
        Spots in each window, [N].
    """

    lag: Sparse
    window: Sparse
    size: NDArray[np.float64]

    @classmethod
    def of(cls, graph: Sparse) -> "Neighbours":
        """Take a graph: row i holds the weights, 0 or more, of spot i's neighbours, as squidpy's connectivities."""
        graph = sparse.csr_array(graph)
        weight = np.asarray(graph.sum(axis=1), dtype=np.float64)
        near = (graph.astype(bool) + sparse.eye_array(len(weight), dtype=bool)).astype(np.float64)
        size = np.asarray(near.sum(axis=1), dtype=np.float64)
        lag = sparse.diags_array(1 / np.where(weight > 0, weight, 1.0)) @ graph
        return cls(sparse.csr_array(lag), sparse.csr_array(sparse.diags_array(1 / size) @ near), size)


def nearest(xy: NDArray[np.floating], number: int = 6) -> Neighbours:
    """Join each spot to its nearest ones, as squidpy's ``spatial_neighbors(coord_type="generic")``.

    Parameters
    ----------
    xy
        Centres of the spots of one section, [N, 2].
    number
        How many; fewer where there are not as many.
    """
    found = min(number, len(xy) - 1)
    if found < 1:
        return Neighbours.of(sparse.csr_array((len(xy), len(xy))))
    return Neighbours.of(NearestNeighbors(n_neighbors=found).fit(xy).kneighbors_graph())


def adjacent(xy: NDArray[np.floating], reach: float = REACH) -> Neighbours:
    """Join the spots of a lattice that touch: six on a hexagonal one, four on a square one, fewer at its edge.

    Parameters
    ----------
    xy
        Centres of the spots of one section, [N, 2].
    reach
        How far apart they may be, in pitches; the pitch is the median distance of a spot to its nearest.
    """
    if len(xy) < 2:
        return nearest(xy)
    distance, _ = NearestNeighbors(n_neighbors=1).fit(xy).kneighbors()
    return Neighbours.of(radius_neighbors_graph(xy, reach * float(np.median(distance))))


def morans_i(values: Numbers, neighbours: Neighbours) -> NDArray[np.float64]:
    """Return Moran's I of each gene, the weights of each spot's neighbours standardised to a sum of 1.

    As ``squidpy.gr.spatial_autocorr``, and :func:`scanpy.metrics.morans_i` of the standardised graph.

    Parameters
    ----------
    values
        [N, G].
    neighbours
        Of the spots.

    Returns
    -------
    float64 [G], NaN where a gene is constant or no spot has a neighbour.
    """
    joined = int((neighbours.size > 1).sum())
    z = values - values.mean(axis=0, dtype=np.float64)
    flat = constant(values) | (joined == 0)
    power = np.where(flat, 1.0, np.einsum("ng,ng->g", z, z) / len(z))
    return np.where(flat, np.nan, np.einsum("ng,ng->g", z, neighbours.lag @ z) / max(joined, 1) / power)


def morans_agreement(predicted: NDArray[np.floating], measured: NDArray[np.floating]) -> tuple[float, float]:
    """Return the correlation over genes, and the mean absolute difference, of two Moran's I, [G] each.

    A gene whose measured I is undefined is left out; a constant prediction has no pattern, and counts as 0.
    """
    known = ~np.isnan(measured)
    if not known.any():
        return np.nan, np.nan
    a, b = np.nan_to_num(predicted[known], nan=0.0), measured[known]
    return float(pearson(a[:, None], b[:, None])[0]), float(np.abs(a - b).mean())


def ssim(predicted: Numbers, measured: Numbers, neighbours: Neighbours) -> NDArray[np.float64]:
    """Return each gene's structural similarity (Wang et al., 2004), spots with their neighbours for windows.

    As :func:`skimage.metrics.structural_similarity` with a uniform window: sample variances, K1 0.01 and K2 0.03, and
    as data range that of the gene's measured values.

    Parameters
    ----------
    predicted, measured
        Values on the log scale, [N, G].
    neighbours
        Of the spots; weights do not matter.

    Returns
    -------
    Means over the spots that have a neighbour, float64 [G]; NaN where the measured values are constant, which leaves
    no scale, or no spot has one.
    """
    joined = neighbours.size > 1
    local = ssim_map(predicted, measured, neighbours)
    total = (local if joined.all() else local[joined]).sum(axis=0)
    defined = ~constant(measured) & joined.any()
    return np.where(defined, total / max(int(joined.sum()), 1), np.nan)


def ssim_map(predicted: Numbers, measured: Numbers, neighbours: Neighbours) -> NDArray[np.float64]:
    """Return the structural similarity at each spot, float64 [N, G]; NaN where :func:`ssim` leaves it out."""
    size = neighbours.size[:, None]
    sample = np.where(size > 1, size / np.maximum(size - 1, 1), np.nan)
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    mean_x, mean_y, covariance, variances = (neighbours.window @ v for v in (x, y, x * y, x * x + y * y))
    span = np.ptp(y, axis=0)
    c1, c2 = (np.where(span > 0, (k * span) ** 2, np.nan) for k in (K1, K2))
    product = mean_x * mean_y  # from here in place: to allocate costs more than to compute
    power = np.add(np.square(mean_x, out=mean_x), np.square(mean_y, out=mean_y), out=mean_x)
    covariance -= product
    covariance *= 2 * sample
    np.maximum(np.subtract(variances, power, out=variances), 0, out=variances)
    variances *= sample
    product *= 2
    for part, c in ((product, c1), (covariance, c2), (power, c1), (variances, c2)):
        part += c
    product *= covariance
    power *= variances
    return np.asarray(np.divide(product, power, out=product), dtype=np.float64)
