"""What the head predicts of a count: one small interface, three families."""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from genar.model import losses
from genar.model.config import ModelConfig


class Distribution(ABC):
    """A family of count distributions over 0..max_count.

    ``channels`` is the number of outputs of the head, C; ``out`` below is [..., C].
    """

    def __init__(self, config: ModelConfig, max_count: int, channels: int) -> None:
        self.config, self.max_count, self.channels = config, max_count, channels

    def values(self, counts: Tensor) -> Tensor:
        """Put gene ``counts`` [B, G] on the scale that is averaged over groups and embedded."""
        return counts.clamp(max=self.max_count)

    @abstractmethod
    def loss(self, out: Tensor, value: Tensor, *, last: bool, positions: int | None = None) -> Tensor:
        """Return the loss [...] of each position for its group's ``value`` [...]; ``last``: it is a gene's.

        ``positions`` is the scale's number of them, where ``out`` holds but a part.
        """

    @abstractmethod
    def probabilities(self, out: Tensor) -> Tensor:
        """Return the probability [..., V] of each count."""

    @abstractmethod
    def expected(self, out: Tensor) -> Tensor:
        """Return the value [...] that a group hands on, real."""


class Tokens(Distribution):
    """A free distribution over count tokens: one logit a token (the paper)."""

    def loss(self, out: Tensor, value: Tensor, *, last: bool, positions: int | None = None) -> Tensor:
        """Return the divergence from the label; at coarse scales the two-point one, whatever the last scale's."""
        match self.config.distribution:
            case "ordinal":
                return losses.ranked_probability(out, value)
            case _ if not last:
                return losses.two_point(out, value)
            case "cross_entropy":
                return losses.cross_entropy(out, value)
            case _:
                return losses.gaussian(out, value, self.config.sigma_slope, self.config.sigma_floor)

    def probabilities(self, out: Tensor) -> Tensor:
        """Return the softmax, in float32 at least."""
        return F.softmax(out, dim=-1, dtype=torch.promote_types(out.dtype, torch.float32))

    def expected(self, out: Tensor) -> Tensor:
        """Return the expected count."""
        probabilities = self.probabilities(out)
        return mean_of(probabilities, counts_of(probabilities))


class NegativeBinomial(Distribution):
    """A negative binomial: two outputs, the logs of its mean and of its dispersion."""

    def loss(self, out: Tensor, value: Tensor, *, last: bool, positions: int | None = None) -> Tensor:
        """Return the negative log-likelihood."""
        return -self._law(out).log_prob(value)  # type: ignore[no-any-return]

    def probabilities(self, out: Tensor) -> Tensor:
        """Return the probability function, cut off at the largest count and normalised."""
        law = self._law(out.unsqueeze(-2))
        count = torch.arange(self.max_count + 1, device=out.device, dtype=law.logits.dtype)
        return F.softmax(law.log_prob(count), dim=-1)

    def expected(self, out: Tensor) -> Tensor:
        """Return the mean."""
        return self._law(out).mean.clamp(max=self.max_count)

    def _law(self, out: Tensor) -> torch.distributions.NegativeBinomial:
        """Return the distribution, within what float32 bears; its density interpolates between whole counts."""
        log_mean, log_dispersion = out.to(torch.promote_types(out.dtype, torch.float32)).unbind(-1)
        log_mean, log_dispersion = log_mean.clamp(-12, 12), log_dispersion.clamp(-7, 7)
        return torch.distributions.NegativeBinomial(
            log_dispersion.exp(), logits=log_mean - log_dispersion, validate_args=False
        )


class Continuous(Distribution):
    """The paper's continuous controls: log1p counts as real numbers, by regression or as a Gaussian."""

    def values(self, counts: Tensor) -> Tensor:
        """Return log1p of the counts."""
        return counts.log1p().clamp(max=self.max_count)

    def expected(self, out: Tensor) -> Tensor:
        """Return the predicted log1p count."""
        return out[..., 0] if self.config.continuous_reduction == "published" else F.softplus(out).mean(dim=-1)

    def loss(self, out: Tensor, value: Tensor, *, last: bool, positions: int | None = None) -> Tensor:
        """Return the squared error, or the Gaussian's negative log-likelihood; averaged if so published."""
        prediction = self.expected(out)
        if self.config.distribution == "mse":
            loss = F.mse_loss(prediction, value, reduction="none")
        else:
            loss = F.gaussian_nll_loss(prediction, value, _variance(prediction), reduction="none")
        return loss / (positions or loss.shape[-1]) if self.config.continuous_reduction == "published" else loss

    def probabilities(self, out: Tensor) -> Tensor:
        """Return the Gaussian's mass between the half-integers around each count.

        For regression, that of the two counts it lies between, so that E[log1p(count)] is what was predicted.
        """
        prediction = self.expected(out).float()
        if self.config.distribution == "mse":
            levels = torch.arange(self.max_count + 1, device=out.device, dtype=torch.float32).log1p()
            value = prediction.clamp(0, float(levels[-1])).contiguous()
            above = torch.searchsorted(levels, value).clamp(1, self.max_count)
            share = (value - levels[above - 1]) / (levels[above] - levels[above - 1])
            low, high = (F.one_hot(count, self.max_count + 1).float() for count in (above - 1, above))
            return torch.lerp(low, high, share.unsqueeze(-1))
        edges = torch.arange(self.max_count, device=out.device).add(0.5).log1p()
        z = (edges - prediction.unsqueeze(-1)) / _variance(prediction).sqrt().unsqueeze(-1)
        below: Tensor = torch.special.ndtr(F.pad(z, (0, 1), value=torch.inf))
        return below.diff(dim=-1, prepend=torch.zeros_like(z[..., :1]))


def distribution_of(config: ModelConfig, max_count: int) -> Distribution:
    """Return the family that ``config.distribution`` names."""
    match config.distribution:
        case "nb":
            return NegativeBinomial(config, max_count, 2)
        case "mse" | "gaussian_nll":
            return Continuous(config, max_count, max_count + 1)
        case _:
            return Tokens(config, max_count, max_count + 1)


def mean_of(probabilities: Tensor, values: Tensor) -> Tensor:
    """Return the mean [...] of ``values`` [V], a value a count, under ``probabilities`` [..., V], not in bfloat16."""
    with torch.autocast(probabilities.device.type, enabled=False):
        return probabilities @ values


def counts_of(probabilities: Tensor) -> Tensor:
    """Return the counts 0..max_count, [V], that ``probabilities`` [..., V] are of."""
    return torch.arange(probabilities.shape[-1], device=probabilities.device, dtype=probabilities.dtype)


def _variance(prediction: Tensor) -> Tensor:
    """Return the variance that the paper's Gaussian control gives a predicted log1p count."""
    return (0.01 * prediction.exp() + 0.1).clamp(min=1e-4)
