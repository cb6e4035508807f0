"""How the decoder goes from one scale to the next, and how it draws."""

from typing import ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from genar.model.config import Rule


class Decoding(BaseModel):
    """How the decoder goes from a scale to the next, and how it draws.

    Parameters
    ----------
    rule
        Which value of a group is handed on to the finer scale: the ``"expected"`` one, the most probable
        (``"greedy"``, the paper), or a drawn one (``"sample"``). By default as the model was made for.
    n_samples
        With the rule ``"sample"``: paths drawn a spot, over which a gene's distribution is averaged.
    temperature
        Divides the logits before a draw: below 1 narrows the distribution.
    top_k
        Draw among the k most probable counts; 0 for all.
    top_p
        Draw among the fewest counts that hold this share of the probability (nucleus sampling, Holtzman et al., 2020).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rule: Rule | None = None
    n_samples: int = Field(1, ge=1, le=10_000)
    temperature: float = Field(1.0, gt=0)
    top_k: int = Field(0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _samples_are_drawn(self) -> "Decoding":
        if self.n_samples > 1 and self.rule != "sample":
            msg = f'{self.n_samples} n_samples need the rule "sample"'
            raise ValueError(msg)
        return self

    @property
    def narrows(self) -> bool:
        """Whether a distribution is changed before a draw."""
        return self.temperature != 1.0 or self.top_k > 0 or self.top_p < 1.0

    def sharpen(self, probabilities: Tensor) -> Tensor:
        """Return the narrowed ``probabilities`` [..., V]."""
        p = probabilities
        if self.temperature != 1.0:
            p = torch.softmax(p.log() / self.temperature, dim=-1)
        if self.top_k or self.top_p < 1.0:
            ranked, order = p.sort(dim=-1, descending=True, stable=True)
            before = ranked.cumsum(dim=-1) - ranked
            kept = before < self.top_p
            if self.top_k:
                kept[..., self.top_k :] = False
            p = torch.zeros_like(p).scatter(-1, order, ranked * kept)
        return p / p.sum(dim=-1, keepdim=True)


def draw(probabilities: Tensor, uniform: Tensor | None) -> Tensor:
    """Draw a count, int32 [...], from ``probabilities`` [..., V] with each of ``uniform`` [...] in [0, 1)."""
    if uniform is None:
        msg = "sampling needs uniform draws"
        raise ValueError(msg)
    cdf = probabilities.cumsum(dim=-1)
    level = (uniform.unsqueeze(-1) * cdf[..., -1:]).clamp(min=torch.finfo(cdf.dtype).tiny)  # none of probability 0
    return (cdf < level).sum(dim=-1).int()
