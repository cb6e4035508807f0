import numpy as np
import pytest
from scipy.stats import pearsonr

from genar import metrics


def test_pearson_equals_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 8)), rng.normal(size=(50, 8))
    expected = [pearsonr(a[:, g], b[:, g]).statistic for g in range(8)]
    assert np.allclose(metrics.pearson(a, b), expected)


def test_constant_genes_and_single_spots_are_undefined_and_count_as_zero() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    a[:, 1] = 0.1
    b[:, 2] = 7.0
    pcc = metrics.pearson(a, b)
    assert np.isnan(pcc).tolist() == [False, True, True]
    assert metrics.top_pcc(np.array([0.6, np.nan, 0.3]), 3) == pytest.approx(0.3)
    assert np.isnan(metrics.pearson(a[:1], b[:1])).all()


def test_summary() -> None:
    counts = np.array([[0, 1], [1, 3], [3, 7]])
    perfect = metrics.summary(metrics.log_counts(counts), counts)
    assert perfect == pytest.approx({"PCC-10": 1.0, "PCC-50": 1.0, "PCC-200": 1.0, "MSE": 0.0})
    assert metrics.summary(metrics.log_counts(counts) + 0.5, counts)["MSE"] == pytest.approx(0.25)
