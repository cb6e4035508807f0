"""The condition: histology and position of a spot fused into one vector."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

FREQUENCIES = 64  # sinusoids for each of x and y: 64 sines and 64 cosines
POSITION_WIDTH = 4 * FREQUENCIES


def sinusoids(position: Tensor) -> Tensor:
    """Encode coordinates ``position`` [B, 2] as sines (even) and cosines (odd): [B, 256], 128 for x, then 128 for y."""
    exponent = torch.arange(FREQUENCIES, device=position.device, dtype=position.dtype) / FREQUENCIES
    angle = position.unsqueeze(-1) * torch.exp(-math.log(10000.0) * exponent)  # [B, 2, 64]
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Condition(nn.Module):
    """Fuse an encoder's features and, if asked, the spot's position.

    Features are first standardised with the mean and sd of the training spots (buffers of the model), as the ridge
    baseline does, since a frozen encoder's channels differ in scale by orders of magnitude.
    """

    def __init__(
        self,
        feature_dim: int,
        width: int,
        position: Literal["none", "published"],
        dropout: float,
        feature_dropout: float,
    ) -> None:
        super().__init__()
        self.feature_mean: Tensor
        self.feature_std: Tensor
        self.register_buffer("feature_mean", torch.zeros(feature_dim))
        self.register_buffer("feature_std", torch.ones(feature_dim))
        self.feature_dropout = nn.Dropout(feature_dropout)
        self.histology = nn.Sequential(
            nn.LayerNorm(feature_dim),
            nn.Linear(feature_dim, width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )
        self.position: nn.Module | None = None
        if position == "published":
            self.position = nn.Sequential(
                nn.Linear(2, 128), nn.GELU(), nn.Linear(128, POSITION_WIDTH), nn.LayerNorm(POSITION_WIDTH)
            )
        fused = width + (POSITION_WIDTH if self.position is not None else 0)
        self.fuse = nn.Sequential(nn.Linear(fused, width), nn.LayerNorm(width), nn.Dropout(dropout))

    def forward(self, features: Tensor, position: Tensor) -> Tensor:
        """Return the condition [B, width] of ``features`` [B, D] at ``position`` [B, 2], each coordinate in [0, 1]."""
        x = self.histology(self.feature_dropout((features - self.feature_mean) / self.feature_std))
        if self.position is not None:
            x = torch.cat([x, self.position(position) + sinusoids(position)], dim=-1)
        return self.fuse(x)  # type: ignore[no-any-return]
