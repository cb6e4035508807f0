"""Spots as tensors: places, neighbours and depths."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.data.spots import SpotTable, library_size, neighbours, position
from genar.model.config import ModelConfig

ENCODER = "e"


def section(xy: np.ndarray, *, name: str = "A", mpp: float = 0.5, pitch_um: float = 100.0, seed: int = 0) -> AnnData:
    """Spots at ``xy`` (level-0 pixels) with counts of three genes and two features."""
    random, n = np.random.default_rng(seed), len(xy)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical([name] * n)}, index=[f"{name}{i}" for i in range(n)])
    counts = csr_matrix(random.poisson([9, 5, 1], (n, 3)).astype(np.int32))
    adata = AnnData(counts, obs=obs, var=pd.DataFrame(index=list("PQR")))
    adata.obsm[keys.SPATIAL] = np.asarray(xy, dtype=np.float64)
    adata.obsm[keys.features(ENCODER)] = random.random((n, 2)).astype(np.float32)
    adata.uns[keys.SPATIAL] = {name: {keys.METADATA: {keys.MPP: mpp, keys.PITCH_UM: pitch_um}}}
    return adata


@pytest.fixture
def xy() -> np.ndarray:
    return np.random.default_rng(3).random((30, 2)) * [8000, 3000]


def test_a_published_position_lies_between_the_outermost_spots(xy: np.ndarray) -> None:
    found = position(section(xy), "published")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (xy - xy.min(0)) / (xy.max(0) - xy.min(0)), rtol=1e-6)
    line = np.c_[np.arange(5) * 10.0, np.full(5, 7.0)]
    assert position(section(line), "published").tolist() == [[0, 0], [0.25, 0], [0.5, 0], [0.75, 0], [1, 0]]


def test_a_relative_position_is_in_mm_from_the_centre(xy: np.ndarray) -> None:
    found = position(section(xy, mpp=0.25), "relative_um")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(found[1] - found[0], (xy[1] - xy[0]) * 0.25 / 1000, rtol=1e-5)


@pytest.mark.parametrize("name", ["published", "relative_um", "none"])
def test_a_position_is_the_same_wherever_and_however_finely_the_section_was_scanned(xy: np.ndarray, name: str) -> None:
    found = position(section(xy, mpp=0.25), name)
    np.testing.assert_allclose(position(section(xy + [1e5, -3e4], mpp=0.25), name), found, atol=1e-6)
    np.testing.assert_allclose(position(section(xy / 4, mpp=1.0), name), found, atol=1e-6)


def test_no_position_is_zero(xy: np.ndarray) -> None:
    found = position(section(xy), "none")
    assert found.shape == xy.shape
    assert found.dtype == np.float32
    assert not found.any()


def test_neighbours_are_the_nearest_others(xy: np.ndarray) -> None:
    rows, offsets = neighbours(section(xy, mpp=0.5, pitch_um=100), 6)
    distance = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert np.array_equal(rows, distance.argsort(axis=1)[:, :6])
    np.testing.assert_allclose(offsets, (xy[rows] - xy[:, None]) * 0.5 / 100, rtol=1e-5)  # in pitches


def test_offsets_on_a_lattice_are_whole_pitches() -> None:
    xy = np.stack(np.meshgrid(np.arange(3), np.arange(3)), axis=-1).reshape(-1, 2) * 400.0
    rows, offsets = neighbours(section(xy, mpp=0.5, pitch_um=200), 4)
    assert {tuple(o) for o in offsets[4]} == {(1, 0), (-1, 0), (0, 1), (0, -1)}
    assert sorted(rows[4]) == [1, 3, 5, 7]


def test_where_there_are_too_few_spots_the_rest_are_marked() -> None:
    rows, offsets = neighbours(section(np.array([[0, 0], [200, 0], [800, 0]])), 4)
    assert rows[:, :2].tolist() == [[1, 2], [0, 2], [1, 0]]
    assert rows[:, 2:].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert np.isfinite(offsets[:, :2]).all()
    assert np.isnan(offsets[:, 2:]).all()
    rows, offsets = neighbours(section(np.zeros((1, 2))), 2)
    assert rows.tolist() == [[0, 0]]
    assert np.isnan(offsets).all()
    assert [a.shape for a in neighbours(section(np.zeros((3, 2))), 0)] == [(3, 0), (3, 0, 2)]


def test_neighbours_are_of_the_same_section(xy: np.ndarray) -> None:
    """The two sections lie at the same place."""
    a, b = section(xy, name="A"), section(xy[:20] + 1, name="B", seed=1)
    table = SpotTable.of([a, b], None, ENCODER, ModelConfig(neighbours=5))
    assert np.array_equal(table.section[table.neighbours], np.repeat(table.section[:, None], 5, axis=1))
    alone = SpotTable.of([b], None, ENCODER, ModelConfig(neighbours=5))
    batch, expected = table.batch(np.arange(30, 50)), alone.batch(np.arange(20))
    assert batch.keys() == expected.keys()
    assert batch.pop("section").eq(expected.pop("section") + 1).all()
    assert all(torch.equal(batch[name], expected[name]) for name in batch)


def test_a_batch_holds_what_its_neighbours_have(xy: np.ndarray) -> None:
    spots = section(xy)
    features = spots.obsm[keys.features(ENCODER)]
    table = SpotTable.of([spots], None, ENCODER, ModelConfig(neighbours=3))
    batch = table.spots(slice(4, 9), "cpu")
    assert np.array_equal(batch.neighbour_features, features[neighbours(spots, 3)[0][4:9]])
    assert np.array_equal(batch.features, features[4:9])
    bare = SpotTable.of([spots], None, ENCODER).spots(slice(4, 9), "cpu")
    assert bare.neighbour_features is None
    assert bare.neighbour_offsets is None


def test_the_depth_is_the_median_over_all_genes_or_what_is_given(xy: np.ndarray) -> None:
    a, b = section(xy, name="A"), section(xy[:20], name="B", seed=1)
    b.X = b.X * 4
    table = SpotTable.of([a, b], pd.Index(["Q"]), ENCODER)
    expected = [np.log(np.median(s.X.toarray().sum(1))) for s in (a, b)]
    np.testing.assert_allclose(table.log_library_size, np.repeat(expected, [30, 20]), rtol=1e-6)
    assert np.array_equal(table.counts[:, 0], np.r_[a[:, "Q"].X.toarray(), b[:, "Q"].X.toarray()][:, 0])
    given = SpotTable.of([a, b], None, ENCODER, depth=5000.0)
    np.testing.assert_allclose(given.log_library_size, np.log(5000), rtol=1e-6)
    assert given.counts.shape == (50, 0)


def test_the_depth_of_a_section_that_holds_but_some_genes_is_over_all(xy: np.ndarray) -> None:
    whole = section(xy)
    whole.obs[keys.TOTAL_COUNTS] = np.asarray(whole.X.sum(axis=1)).ravel()
    assert library_size(whole[:, ["Q"]]) == library_size(whole) == np.median(whole.X.toarray().sum(axis=1))


def test_a_gene_that_a_section_did_not_measure_is_marked(xy: np.ndarray) -> None:
    a, b = section(xy, name="A"), section(xy[:20], name="B", seed=1)[:, ["R", "P"]].copy()
    table = SpotTable.of([a, b], pd.Index(["P", "Q", "R"]), ENCODER)
    assert table.measured.tolist() == [[True, True, True], [True, False, True]]
    assert np.array_equal(table.counts[30:, [0, 2]], b[:, ["P", "R"]].X.toarray())
    assert not table.counts[30:, 1].any()
    batch = table.batch(np.array([3, 40]))
    assert batch["measured"].tolist() == table.measured.tolist()
    assert batch["section"].tolist() == [0, 1]
    assert "measured" not in SpotTable.of([a, b], pd.Index(["P", "R"]), ENCODER).batch(np.array([3, 40]))


def test_features_stay_on_disk_and_their_moments_are_those_of_all(xy: np.ndarray, tmp_path: Path) -> None:
    sections = [section(xy, name="A"), section(xy[:20], name="B", seed=1)]
    every = np.concatenate([s.obsm[keys.features(ENCODER)] for s in sections])
    for s in sections:
        path = tmp_path / s.obs[keys.LIBRARY_ID].iloc[0]
        np.save(path, s.obsm[keys.features(ENCODER)])
        s.obsm[keys.features(ENCODER)] = np.load(path.with_suffix(".npy"), mmap_mode="r")
    table = SpotTable.of(sections, None, ENCODER)
    assert all(isinstance(f, np.memmap) for f in table.features)
    rows = np.random.default_rng(0).permutation(50)
    assert np.array_equal(table.batch(rows)["features"], every[rows])
    mean, std = table.feature_moments()
    np.testing.assert_allclose(mean, every.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(std, every.std(axis=0), rtol=1e-5)


def test_the_context_is_the_mean_of_the_neighbours(xy: np.ndarray) -> None:
    spots = section(xy)
    features = spots.obsm[keys.features(ENCODER)]
    network = ModelConfig(neighbours=3, neighbour_pooling="mean")
    table = SpotTable.of([spots], None, ENCODER, network)
    batch = table.spots(slice(4, 9), "cpu")
    around = features[neighbours(spots, 3)[0]].mean(axis=1)
    np.testing.assert_allclose(batch.features, np.hstack([features, around])[4:9], rtol=1e-6)
    assert batch.neighbour_features is None
    mean, std = table.feature_moments()
    np.testing.assert_allclose(mean, np.hstack([features, around]).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(std, np.hstack([features, around]).std(axis=0), rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_neighbours_that_are_not_there_are_not_averaged(n: int) -> None:
    spots = section(np.array([[0, 0], [200, 0], [500, 0]])[:n])
    features = spots.obsm[keys.features(ENCODER)]
    table = SpotTable.of([spots], None, ENCODER, ModelConfig(neighbours=8, neighbour_pooling="mean"))
    others = [np.delete(features, i, axis=0).mean(axis=0) if n > 1 else features[0] for i in range(n)]
    np.testing.assert_allclose(table.seen(np.arange(n))[:, 2:], others, rtol=1e-6)


def test_the_neighbours_are_seen_in_the_spots_own_view(xy: np.ndarray) -> None:
    spots = section(xy)
    views = np.random.default_rng(5).random((30, 2, 2)).astype(np.float32)
    spots.obsm[keys.views(ENCODER)] = views
    table = SpotTable.of([spots], None, ENCODER, ModelConfig(neighbours=3, neighbour_pooling="mean"))
    found = table.seen(np.array([7, 7]), np.array([0, 2]))
    around = neighbours(spots, 3)[0][7]
    plain = spots.obsm[keys.features(ENCODER)]
    np.testing.assert_allclose(found[0], np.r_[plain[7], plain[around].mean(axis=0)], rtol=1e-6)
    np.testing.assert_allclose(found[1], np.r_[views[7, 1], views[around, 1].mean(axis=0)], rtol=1e-6)
