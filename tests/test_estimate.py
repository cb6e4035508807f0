import numpy as np
import pytest
import torch

from genar.estimate import ESTIMATORS, counts, log_mean, moments, quantiles
from genar.model.decoding import Decoding

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


def test_quantiles_are_found_by_a_direct_search() -> None:
    p = torch.rand(6, 5, 11, generator=torch.Generator().manual_seed(0)).double().pow(4)
    p = p / p.sum(-1, keepdim=True)
    levels = (0.05, 0.5, 0.95)
    for level, found in zip(levels, quantiles(p, levels), strict=True):
        assert found.dtype == torch.int32
        for i in np.ndindex(6, 5):
            expected = next(c for c in range(11) if p[i][: c + 1].sum() >= level)
            assert found[i] == expected


def test_a_quantile_is_the_first_count_that_reaches_the_level() -> None:
    p = torch.tensor([0.25, 0.25, 0.0, 0.5])
    assert [int(q) for q in quantiles(p, (0.25, 0.26, 0.5, 0.51, 1.0))] == [0, 1, 1, 3, 3]


def test_the_spread_of_high_counts_is_exact_in_float32() -> None:
    count = torch.arange(2001)
    p = torch.softmax(-0.5 * ((count - 1900.3) / 0.8) ** 2, dim=-1)
    assert moments(p)[1].item() == pytest.approx(0.8, rel=1e-3)


def test_a_narrowed_draw_is_of_the_likeliest_counts() -> None:
    uniform = torch.rand(2000, generator=torch.Generator().manual_seed(0))
    draws = counts(SKEWED.expand(2000, -1), "sample", uniform, Decoding(top_p=0.3))
    assert draws.unique().tolist() == [0]
    draws = counts(SKEWED.expand(2000, -1), "sample", uniform, Decoding(top_k=2))
    assert draws.unique().tolist() == [0, 2]
