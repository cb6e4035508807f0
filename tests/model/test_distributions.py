"""What the head's outputs mean, family by family."""

import numpy as np
import pytest
import torch
from scipy import stats

from genar.model.config import ModelConfig
from genar.model.distributions import Distribution, distribution_of

TOKENS = ("gaussian", "cross_entropy", "ordinal")
REDUCTIONS = ("normalized", "published")
MAX = 60


def family(name: str, reduction: str = "normalized") -> Distribution:
    config = ModelConfig.model_validate({"distribution": name, "continuous_reduction": reduction})
    return distribution_of(config, MAX)


def outputs(of: Distribution, spread: float = 1.0) -> torch.Tensor:
    return torch.randn(5, 7, of.channels, generator=torch.Generator().manual_seed(0)).double() * spread


def mean(probabilities: torch.Tensor) -> np.ndarray:
    return (probabilities.numpy() * np.arange(MAX + 1)).sum(-1)


@pytest.mark.parametrize("name", [*TOKENS, "nb", "mse", "gaussian_nll"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_probabilities_are_a_distribution(name: str, dtype: torch.dtype, spread: float) -> None:
    of = family(name)
    p = of.probabilities(outputs(of, spread).to(dtype))
    assert p.shape == (5, 7, MAX + 1)
    assert (p >= 0).all()
    assert torch.allclose(p.sum(-1), torch.ones(5, 7, dtype=p.dtype), atol=1e-5)


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_are_a_softmax_and_their_mean_is_handed_on(name: str) -> None:
    of = family(name)
    out = outputs(of, 3.0)
    p, weight = of.probabilities(out), np.exp(out.numpy())
    np.testing.assert_allclose(p, weight / weight.sum(-1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(of.expected(out), mean(p), rtol=1e-9)


def test_a_negative_binomial_is_scipys_cut_at_the_largest_count() -> None:
    of = family("nb")
    out = torch.tensor([[0.5, 1.5], [4.0, -0.7], [-5.0, 3.0]], dtype=torch.float64)
    m, r = out.exp().unbind(-1)
    pmf = stats.nbinom.pmf(np.arange(MAX + 1), r[:, None], (r / (r + m))[:, None])
    np.testing.assert_allclose(of.probabilities(out), pmf / pmf.sum(-1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("dispersion", [0.05, 1.0, 40.0])
def test_a_negative_binomials_loss_is_scipys(dispersion: float) -> None:
    mean = torch.tensor([0.01, 1.5, 300.0], dtype=torch.float64).unsqueeze(1)
    count = torch.tensor([0.0, 1.0, 7.0, 250.0], dtype=torch.float64)
    out = torch.stack([mean.log(), torch.full_like(mean, np.log(dispersion))], dim=-1)
    expected = -stats.nbinom.logpmf(count.numpy(), dispersion, (dispersion / (dispersion + mean)).numpy())
    np.testing.assert_allclose(family("nb").loss(out, count, last=True), expected, rtol=1e-9)


def test_a_negative_binomials_mean_is_handed_on() -> None:
    of = family("nb")
    far = torch.tensor([[1.0, 2.0], [-2.0, 0.0]], dtype=torch.float64)  # what lies beyond 60 weighs nothing
    np.testing.assert_allclose(of.expected(far), mean(of.probabilities(far)), rtol=1e-6)
    assert of.expected(torch.tensor([9.0, 0.0])) == MAX


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_gaussians_mass_lies_between_half_integers(reduction: str) -> None:
    of = family("gaussian_nll", reduction)
    out = outputs(of, 2.0).float()
    value = of.expected(out).double().numpy()[..., None]
    sd = np.sqrt(np.maximum(0.01 * np.exp(value) + 0.1, 1e-4))
    edges = np.r_[-np.inf, np.log1p(np.arange(MAX) + 0.5), np.inf]
    np.testing.assert_allclose(of.probabilities(out), np.diff(stats.norm.cdf(edges, value, sd)), atol=1e-6)


def test_a_regression_lies_between_two_counts() -> None:
    of = family("mse", "published")
    out = torch.zeros(6, MAX + 1)
    out[:, 0] = torch.tensor([-3.0, 0.0, 2.4, 2.6, MAX, 1e3]).log1p()
    out[0, 0] = -3.0  # log1p of nothing
    p = of.probabilities(out)
    assert p.argmax(-1).tolist() == [0, 0, 2, 3, MAX, MAX]
    assert (p > 1e-6).sum(-1).tolist() == [1, 1, 2, 2, 1, 1]
    expected = np.log1p([0, 0, 2.4, 2.6, MAX, MAX])
    np.testing.assert_allclose(p @ torch.arange(MAX + 1.0).log1p(), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["mse", "gaussian_nll"])
def test_a_regression_hands_on_what_its_reduction_says(name: str) -> None:
    normalized, published = (family(name, reduction) for reduction in REDUCTIONS)
    out = outputs(normalized, 2.0)
    np.testing.assert_allclose(normalized.expected(out), np.log1p(np.exp(out.numpy())).mean(-1), rtol=1e-9)
    assert torch.equal(published.expected(out), out[..., 0])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_the_regressions(reduction: str) -> None:
    value = torch.rand(5, 7).double() * 4
    squares, likelihood = family("mse", reduction), family("gaussian_nll", reduction)
    out = outputs(squares)
    predicted = squares.expected(out).numpy()
    share = 1 if reduction == "normalized" else 7
    expected = (value.numpy() - predicted) ** 2
    np.testing.assert_allclose(squares.loss(out, value, last=True) * share, expected, rtol=1e-9)
    sd = np.sqrt(0.01 * np.exp(predicted) + 0.1)
    constant = 0.5 * np.log(2 * np.pi)
    expected = -stats.norm.logpdf(value, predicted, sd) - constant
    np.testing.assert_allclose(likelihood.loss(out, value, last=True) * share, expected, rtol=1e-9)


def test_counts_beyond_the_vocabulary_count_as_the_largest() -> None:
    counts = torch.tensor([0.0, 3.0, 1000.0])
    for name in (*TOKENS, "nb"):
        assert family(name).values(counts).tolist() == [0.0, 3.0, MAX]
    assert torch.equal(family("mse").values(counts), counts.log1p())
