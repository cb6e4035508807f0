import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

from genar import metrics
from genar.metrics.bootstrap import draws, intervals, over_sections, weighted_pcc
from genar.metrics.correlation import top_pcc


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    measured = metrics.log_counts(rng.poisson(rng.gamma(1, 2, 6), size=(60, 6)))
    measured[:, 3] = metrics.log_counts(np.arange(60) == 7)  # a draw without that spot leaves a constant
    measured[:, 4] = 0.1
    return 0.5 * measured + rng.normal(size=(60, 6)) + 1e4, measured, np.repeat(["a", "b"], [40, 20])


def test_weights_do_as_drawing_rows_does(pair) -> None:
    predicted, measured, section = pair
    undefined = 0
    for weights in draws(section, 40, np.random.default_rng(1)):
        found = weighted_pcc(predicted, measured, weights)
        for row, pcc in zip(weights.astype(int), found, strict=True):
            assert row[:40].sum() == 40
            assert row[40:].sum() == 20
            rows = np.repeat(np.arange(60), row)
            expected = metrics.pearson(predicted[rows], measured[rows])
            assert np.allclose(pcc, expected, equal_nan=True)
            undefined += np.isnan(pcc[3])
    assert 0 < undefined < 40


def test_blocks_change_nothing(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = intervals(*pair, n=30, seed=2)
    monkeypatch.setattr("genar.metrics.bootstrap.CELLS", 60 * 4)  # genes by four; draws too, of another order
    (four, *_) = draws(pair[2], 30, np.random.default_rng(2))
    assert len(four) == 4
    assert np.allclose(
        weighted_pcc(*pair[:2], four)[:, 4:], weighted_pcc(pair[0][:, 4:], pair[1][:, 4:], four), equal_nan=True
    )
    assert intervals(*pair, n=30, seed=2).keys() == whole.keys()


def test_intervals_are_those_of_scipy(pair) -> None:
    predicted, measured, _ = pair
    predicted = predicted - 1e4
    found = intervals(predicted, measured, np.zeros(60), n=2000)
    error = ((predicted - measured) ** 2).mean(axis=1)
    theirs = scipy_bootstrap((error,), np.mean, n_resamples=2000, method="percentile", rng=0).confidence_interval
    assert found["MSE"] == pytest.approx(theirs, rel=0.05)
    estimate = top_pcc(metrics.pearson(predicted, measured), 200)
    low, high = found["PCC"]
    assert low < estimate < high
    assert found["PCC-200"] == pytest.approx((low, high))
    inner = intervals(predicted, measured, np.zeros(60), n=2000, level=0.5)["MSE"]
    assert found["MSE"][0] < inner[0] < inner[1] < found["MSE"][1]


def test_intervals_are_reproducible_and_of_sections(pair) -> None:
    assert intervals(*pair, n=20, seed=3) == intervals(*pair, n=20, seed=3)
    assert intervals(*pair, n=20, seed=3) != intervals(*pair, n=20, seed=4)
    alone = np.arange(60)  # each spot a section of its own: nothing is left to chance
    low, high = intervals(*pair[:2], alone, n=5)["MSE"]
    assert low == pytest.approx(high)


def test_over_sections() -> None:
    values = np.random.default_rng(0).normal(size=8)
    theirs = scipy_bootstrap((values,), np.mean, n_resamples=9999, method="percentile", rng=0).confidence_interval
    assert over_sections(values, n=9999) == pytest.approx(theirs, abs=0.03)
    assert over_sections([0.3]) == pytest.approx((0.3, 0.3))
    assert over_sections([0.3, np.nan]) == pytest.approx((0.3, 0.3))
    assert np.isnan(over_sections([np.nan])).all()


def test_one_spot_and_zeros() -> None:
    for spots in (1, 9):
        zeros = np.zeros((spots, 3))
        assert intervals(zeros, zeros, np.zeros(spots), n=5) == dict.fromkeys(
            ["PCC-10", "PCC-50", "PCC-200", "PCC", "MSE"], (0.0, 0.0)
        )
