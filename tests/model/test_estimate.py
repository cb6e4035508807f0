import pytest
import torch

from genar.model.estimate import ESTIMATORS, counts, log_mean, moments

SKEWED = torch.tensor([0.4, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.3])  # 0, 2 or 10


def test_point_estimates() -> None:
    assert counts(SKEWED, "mode") == 0
    assert counts(SKEWED, "mean") == 4  # 0.3 * 2 + 0.3 * 10 = 3.6
    # E[log2(c + 1)] = 0.3 * log2(3) + 0.3 * log2(11) = 1.513; 2 ** 1.513 - 1 = 1.85
    assert counts(SKEWED, "log_mean") == 2
    assert log_mean(SKEWED) == pytest.approx(1.5133, abs=1e-4)


def test_moments() -> None:
    mean, sd = moments(SKEWED)
    assert mean == pytest.approx(3.6)
    assert sd == pytest.approx((0.3 * 4 + 0.3 * 100 - 3.6**2) ** 0.5, rel=1e-5)


def test_samples_follow_the_distribution() -> None:
    draws = counts(SKEWED.expand(20000, -1), "sample", torch.rand(20000, generator=torch.Generator().manual_seed(0)))
    shares = torch.bincount(draws, minlength=11) / 20000
    assert torch.allclose(shares, SKEWED, atol=0.015)


def test_every_estimator_gives_whole_counts_in_the_vocabulary() -> None:
    p = torch.rand(5, 7, 11).softmax(-1)
    for estimator in ESTIMATORS:
        c = counts(p, estimator, torch.rand(5, 7))
        assert c.dtype == torch.int32
        assert c.shape == (5, 7)
        assert 0 <= int(c.min()) <= int(c.max()) <= 10


def test_the_largest_draw_stays_in_the_vocabulary() -> None:
    p = torch.full((1, 11), 1 / 11)
    assert counts(p, "sample", torch.tensor([1.0])) == 10
    with pytest.raises(ValueError, match="draws"):
        counts(p, "sample")
