"""How unlike the training tissue a spot is: against scikit-learn's PCA and Mahalanobis distance, and on real tissue."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from safetensors import numpy as store
from scipy import stats
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

import genar
from genar import keys, ood
from genar.data.folds import FOLDS
from genar.data.spots import SpotTable
from genar.ood import Reference, fit, ood_warning

ENCODER = "efficientnet_lite0"


def table(features: list[np.ndarray]) -> SpotTable:
    """Sections of spots that have features and no counts."""
    sections = []
    for number, values in enumerate(features):
        obs = pd.DataFrame({keys.LIBRARY_ID: f"s{number}"}, index=[str(i) for i in range(len(values))])
        obsm = {keys.features(ENCODER): values.astype(np.float32), keys.SPATIAL: np.zeros((len(values), 2))}
        sections.append(AnnData(obs=obs, obsm=obsm))
    return SpotTable.of(sections, None, ENCODER, depth=1.0)


def tissue(n: int, seed: int, d: int = 12, level: float = 4.0) -> np.ndarray:
    """Features that lie about a plane, as an encoder's do: positive, of two kinds."""
    random = np.random.default_rng(seed)
    kinds = np.random.default_rng(99).random((2, d)) * level
    return np.abs(random.dirichlet([1, 1], n) @ kinds + 0.1 * random.normal(size=(n, d)))


def reference(seed: int = 0, sections: int = 4, n: int = 80) -> Reference:
    found = fit(table([tissue(n, seed + s) for s in range(sections)]), np.zeros((n * sections, 2)))
    assert found is not None
    return found


@pytest.mark.parametrize("d", [3, 12, 90])
def test_distance_is_that_of_scikit_learn(d: int) -> None:
    """Components and variances are PCA's; within them it is a Mahalanobis distance, and the residual stands beside."""
    known, other = [tissue(120, s, d) for s in range(3)], np.random.default_rng(7).random((30, d))
    found = fit(table(known), np.zeros((360, 2)))
    assert found is not None
    unit = normalize(np.concatenate(known))
    pca = PCA(len(found.variance), svd_solver="full").fit(unit)
    np.testing.assert_allclose(np.abs((found.components * pca.components_).sum(axis=1)), 1, atol=2e-3)
    scores = EmpiricalCovariance().fit(pca.transform(unit))
    inside = scores.mahalanobis(pca.transform(normalize(other))) * (len(unit) - 1) / len(unit) / len(found.variance)
    left = [np.square(x - pca.inverse_transform(pca.transform(x))).sum(axis=1) for x in (unit, normalize(other))]
    outside = left[1] / max(left[0].mean(), ood.FLAT * unit.var(axis=0).sum())
    np.testing.assert_allclose(found.distance(other), np.sqrt(inside + outside), rtol=0.02)


def test_a_term_is_1_on_average_over_the_training_spots() -> None:
    known = np.concatenate([tissue(200, s, 90) for s in range(4)])
    found = fit(table([known[i::4] for i in range(4)]), np.zeros((len(known), 2)))
    assert found is not None
    assert len(found.variance) == ood.COMPONENTS
    assert np.square(found.distance(known)).mean() == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("seed", [0, 100, 200])
def test_left_out_distances_are_those_of_new_spots_and_in_sample_ones_are_not(seed: int) -> None:
    """There are more features than spots."""
    known, new = [tissue(30, seed + s, 200) for s in range(4)], tissue(600, seed + 50, 200)
    found = fit(table(known), np.zeros((120, 2)))
    assert found is not None
    percentile = found.percentile(new)
    assert percentile.dtype == np.float32
    uneven = stats.kstest(percentile, stats.uniform(0, 100).cdf).statistic
    assert uneven < 0.2
    assert stats.ks_2samp(found.distance(new), found.distance(np.concatenate(known))).statistic > 2 * uneven


def test_other_tissue_is_at_100_and_the_limits_hold() -> None:
    found = reference()
    far = np.random.default_rng(5).random((40, 12))
    assert (found.percentile(far) == 100).all()
    assert (found.percentile(tissue(40, 50)) < 100).mean() > 0.9
    assert found.percentile(found.mean[None]).tolist() == [0]  # the middle
    assert found.percentile(np.zeros((2, 12))).shape == (2,)  # blank tiles of a ReLU network
    assert found.percentile(np.empty((0, 12))).shape == (0,)


def test_chunks_and_the_length_of_features_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    found, spots = reference(), tissue(100, 9)
    whole = found.percentile(spots)
    monkeypatch.setattr(ood, "CHUNK", 7)
    np.testing.assert_allclose(found.percentile(spots), whole, atol=1e-3)
    np.testing.assert_allclose(found.percentile(3 * spots), whole, atol=0.01)


def test_it_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    found = reference()
    (tmp_path / "a").write_bytes(store.save(found.tensors()))
    again = Reference.from_tensors(store.load_file(tmp_path / "a"), 12)
    np.testing.assert_array_equal(again.percentile(tissue(50, 8)), found.percentile(tissue(50, 8)))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mean", np.zeros(3)),
        ("variance", np.zeros(2)),
        ("components", np.full((2, 12), np.nan)),
        ("residual", np.zeros(1)),
        ("quantiles", np.arange(101)[::-1]),
    ],
)
def test_what_cannot_be_is_refused(name: str, values: np.ndarray) -> None:
    whole = {"mean": np.zeros(12), "components": np.eye(2, 12), "variance": np.ones(2), "residual": np.ones(1)}
    whole |= {"quantiles": np.arange(101)}
    Reference.from_tensors(whole, 12)
    with pytest.raises(ValueError, match="the reference's"):
        Reference.from_tensors(whole | {name: values}, 12)
    with pytest.raises(KeyError):
        Reference.from_tensors({k: v for k, v in whole.items() if k != name}, 12)


def test_a_single_section_is_left_out_by_regions() -> None:
    """Each region has tissue of its own: left out whole, it is far, where random spots would not be."""
    xy = np.random.default_rng(2).random((200, 2)) + 50 * np.repeat(np.arange(5), 40)[:, None]
    fold = ood._folds(np.zeros(200, np.int64), xy)
    assert [len(np.unique(fold[i : i + 40])) for i in range(0, 200, 40)] == [1] * 5
    assert len(np.unique(fold)) == 5
    own = np.random.default_rng(3).random((200, 40)) * 0.1 + np.repeat(np.eye(5), 40, axis=0).repeat(8, axis=1)
    apart, mixed = (fit(table([own]), places) for places in (xy, np.random.default_rng(4).permutation(xy)))
    assert apart is not None
    assert mixed is not None
    assert apart.quantiles[50] > 2 * mixed.quantiles[50]


def test_many_sections_are_left_out_in_groups_and_each_is_whole() -> None:
    section = np.repeat(np.arange(23), np.arange(1, 24))
    fold = ood._folds(section, np.zeros((len(section), 2)))
    assert len(np.unique(fold)) == FOLDS
    assert all(len(np.unique(fold[section == s])) == 1 for s in range(23))


def test_of_many_spots_some_are_drawn_the_same_ones_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ood, "MOST_FITTED", 100)
    a, b = reference(), reference()
    assert len(a.variance) < 100 / ood.SPOTS_EACH
    np.testing.assert_array_equal(a.quantiles, b.quantiles)


@pytest.mark.parametrize("sizes", [[1], [5], [1, 1], [200, 5], [7, 7]])
def test_too_few_spots_tell_nothing(sizes: list[int]) -> None:
    assert fit(table([tissue(n, n) for n in sizes]), np.zeros((sum(sizes), 2))) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_features_that_never_vary(value: float) -> None:
    known = [np.full((20, 5), value)] * 3
    found = fit(table(known), np.zeros((60, 2)))
    assert found is not None
    assert np.isfinite(found.percentile(known[0])).all()
    assert found.percentile(np.eye(5)).tolist() == [100] * 5


@pytest.mark.parametrize(("n", "said"), [(20, None), (21, "21 %"), (62, "62 %"), (100, "100 %")])
def test_a_warning_where_many_spots_are_far(n: int, said: str | None) -> None:
    percentile = np.where(np.arange(100) < n, 99.5, 99.0).astype(np.float32)
    warning = ood_warning(percentile, "m")
    assert ood.unlike(percentile) == n / 100
    if said is None:
        assert warning is None
    else:
        assert warning == (
            f"{said} of spots look unlike the tissue that m was trained on (ood > 99): do not rely on their counts"
        )
    assert ood_warning(percentile[:0], "m") is None


@pytest.mark.slow
def test_a_neighbouring_section_is_alike_and_other_tissue_is_not(shared: Path) -> None:
    """her2st C4 and C5 as training tissue; C6; and a section of other tissue."""
    sections = [genar.read.st(shared / "data/her2st", name, mpp=0.687)[::2].copy() for name in ("C4", "C5", "C6")]
    for section in sections:
        genar.pp.embed(section, tile_um=154)
    other = genar.pp.spots(shared / "data/wsi/CMU-1-Small-Region.svs", "st", tile_um=154)
    genar.pp.embed(other)
    known = SpotTable.of(sections[:2], None, ENCODER)
    found = fit(known, np.concatenate([s.obsm[keys.SPATIAL] for s in sections[:2]]))
    assert found is not None
    held = found.percentile(sections[2].obsm[keys.features(ENCODER)])
    assert 25 < held.mean() < 75
    assert ood.unlike(held) < 0.1
    assert ood.unlike(found.percentile(other.obsm[keys.features(ENCODER)])) > 0.9
    assert sum(tensor.nbytes for tensor in found.tensors().values()) < 500_000
