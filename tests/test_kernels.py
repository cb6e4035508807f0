"""The fused steps against autograd's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from genar import kernels


def modulated_linear(x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(F.layer_norm(x, x.shape[-1:], eps=1e-6) * scale + shift, weight, bias)


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(F.gelu(x), weight, bias)


def unit(x: Tensor, length: Tensor) -> Tensor:
    return F.normalize(x, dim=-1) * length


CASES = {
    "modulated_linear": (modulated_linear, [(2, 3, 4), (2, 1, 4), (2, 1, 4), (5, 4), (5,)]),
    "modulated_linear without bias": (modulated_linear, [(2, 3, 4), (2, 1, 4), (2, 1, 4), (5, 4), None]),
    "gelu_linear": (gelu_linear, [(2, 3, 4), (5, 4), (5,)]),
    "unit": (unit, [(2, 3, 2, 4), (2, 1)]),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    plain, shapes = request.param
    g = torch.Generator().manual_seed(0)
    inputs = [None if s is None else torch.randn(*s, generator=g).double().requires_grad_() for s in shapes]
    return getattr(kernels, plain.__name__), plain, inputs


def test_values_are_those_of_plain_torch(case) -> None:
    ours, plain, inputs = case
    assert torch.allclose(ours(*inputs), plain(*inputs), rtol=1e-12, atol=1e-12)


def test_gradients_are_the_numerical_ones(case) -> None:
    ours, _, inputs = case
    assert gradcheck(ours, inputs)


def test_gradients_are_those_of_plain_torch_in_half_precision(case) -> None:
    """Under autocast, with the tolerance of bfloat16."""
    ours, plain, inputs = case
    singles = [None if t is None else t.detach().float().requires_grad_() for t in inputs]
    found = []
    for function in (ours, plain):
        with torch.autocast("cpu", torch.bfloat16):
            out = function(*singles)
        to = torch.linspace(-1, 2, out.numel()).view_as(out)
        found.append(torch.autograd.grad((out.float() * to).sum(), [t for t in singles if t is not None]))
    for ours_, plain_ in zip(*found, strict=True):
        assert ours_.dtype == plain_.dtype
        assert (ours_ - plain_).norm() < 0.03 * plain_.norm()


def test_a_frozen_input_gets_no_gradient() -> None:
    x, length = torch.randn(1, 2, 2, 4, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
    assert gradcheck(lambda x: kernels.unit(x, length), x.requires_grad_())


def test_a_vector_of_no_length_stays_finite() -> None:
    x = torch.zeros(1, 1, 1, 4, requires_grad=True)
    kernels.unit(x, torch.ones(1, 1)).sum().backward()
    assert x.grad.isfinite().all()
