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
