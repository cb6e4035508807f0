import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import mean_absolute_error, mean_squared_error, precision_recall_fscore_support

from genar.metrics import errors


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.gamma(1, 2, size=(40, 6)), rng.poisson(1.5, size=(40, 6)).astype(np.uint16)


def test_errors_equal_scikit_learn(pair) -> None:
    predicted, measured = pair
    for ours, theirs in ((errors.mse, mean_squared_error), (errors.mae, mean_absolute_error)):
        assert np.allclose(ours(predicted, measured), theirs(measured, predicted, multioutput="raw_values"))
    assert errors.mae(np.zeros((1, 1), dtype=np.uint16), np.full((1, 1), 3, dtype=np.uint16)) == 3  # no sign is lost


def test_variance_distance(pair) -> None:
    predicted, measured = pair
    expected = [((np.var(predicted[:, g]) - np.var(measured[:, g])) / np.var(measured[:, g])) ** 2 for g in range(6)]
    assert np.allclose(errors.variance_distance(predicted, measured), expected)
    assert np.allclose(errors.variance_distance(np.ones((40, 6)), measured), 1)
    flat = np.where(np.arange(6) == 2, 3.0, measured)
    assert np.isnan(errors.variance_distance(predicted, flat)).tolist() == [g == 2 for g in range(6)]


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_zeros_equal_scikit_learn(pair, a: float, b: float) -> None:
    predicted, measured = a * pair[0] + (1 - a), b * pair[1] + (1 - b)
    truth, said = measured.ravel() == 0, np.rint(predicted).ravel() == 0
    expected = precision_recall_fscore_support(truth, said, average="binary", zero_division=0)[:3]
    assert errors.zero_scores(predicted, measured) == pytest.approx(expected)


def test_half_a_count_is_rounded_to_zero_as_numpy_does() -> None:
    counts = np.array([-1.0, 0.0, 0.49, 0.5, 0.51, 1.0])
    assert errors.is_zero(counts).tolist() == (np.rint(counts) <= 0).tolist() == [True] * 4 + [False] * 2


def test_library_size(pair) -> None:
    predicted, measured = pair
    expected = pearsonr(predicted.sum(axis=1), measured.sum(axis=1)).statistic
    assert errors.library_size_pearson(predicted, measured) == pytest.approx(expected)
    assert np.isnan(errors.library_size_pearson(np.ones((5, 6)), measured[:5]))
