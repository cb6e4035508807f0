import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from genar import metrics
from genar.metrics.correlation import binned_pcc, mean_pcc, pearson_within, ranked_pcc
from genar.metrics.ranks import average_ranks
from genar.metrics.values import constant


def test_pearson_equals_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 8)), rng.normal(size=(50, 8))
    expected = [pearsonr(a[:, g], b[:, g]).statistic for g in range(8)]
    assert np.allclose(metrics.pearson(a, b), expected)
    assert np.allclose(metrics.pearson(a.astype(np.float32), b.astype(np.float32)), expected, atol=1e-6)


def test_constant_genes_and_single_spots_are_undefined_and_count_as_zero() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    a[:, 1] = 0.1
    b[:, 2] = 7.0
    for correlation in (metrics.pearson, metrics.spearman):
        assert np.isnan(correlation(a, b)).tolist() == [False, True, True]
        assert np.isnan(correlation(a[:1], b[:1])).all()
    assert metrics.top_pcc(np.array([0.6, np.nan, 0.3]), 3) == pytest.approx(0.3)
    assert mean_pcc(np.array([0.6, np.nan, 0.3, -0.1])) == pytest.approx(0.2)


def test_a_gene_that_varies_late_is_not_constant() -> None:
    values = np.zeros((500, 3))
    values[499, 1] = 1e-9
    assert constant(values).tolist() == [True, False, True]
    assert constant(values[:499]).all()


@pytest.mark.parametrize("spots", [1, 2, 3, 40])
@pytest.mark.parametrize("kinds", [1, 2, 5, 1000])
def test_ranks_equal_scipy(spots: int, kinds: int) -> None:
    whole = np.random.default_rng(kinds).integers(0, kinds, size=(spots, 9))
    for values in (whole, whole - 3, whole.astype(np.uint16), whole.astype(np.float32), whole / 7):
        assert np.array_equal(average_ranks(values), rankdata(values, axis=0))


def test_spearman_equals_scipy_and_knows_no_scale() -> None:
    rng = np.random.default_rng(0)
    counts, predicted = rng.poisson(2, size=(60, 6)), rng.normal(size=(60, 6)).round(1)
    expected = [spearmanr(predicted[:, g], counts[:, g]).statistic for g in range(6)]
    assert np.allclose(metrics.spearman(predicted, counts), expected)
    assert np.allclose(metrics.spearman(predicted, metrics.log_counts(counts)), expected)


def test_within_sections_their_levels_do_not_count() -> None:
    rng = np.random.default_rng(0)
    section = np.array(["b", "a"])[np.arange(80) % 2]
    a, b = rng.normal(size=(80, 4)), rng.normal(size=(80, 4))
    found = pearson_within(a, b, section)
    expected = [[pearsonr(a[section == s, g], b[section == s, g]).statistic for g in range(4)] for s in ("a", "b")]
    assert np.allclose(found, expected)
    shift = 100 * (section == "a")[:, None]
    assert (metrics.pearson(a + shift, b + shift) > 0.99).all()
    assert np.allclose(pearson_within(a + shift, b + shift, section), expected)


def test_genes_may_be_chosen_by_their_level() -> None:
    pcc, mean = np.array([0.9, 0.1, np.nan, 0.4]), np.array([1.0, 50.0, 20.0, 3.0])
    assert ranked_pcc(pcc, mean, 2) == pytest.approx(0.05)
    assert ranked_pcc(pcc, mean, 10) == pytest.approx(0.35)
    found = binned_pcc(pcc, np.array([9, 10, 100, 99]))
    assert found["<10"] == (1, pytest.approx(0.9))
    assert found["10-100"] == (2, pytest.approx(0.25))
    assert found[">=100"] == (1, 0.0)
    (number, empty), *_ = binned_pcc(pcc, mean, (0.5, 2)).values()
    assert number == 0
    assert np.isnan(empty)
    assert list(binned_pcc(pcc, mean, (5,))) == ["<5", ">=5"]
