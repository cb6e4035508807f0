import numpy as np
import torch

from genar.model import losses


def dense_gaussian(logits: torch.Tensor, count: torch.Tensor, slope: float, floor: float) -> torch.Tensor:
    token = torch.arange(logits.shape[-1], dtype=logits.dtype)
    sigma = (slope * count + floor).unsqueeze(-1)
    label = torch.exp(-0.5 * ((token - count.unsqueeze(-1)) / sigma) ** 2)
    label = label / label.sum(-1, keepdim=True)
    return (torch.xlogy(label, label) - label * logits.log_softmax(-1)).sum(-1)


def dense_two_point(logits: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    token = torch.arange(logits.shape[-1], dtype=logits.dtype)
    label = (1 - (token - mean.unsqueeze(-1)).abs()).clamp(min=0)  # linear between the two integers
    return (torch.xlogy(label, label) - label * logits.log_softmax(-1)).sum(-1)


def test_gaussian_equals_the_direct_formula() -> None:
    logits = torch.randn(4, 9, 201, dtype=torch.float64)
    counts = torch.randint(0, 201, (4, 9)).double()
    counts[0, :3] = torch.tensor([0.0, 200.0, 1.0])  # at the ends of the vocabulary
    for slope, floor in [(0.01, 1.0), (0.1, 0.5)]:
        assert torch.allclose(
            losses.gaussian(logits, counts, slope, floor), dense_gaussian(logits, counts, slope, floor), rtol=1e-6
        )


def test_two_point_equals_the_direct_formula() -> None:
    logits = torch.randn(3, 6, 41, dtype=torch.float64)
    means = torch.tensor([0.0, 0.5, 3.0, 7.25, 39.9, 40.0], dtype=torch.float64).expand(3, 6)
    assert torch.allclose(losses.two_point(logits, means), dense_two_point(logits, means), rtol=1e-9)


def test_a_perfect_prediction_costs_nothing() -> None:
    token = torch.arange(41.0)
    label = torch.exp(-0.5 * ((token - 7.0) / 1.07) ** 2)
    assert losses.gaussian(label.log()[None], torch.tensor([7.0]), 0.01, 1.0).abs() < 1e-6
    assert losses.two_point(torch.where(token == 3, 0.0, -50.0)[None], torch.tensor([3.0])).abs() < 1e-6


def test_gradient_is_that_of_the_dense_form() -> None:
    counts = torch.tensor([[0.0, 3.0, 40.0]], dtype=torch.float64)
    logits = torch.randn(1, 3, 41, dtype=torch.float64)
    grads = []
    for f in (losses.gaussian, dense_gaussian):
        z = logits.clone().requires_grad_()
        f(z, counts, 0.01, 1.0).sum().backward()
        grads.append(z.grad)
    assert torch.allclose(*grads, atol=1e-8)


def test_cross_entropy_is_that_of_the_counts_own_token() -> None:
    logits = torch.randn(4, 9, 21, dtype=torch.float64) * 3
    counts = torch.randint(0, 21, (4, 9))
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), counts.flatten(), reduction="none")
    assert torch.allclose(losses.cross_entropy(logits, counts.double()).flatten(), expected, rtol=1e-12)


def test_ranked_probability_is_the_squared_distance_of_distribution_functions() -> None:
    """Between two integers the measured function is that of their mixture."""
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, (7, 6, 31))
    values = np.array([0.0, 30.0, 7.0, 0.25, 29.9, 13.5]) + np.zeros((7, 1))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    low, upper, token = np.floor(values)[..., None], (values % 1)[..., None], np.arange(31)
    measured = (1 - upper) * (token >= low) + upper * (token >= low + 1)
    expected = np.square(p.cumsum(-1) - measured).sum(-1)
    found = losses.ranked_probability(torch.from_numpy(logits), torch.from_numpy(values))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


def test_ranked_probability_has_the_gradient_of_the_direct_formula() -> None:
    values = torch.tensor([0.0, 7.25, 20.0], dtype=torch.float64)
    logits = torch.randn(3, 21, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: losses.ranked_probability(z, values), logits)
