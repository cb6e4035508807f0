"""Three steps of a block with backward passes that recompute what is cheap instead of keeping it.

A block keeps about half the activations a position, and passes over memory less often; the matrix
products, which take the time, are not repeated. Without them autograd gives the same gradients.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

NORM_EPS = 1e-6


class _ModulatedLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, scale, shift, weight)
        ctx.has_bias = bias is not None
        return F.linear(torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=NORM_EPS), scale), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, scale, shift, weight = ctx.saved_tensors
        normed, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], None, None, NORM_EPS)
        grad_weight, grad_bias = _of_linear(grad, torch.addcmul(shift, normed, scale), weight, bias=ctx.has_bias)
        grad_in = (grad @ weight.to(grad.dtype)).to(x.dtype)
        grad_shift = grad_in.sum(dim=1, keepdim=True)
        grad_scale = normed.mul_(grad_in).sum(dim=1, keepdim=True)
        grad_x = torch.ops.aten.native_layer_norm_backward(
            grad_in.mul_(scale), x, x.shape[-1:], mean, rstd, None, None, [True, False, False]
        )[0]
        return grad_x, grad_scale, grad_shift, grad_weight, grad_bias


class _GeluLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(F.gelu(x), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        grad_weight, grad_bias = _of_linear(grad, F.gelu(x), weight, bias=True)
        grad_x = torch.ops.aten.gelu_backward((grad @ weight.to(grad.dtype)).to(x.dtype), x)
        return grad_x, grad_weight, grad_bias


class _Unit(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, length: Tensor) -> Tensor:
        inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_(min=1e-12).reciprocal_()
        out: Tensor = (x * (inverse * length)).to(x.dtype)
        ctx.save_for_backward(out, length, inverse)  # attention keeps ``out`` anyway
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        out, length, inverse = ctx.saved_tensors
        along = (grad * out).sum(dim=-1, keepdim=True) / length  # [B, S, heads, 1]: grad's part along x
        grad_length = along.sum(dim=(0, 1)).view_as(length) if ctx.needs_input_grad[1] else None
        grad_x = grad.mul(inverse * length).addcmul_(out, inverse * along, value=-1)
        return grad_x, grad_length


def modulated_linear(x: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``(layer_norm(x) * scale + shift) weight^T + bias``, [B, S, e], of ``x`` [B, S, d]; factors [B, 1, d]."""
    return _ModulatedLinear.apply(x, scale, shift, weight, bias)  # type: ignore[no-any-return]


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``gelu(x) weight^T + bias``, [B, S, e], of ``x`` [B, S, d]."""
    return _GeluLinear.apply(x, weight, bias)  # type: ignore[no-any-return]


def unit(x: Tensor, length: Tensor) -> Tensor:
    """Scale the vectors ``x`` [B, S, heads, n] to the ``length`` [heads, 1] of their head."""
    return _Unit.apply(x, length)  # type: ignore[no-any-return]


def _of_linear(grad: Tensor, x: Tensor, weight: Tensor, *, bias: bool) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of a linear layer's weight and bias from that of its output and its input."""
    rows = grad.flatten(0, -2)
    grad_weight = rows.T @ x.flatten(0, -2).to(grad.dtype)
    return grad_weight.to(weight.dtype), rows.sum(dim=0).to(weight.dtype) if bias else None
