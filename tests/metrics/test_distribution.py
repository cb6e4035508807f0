import numpy as np
import pytest
import torch

from genar.estimate import quantiles
from genar.metrics.distribution import LEAST, covered, crps, negative_log_likelihood, spread_of
from genar.metrics.prediction import LEVELS, Spread


@pytest.fixture
def law() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    p = torch.rand(8, 5, 11, generator=g).double().pow(6)
    p[0, 0] = torch.eye(11)[4]
    p[0, 1] = torch.eye(11)[10]
    p[0, 2] = torch.eye(11)[0]
    return p / p.sum(-1, keepdim=True), torch.randint(0, 16, (8, 5), generator=g)


def test_crps_is_that_of_samples(law) -> None:
    p, y = law
    found = crps(p.cumsum(-1), y)
    k = torch.arange(11.0).double()
    # E|X - y| - E|X - X'| / 2 (Gneiting & Raftery, 2007, equation 21)
    expected = (p * (k - y.unsqueeze(-1)).abs()).sum(-1)
    expected -= torch.einsum("bgi,bgj,ij->bg", p, p, (k[:, None] - k).abs()) / 2
    assert torch.allclose(found, expected)
    certain = torch.tensor([4, 10, 0])
    assert torch.allclose(found[0, :3], (certain - y[0, :3]).abs().double())
    assert (y > 10).any()


def test_crps_is_exact_in_float32_and_of_many_counts() -> None:
    count = torch.arange(2001)
    p = torch.softmax(-0.5 * ((count - 700.3) / 90) ** 2, dim=-1)
    y = torch.tensor([0, 650, 700, 1999, 5000])
    p = p.expand(5, -1)
    single, double = crps(p.cumsum(-1), y), crps(p.double().cumsum(-1), y)
    assert torch.allclose(single.double(), double, rtol=1e-4)


def test_likelihood_is_cut_and_the_last_count_stands_for_all_above(law) -> None:
    p, y = law
    found = negative_log_likelihood(p, y)
    for i in np.ndindex(8, 5):
        assert found[i] == pytest.approx(-np.log(max(float(p[i][min(int(y[i]), 10)]), LEAST)))
    assert negative_log_likelihood(p[:1, :1], torch.tensor([[3]])) == pytest.approx(-np.log(LEAST))


def test_coverage_is_that_of_the_quantiles(law) -> None:
    p, _ = law
    for level in LEVELS:
        low, high = quantiles(p, [(1 - level) / 2, (1 + level) / 2])
        for count in range(16):
            y = torch.full((8, 5), count)
            assert torch.equal(covered(p.cumsum(-1), y, level), (y >= low) & (y <= high))


def test_intervals_cover_what_they_say() -> None:
    g = torch.Generator().manual_seed(0)
    p = torch.softmax(-0.5 * ((torch.arange(301) - 150) / 40) ** 2, dim=-1).expand(1, 20000, -1)
    y = torch.multinomial(p[0, 0], 20000, replacement=True, generator=g).unsqueeze(0)
    for level in LEVELS:
        assert covered(p.cumsum(-1), y, level).float().mean() == pytest.approx(level, abs=0.015)


def test_chunks_are_joined_to_the_whole(law) -> None:
    p, y = law
    whole = spread_of(p, y)
    assert whole.modes.tolist() == p.argmax(-1).tolist()
    assert whole.nll == pytest.approx(negative_log_likelihood(p, y).numpy(), rel=1e-5)
    genes = Spread.joined([spread_of(p[:, a], y[:, a]) for a in (slice(0, 2), slice(2, 5))])
    spots = Spread.joined([spread_of(p[a], y[a]) for a in (slice(0, 3), slice(3, 8))], axis=0)
    for joined in (genes, spots):
        assert np.array_equal(joined.crps, whole.crps)
        assert np.array_equal(joined.modes, whole.modes)
        assert all(np.array_equal(joined.covered[level], whole.covered[level]) for level in LEVELS)
    assert np.array_equal(whole.genes(slice(1, 3)).nll, whole.nll[:, 1:3])
