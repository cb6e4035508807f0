import warnings

import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from anndata import AnnData
from scipy import sparse
from skimage.metrics import structural_similarity

from genar.metrics.spatial import Neighbours, adjacent, morans_agreement, morans_i, nearest, ssim, ssim_map


def lattice(width: int, height: int, *, hexagonal: bool = False) -> np.ndarray:
    row, column = np.divmod(np.arange(width * height), width)
    return np.stack([column + hexagonal * (row % 2) / 2, row * (3**0.5 / 2 if hexagonal else 1)], axis=1) * 100.0


@pytest.fixture
def values() -> np.ndarray:
    rng = np.random.default_rng(0)
    xy = lattice(12, 10) / 100
    return np.sin(xy @ rng.normal(0, 0.4, (2, 5))) * np.linspace(0, 2, 5) + rng.normal(size=(120, 5))


def test_neighbours_of_lattices() -> None:
    for hexagonal, number in ((False, 4), (True, 6)):
        xy = lattice(9, 9, hexagonal=hexagonal)
        size = adjacent(xy + np.random.default_rng(0).normal(0, 3, xy.shape)).size - 1
        assert size.max() == number
        assert (size.reshape(9, 9)[1:-1, 1:-1] == number).all()
        assert size[0] < number
    assert (nearest(xy, 5).size == 6).all()
    assert (nearest(xy[:3], 5).size == 3).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_morans_i_equals_scanpy(values: np.ndarray, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    dense = rng.uniform(0.1, 1, (120, 120)) if weighted else np.ones((120, 120))
    dense *= (rng.uniform(size=(120, 120)) < 0.05) & ~np.eye(120, dtype=bool)
    dense[7] = 0  # one without
    graph = sparse.csr_matrix(dense)
    total = dense.sum(axis=1)
    standard = sparse.csr_matrix(sparse.diags(1 / np.where(total > 0, total, 1)) @ graph)
    expected = sc.metrics.morans_i(standard, values.T.copy())
    assert np.allclose(morans_i(values, Neighbours.of(graph)), expected)


def test_morans_i_and_neighbours_equal_squidpy(values: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sq = pytest.importorskip("squidpy")
        adata = AnnData(values, obs=pd.DataFrame(index=[f"s{i}" for i in range(120)]))
        adata.obsm["spatial"] = np.random.default_rng(1).uniform(0, 1000, (120, 2))
        sq.gr.spatial_neighbors(adata, coord_type="generic", n_neighs=6)
        sq.gr.spatial_autocorr(adata, mode="moran", n_perms=None, genes=list(adata.var_names))
    theirs = adata.uns["moranI"].loc[adata.var_names, "I"]
    given = Neighbours.of(adata.obsp["spatial_connectivities"])
    assert np.allclose(morans_i(values, given), theirs)
    assert (nearest(adata.obsm["spatial"]).window != given.window).nnz == 0


def test_morans_agreement() -> None:
    measured, predicted = np.array([0.1, 0.5, 0.3, np.nan]), np.array([0.2, 0.6, np.nan, 0.9])
    pcc, distance = morans_agreement(predicted, measured)
    assert pcc == pytest.approx(np.corrcoef([0.2, 0.6, 0], [0.1, 0.5, 0.3])[0, 1])
    assert distance == pytest.approx((0.1 + 0.1 + 0.3) / 3)
    assert np.isnan(morans_agreement(predicted, np.full(4, np.nan))).all()


def test_ssim_equals_scikit_image_on_a_grid(values: np.ndarray) -> None:
    other = 0.5 * values + np.random.default_rng(2).normal(size=values.shape)
    near = adjacent(lattice(12, 10), reach=1.5)  # with the diagonals a window is 3 x 3
    found = ssim_map(other, values, near).reshape(10, 12, 5)
    for g in range(5):
        image, truth = other[:, g].reshape(10, 12), values[:, g].reshape(10, 12)
        _, theirs = structural_similarity(truth, image, win_size=3, data_range=np.ptp(truth), full=True)
        assert np.allclose(found[1:-1, 1:-1, g], theirs[1:-1, 1:-1])
    assert np.allclose(ssim(other, values, near), found.mean(axis=(0, 1)))


def test_ssim_of_the_same_of_constant_genes_and_of_spots_apart(values: np.ndarray) -> None:
    xy = lattice(12, 10)
    near = adjacent(xy)
    assert np.allclose(ssim(values, values, near), 1)
    assert (ssim(values + 1, values, near) < 1).all()
    flat = values.copy()
    flat[:, 1] = 3.0
    assert np.isnan(ssim(values, flat, near)).tolist() == [False, True, False, False, False]
    assert np.isfinite(ssim(flat, values, near)).all()
    assert np.isnan(morans_i(flat, near)).tolist() == [False, True, False, False, False]
    xy[5] += 1e4  # left out, for it has no neighbour
    apart, rest = adjacent(xy), adjacent(np.delete(xy, 5, axis=0))
    assert apart.size[5] == 1
    other = values[::-1].copy()
    without = [np.delete(v, 5, axis=0) for v in (other, values)]
    same_range = np.ptp(values, axis=0) == np.ptp(without[1], axis=0)
    assert same_range.sum() >= 3
    assert np.allclose(ssim(other, values, apart)[same_range], ssim(*without, rest)[same_range])


@pytest.mark.parametrize("spots", [1, 2])
def test_few_spots(spots: int) -> None:
    xy, values = np.arange(2.0 * spots).reshape(spots, 2), np.arange(3.0 * spots).reshape(spots, 3)
    for near in (adjacent(xy), nearest(xy), Neighbours.of(sparse.csr_matrix((spots, spots)))):
        joined = (near.size > 1).any()
        assert np.isnan(morans_i(values, near)).all() == (not joined)
        assert np.isnan(ssim(values, values, near)).all() == (not joined)
