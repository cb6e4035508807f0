import sys
import time

import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from anndata import AnnData

from genar import keys
from genar.errors import ConfigError, DataError
from genar.genes import scores


@pytest.mark.parametrize("method", ["top_mean", "hvg", "svg"])
def test_every_gene_of_a_real_section_is_scored_quickly(real_sections: list[AnnData], method: scores.Method) -> None:
    section = real_sections[0]
    scores.score(section, method)  # compiles
    start = time.perf_counter()
    found = scores.score(section, method)
    assert time.perf_counter() - start < 10
    assert found.index.equals(section.var_names)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()


def test_mean_of_raw_counts(real_sections: list[AnnData]) -> None:
    section = real_sections[0]
    np.testing.assert_allclose(scores.score(section, "top_mean"), section.to_df().mean(), rtol=1e-12)


def test_variance_is_scanpys(real_sections: list[AnnData]) -> None:
    section = real_sections[0]
    seen = section[:, np.asarray((section.X > 0).sum(axis=0)).ravel() >= 10].copy()
    assert seen.n_vars < section.n_vars
    table = sc.pp.highly_variable_genes(seen, flavor="seurat_v3", n_top_genes=500, inplace=False)
    found = scores.score(section, "hvg")
    np.testing.assert_allclose(found[seen.var_names], table["variances_norm"], rtol=1e-12)
    assert (found.drop(seen.var_names) == 0).all()
    assert set(found.nlargest(500).index) == set(seen.var_names[table["highly_variable"]])


def neighbours(xy: np.ndarray, reach: float) -> np.ndarray:
    """Whether spots are neighbours: bool [N, N]."""
    distance = np.linalg.norm(xy[:, None] - xy, axis=2)
    return (distance < reach) & (distance > 0)


def morans_i(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The textbook's formula for each column."""
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    z = values - values.mean(axis=0)
    return len(z) / weights.sum() * np.einsum("ig,ij,jg->g", z, weights, z) / np.square(z).sum(axis=0)


def test_morans_i_on_the_real_lattice(real_sections: list[AnnData]) -> None:
    section = real_sections[0]
    found = scores.score(section, "svg")
    genes = ["FABP7", "ERBB2", "ACTB", "GAPDH", "CD74"]
    total = np.asarray(section.X.sum(axis=1))
    values = np.log1p(section[:, genes].X.toarray() * np.median(total) / total)
    row, column = (section.obs[name].to_numpy() for name in (keys.ARRAY_ROW, keys.ARRAY_COL))
    weights = np.abs(row[:, None] - row) + np.abs(column[:, None] - column) == 1
    np.testing.assert_allclose(found[genes], morans_i(values, weights), rtol=1e-4)
    assert found["FABP7"] > 0.5  # a marker of one region of this tumour
    assert (found[np.asarray((section.X > 0).sum(axis=0)).ravel() < 10] == -1).all()


@pytest.mark.parametrize("known", [True, False], ids=["array", "centres"])
def test_six_neighbours_on_a_hexagonal_lattice(make_section: object, known: bool) -> None:
    row, column = (a.ravel() for a in np.mgrid[:9, :9])
    xy = np.column_stack([(column + row % 2 / 2) * 100.0, row * 100 * np.sqrt(3) / 2])
    counts = np.random.default_rng(0).poisson(8 + row[:, None], (81, 4))
    counts[:, 3] = 60 - counts[:, :3].sum(axis=1)  # every spot's depth is the same
    section = make_section(counts, "abcd", lattice="visium", xy=xy)
    if known:
        section.obs[keys.ARRAY_ROW], section.obs[keys.ARRAY_COL] = row, 2 * column + row % 2
    found = scores.score(section, "svg")
    np.testing.assert_allclose(found, morans_i(np.log1p(counts), neighbours(xy, 130)), rtol=1e-5)


def test_spots_and_genes_without_counts(make_section: object) -> None:
    counts = np.random.default_rng(0).poisson(np.linspace(2, 9, 30), (40, 30))
    counts[3] = 0
    counts[:, 4] = 0
    genes = [f"g{i}" for i in range(30)]
    for method, lowest in (("svg", -1), ("hvg", 0)):
        found = scores.score(make_section(counts, genes), method)
        assert found["g4"] == lowest < found.drop("g4").min()


@pytest.mark.parametrize("method", ["hvg", "svg"])
def test_too_small_a_section(make_section: object, method: scores.Method) -> None:
    with pytest.raises(DataError, match=r"C9: no gene is seen in 10 spots"):
        scores.score(make_section(np.ones((9, 3)), "abc", name="C9"), method)


@pytest.mark.parametrize("kind", ["one gene", "one mean"])
def test_variances_that_cannot_be_fitted(make_section: object, kind: str) -> None:
    counts = np.random.default_rng(0).poisson(5.0, (40, 1))
    if kind == "one mean":
        counts = np.repeat(counts, 30, axis=1)
    genes = [f"g{i}" for i in range(counts.shape[1])]
    with pytest.raises(DataError, match="C9: the variances of its genes cannot be fitted"):
        scores.score(make_section(counts, genes, name="C9"), "hvg")


@pytest.mark.parametrize(("method", "module"), [("hvg", "skmisc.loess"), ("svg", "squidpy")])
def test_a_missing_package_is_named(
    make_section: object, monkeypatch: pytest.MonkeyPatch, method: scores.Method, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf'panel\.method: .*{module}.*pip install "genar\[panel\]"'):
        scores.check_installed(method)
    with pytest.raises(ConfigError):
        scores.score(make_section(np.ones((20, 3)), "abc"), method)
    scores.check_installed("top_mean")


def test_scores_are_independent_of_the_order_of_genes(real_sections: list[AnnData]) -> None:
    section = real_sections[0]
    back = section[:, ::-1].copy()
    for method in ("top_mean", "svg"):
        pd.testing.assert_series_equal(scores.score(back, method)[::-1], scores.score(section, method), rtol=1e-5)
