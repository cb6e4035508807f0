"""The decoders' parts: attention with a key/value cache and a block modulated by the condition (AdaLN)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genar.kernels import gelu_linear, modulated_linear, unit

KeyValue = tuple[Tensor, Tensor]
"""Keys and values of the positions decoded so far: [B, heads, S, head_dim] each."""

Modulation = tuple[Tensor, ...]
"""A block's view of the condition: gates, scales and shifts for attention and MLP, six of [B, 1, d]."""


class Attention(nn.Module):
    """Multi-head attention; queries and values have a bias, keys do not.

    With ``qk_norm`` (the paper) queries and keys are L2-normalised and scores are ``exp(min(t_h, log 100)) * cos(q,
    k)`` with a learned t_h a head, log 4 at the start; without it they are ``q k / (4 sqrt(head_dim))``.
    """

    def __init__(self, width: int, heads: int, *, qk_norm: bool) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(width))
        self.v_bias = nn.Parameter(torch.zeros(width))
        self.log_temperature = nn.Parameter(torch.full((1, heads, 1, 1), math.log(4.0))) if qk_norm else None
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, scale: Tensor, shift: Tensor, past: KeyValue | None, mask: Tensor | None,
        queries: int | None, *, own: bool, causal: bool,
    ) -> tuple[Tensor, KeyValue]:  # fmt: skip
        """Attend from the last ``queries`` positions of the modulated ``x`` [B, S, d]; see :meth:`Block.forward`."""
        q, k, v = self._project(x, scale, shift, queries, own=own)
        score_scale = 0.25 / math.sqrt(self.width // self.heads)
        if self.log_temperature is not None:
            temperature = self.log_temperature.clamp(max=math.log(100.0)).exp().view(-1, 1)
            q = unit(q, temperature)
            k = None if k is None else unit(k, torch.ones_like(temperature))
            score_scale = 1.0
        q = q.transpose(1, 2)
        new = None if k is None or v is None else (k.transpose(1, 2), v.transpose(1, 2))
        seen = _join(past, new)
        if causal and queries is not None:
            mask = torch.ones(queries, x.shape[1], dtype=torch.bool, device=x.device).tril(x.shape[1] - queries)
        whole = causal and queries is None
        y = F.scaled_dot_product_attention(q, *seen, attn_mask=mask, is_causal=whole, scale=score_scale)
        return self.out(y.transpose(1, 2).flatten(2)), seen

    def _project(
        self, x: Tensor, scale: Tensor, shift: Tensor, queries: int | None, *, own: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return queries [B, Q, heads, n] and, if the positions have their own, keys and values [B, S, heads, n]."""
        d, weight = self.width, self.qkv.weight

        def project(x: Tensor, weight: Tensor, *bias: Tensor) -> tuple[Tensor, ...]:
            out = modulated_linear(x, scale, shift, weight, torch.cat(bias))
            return tuple(t.unflatten(-1, (self.heads, -1)) for t in out.chunk(len(bias), dim=-1))

        zero = torch.zeros_like(self.v_bias)  # keys have no bias
        if own and queries is None:
            whole = project(x, weight, self.q_bias, zero, self.v_bias)
            return whole[0], whole[1], whole[2].clone()  # so that the three together need not be kept
        (q,) = project(x if queries is None else x[:, -queries:], weight[:d], self.q_bias)
        if not own:
            return q, None, None
        k, v = project(x, weight[d:], zero, self.v_bias)
        return q, k, v


class DropPath(nn.Module):
    """Stochastic depth: drop a residual branch for a whole spot (Huang et al., 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, gate: Tensor) -> Tensor:
        """Zero the branch's ``gate`` [B, 1, d] for a random share of the batch and rescale the rest."""
        if not self.training or self.rate == 0.0:
            return gate
        keep = torch.rand(gate.shape[0], 1, 1, device=gate.device) >= self.rate
        return gate * keep / (1.0 - self.rate)


class Block(nn.Module):
    """Attention and MLP, each gated, scaled and shifted by the condition (AdaLN, Peebles & Xie 2023).

    The modulation starts at zero, so that a new block is the identity.
    """

    def __init__(
        self, width: int, heads: int, mlp_ratio: float, condition_width: int, drop_path: float, *, qk_norm: bool
    ) -> None:
        super().__init__()
        hidden = int(width * mlp_ratio)
        self.attention = Attention(width, heads, qk_norm=qk_norm)
        self.widen = nn.Linear(width, hidden)  # the MLP, with a GELU between
        self.narrow = nn.Linear(hidden, width)
        self.modulation = nn.Sequential(nn.SiLU(), zero_linear(condition_width, 6 * width))
        self.drop_path = DropPath(drop_path)

    def modulate(self, condition: Tensor) -> Modulation:
        """Turn the ``condition`` [B, c] into this block's modulation, once for all its passes."""
        gate_a, gate_m, scale_a, scale_m, shift_a, shift_m = self.modulation(condition).unsqueeze(1).chunk(6, dim=-1)
        return self.drop_path(gate_a), self.drop_path(gate_m), 1 + scale_a, 1 + scale_m, shift_a, shift_m

    def forward(
        self,
        x: Tensor,
        modulation: Modulation,
        past: KeyValue | None = None,
        mask: Tensor | None = None,
        queries: int | None = None,
        *,
        own: bool = True,
        causal: bool = False,
    ) -> tuple[Tensor, KeyValue]:
        """Transform positions ``x`` [B, S, d] that see ``past`` and each other; return them and the grown ``past``.

        ``mask``, bool [Q, S], is true where a position may look (by default at all); ``causal``: at itself and those
        before it in ``x``. With ``queries`` the last Q positions alone are transformed and returned, the others serve
        as keys; without ``own`` the positions see ``past`` alone, not each other.
        """
        gate_a, gate_m, scale_a, scale_m, shift_a, shift_m = modulation
        y, cache = self.attention(x, scale_a, shift_a, past, mask, queries, own=own, causal=causal)
        x = torch.addcmul(x if queries is None else x[:, -queries:], gate_a, y)
        hidden = modulated_linear(x, scale_m, shift_m, self.widen.weight, self.widen.bias)
        return torch.addcmul(x, gate_m, gelu_linear(hidden, self.narrow.weight, self.narrow.bias)), cache


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """Return a linear layer that starts at zero."""
    layer = nn.Linear(in_features, out_features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _join(past: KeyValue | None, new: KeyValue | None) -> KeyValue:
    """Return all that a position sees."""
    if past is not None and new is not None:
        return torch.cat([past[0], new[0]], dim=2), torch.cat([past[1], new[1]], dim=2)
    seen = past if new is None else new
    assert seen is not None, "a position without keys of its own needs a past"
    return seen
