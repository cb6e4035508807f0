"""The condition: what is known of a spot, fused into one vector."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from genar.model.config import ModelConfig
from genar.model.layers import zero_linear

FREQUENCIES = 64  # sinusoids for each of x and y: 64 sines and 64 cosines
POSITION_WIDTH = 4 * FREQUENCIES


@dataclass(frozen=True)
class Spots:
    """A batch of spots as the networks take them. Fields that the model does not use may be left out.

    Parameters
    ----------
    features
        The encoder's features, float32 [B, D]; with the context, D more: the mean of the neighbours'.
    position
        x and y, float32 [B, 2], scaled as :attr:`~genar.model.config.ModelConfig.position` says.
    log_library_size
        Natural log of the median library size of the spot's slide, float32 [B].
    neighbour_features
        Features of the N nearest spots, nearest first, float32 [B, N, D].
    neighbour_offsets
        Where they lie from the spot, in pitches, float32 [B, N, 2]; NaN where there is none.
    fold
        In training with a linear path: the inner fold that the spot belongs to, int64 [B].
    """

    features: Tensor
    position: Tensor | None = None
    log_library_size: Tensor | None = None
    neighbour_features: Tensor | None = None
    neighbour_offsets: Tensor | None = None
    fold: Tensor | None = None


def sinusoids(position: Tensor) -> Tensor:
    """Encode coordinates ``position`` [B, 2] as sines (even) and cosines (odd): [B, 256], 128 for x, then 128 for y."""
    exponent = torch.arange(FREQUENCIES, device=position.device, dtype=position.dtype) / FREQUENCIES
    angle = position.unsqueeze(-1) * torch.exp(-math.log(10000.0) * exponent)  # [B, 2, 64]
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


class Neighbourhood(nn.Module):
    """Attention from a spot to the histology of its nearest spots. Starts as the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.offset = nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, width))
        self.out = zero_linear(width, width)

    def forward(self, centre: Tensor, around: Tensor, offsets: Tensor) -> Tensor:
        """Add to ``centre`` [B, w] what ``around`` [B, N, w] at ``offsets`` [B, N, 2] says of it."""
        absent = offsets.isnan().any(dim=-1)
        offsets = offsets.nan_to_num()
        distance = offsets.norm(dim=-1, keepdim=True)
        around = around + self.offset(torch.cat([offsets, distance], dim=-1))
        k, v = self.key_value(around).chunk(2, dim=-1)
        score = (self.query(centre).unsqueeze(1) * k).sum(dim=-1) / math.sqrt(k.shape[-1])  # [B, N]
        weight = score.masked_fill(absent, -torch.inf).softmax(dim=-1).nan_to_num()  # all absent: no neighbours
        return centre + self.out((weight.unsqueeze(-1) * v).sum(dim=1))  # type: ignore[no-any-return]


class Condition(nn.Module):
    """Fuse an encoder's features with the position, the neighbourhood and the sequencing depth, as far as asked.

    Features are first standardised with the mean and sd of the training spots (buffers of the model), as the ridge
    baseline does, since a frozen encoder's channels differ in scale by orders of magnitude. The log depth is centred.
    """

    def __init__(self, config: ModelConfig, feature_dim: int) -> None:
        super().__init__()
        width, histology = config.condition_width, config.histology_width
        self.feature_mean: Tensor
        self.feature_std: Tensor
        self.log_library_mean: Tensor
        self.register_buffer("feature_mean", torch.zeros(feature_dim))
        self.register_buffer("feature_std", torch.ones(feature_dim))
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        self.histology = nn.Sequential(
            nn.LayerNorm(feature_dim),
            nn.Linear(feature_dim, histology),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(histology, histology),
            nn.LayerNorm(histology),
        )
        self.neighbourhood = Neighbourhood(histology) if config.neighbours and not config.context else None
        self.position: nn.Module | None = None
        if config.position != "none":
            self.position = nn.Sequential(
                nn.Linear(2, 128), nn.GELU(), nn.Linear(128, POSITION_WIDTH), nn.LayerNorm(POSITION_WIDTH)
            )
        fused = histology + (POSITION_WIDTH if self.position is not None else 0)
        self.fuse = nn.Sequential(nn.Linear(fused, width), nn.LayerNorm(width), nn.Dropout(config.dropout))
        self.library_size: nn.Module | None = None
        if config.library_size:
            self.register_buffer("log_library_mean", torch.zeros(()))
            self.library_size = nn.Linear(1, width)

    def forward(self, spots: Spots) -> Tensor:
        """Return the condition [B, width] of ``spots``."""
        x = self._histology(spots.features)
        if self.neighbourhood is not None:
            around, offsets = given(spots.neighbour_features), given(spots.neighbour_offsets)
            x = self.neighbourhood(x, self._histology(around), offsets)
        if self.position is not None:
            position = given(spots.position)
            x = torch.cat([x, self.position(position) + sinusoids(position)], dim=-1)
        fused: Tensor = self.fuse(x)
        if self.library_size is not None:
            fused = fused + self.library_size((given(spots.log_library_size) - self.log_library_mean).unsqueeze(-1))
        return fused

    def standard(self, features: Tensor) -> Tensor:
        """Standardise raw ``features`` [..., D]."""
        return (features - self.feature_mean) / self.feature_std

    def _histology(self, features: Tensor) -> Tensor:
        """Return the histology branch [..., w] of raw ``features`` [..., D]."""
        return self.histology(self.feature_dropout(self.standard(features)))  # type: ignore[no-any-return]


def given(tensor: Tensor | None) -> Tensor:
    """Return an input that the model uses, or say that it is missing."""
    if tensor is None:
        msg = "the model takes an input that the spots do not carry"
        raise ValueError(msg)
    return tensor
