"""The decoder's parts: attention with a key/value cache and a block modulated by the condition (AdaLN)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeyValue = tuple[Tensor, Tensor]
"""Keys and values of the positions decoded so far: [B, heads, S, head_dim] each."""

NORM_EPS = 1e-6


class Attention(nn.Module):
    """Multi-head attention on L2-normalised queries and keys with a learned temperature a head.

    Scores are ``exp(min(t_h, log 100)) * cos(q, k)``, t_h = log 4 at the start. Queries and values have a bias, keys
    do not.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(width))
        self.v_bias = nn.Parameter(torch.zeros(width))
        self.log_temperature = nn.Parameter(torch.full((1, heads, 1, 1), math.log(4.0)))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        """Attend from ``x`` [B, S, d] to ``past`` and to itself; ``mask`` (bool [S, S]) is true where allowed."""
        batch, length, width = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        qkv = F.linear(x, self.qkv.weight, bias).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # [B, heads, S, head_dim] each
        q = F.normalize(q, dim=-1) * self.log_temperature.clamp(max=math.log(100.0)).exp()
        k = F.normalize(k, dim=-1)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
        return self.out(y.transpose(1, 2).reshape(batch, length, width)), (k, v)


class DropPath(nn.Module):
    """Stochastic depth: drop a residual branch for a whole spot (Huang et al., 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Zero the branch ``x`` [B, S, d] of a random share of the batch and rescale the rest."""
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.rand(x.shape[0], 1, 1, device=x.device) >= self.rate
        return x * keep / (1.0 - self.rate)


class Block(nn.Module):
    """Attention and MLP, each gated, scaled and shifted by the condition (AdaLN, Peebles & Xie 2023).

    The modulation starts at zero, so that a new block is the identity.
    """

    def __init__(self, width: int, heads: int, mlp_ratio: float, condition_width: int, drop_path: float) -> None:
        super().__init__()
        hidden = int(width * mlp_ratio)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.modulation = nn.Sequential(nn.SiLU(), zero_linear(condition_width, 6 * width))
        self.drop_path = DropPath(drop_path)

    def forward(
        self, x: Tensor, condition: Tensor, mask: Tensor | None = None, past: KeyValue | None = None
    ) -> tuple[Tensor, KeyValue]:
        """Transform ``x`` [B, S, d] under ``condition`` [B, c]; also return the grown key/value cache."""
        gate_a, gate_m, scale_a, scale_m, shift_a, shift_m = self.modulation(condition).unsqueeze(1).chunk(6, dim=-1)
        y, cache = self.attention(norm(x) * (1 + scale_a) + shift_a, mask, past)
        x = x + self.drop_path(gate_a * y)
        x = x + self.drop_path(gate_m * self.mlp(norm(x) * (1 + scale_m) + shift_m))
        return x, cache


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """Return a linear layer that starts at zero."""
    layer = nn.Linear(in_features, out_features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def norm(x: Tensor) -> Tensor:
    """Layer normalisation without parameters."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)
