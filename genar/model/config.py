"""What a model is: everything needed to build its network."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ModelConfig(BaseModel):
    """Shape of the network. The defaults are those of the paper, but for the position.

    Parameters
    ----------
    width
        Width of the decoder, d.
    depth
        Decoder blocks.
    heads
        Attention heads; must divide ``width``.
    mlp_ratio
        Hidden width of a block's MLP over ``width``.
    condition_width
        Width of the fused condition and of the histology branch.
    position
        ``"published"``: spot coordinates scaled to [0, 1] over each slide, as in the paper. ``"none"``: histology
        alone, which is all that carries over to a slide with another outline.
    dropout
        Dropout in the condition.
    feature_dropout
        Dropout on the encoder's features themselves.
    drop_path
        Stochastic depth of the last block, rising linearly from 0 at the first.
    sigma_slope, sigma_floor
        The last scale's soft label for a count mu is a Gaussian with sd ``sigma_slope * mu + sigma_floor``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(512, ge=8)
    depth: int = Field(8, ge=1)
    heads: int = Field(8, ge=1)
    mlp_ratio: float = Field(3.0, gt=0)
    condition_width: int = Field(512, ge=8)
    position: Literal["none", "published"] = "none"
    dropout: float = Field(0.1, ge=0, lt=1)
    feature_dropout: float = Field(0.0, ge=0, lt=1)
    drop_path: float = Field(0.1, ge=0, lt=1)
    sigma_slope: float = Field(0.01, ge=0)
    sigma_floor: float = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "ModelConfig":
        if self.width % self.heads:
            msg = f"heads ({self.heads}) must divide width ({self.width})"
            raise ValueError(msg)
        return self
