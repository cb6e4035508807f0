"""From a distribution over counts to counts."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from genar.model.decoding import Decoding, draw
from genar.model.distributions import counts_of, mean_of

Estimator = Literal["mean", "log_mean", "mode", "sample"]
"""How a count is taken from its distribution.

``mean``
    the expected count E[c], rounded: right totals.
``log_mean``
    ``2**E[log2(c + 1)] - 1``, rounded: least error on the log scale.
``mode``
    the most probable count: the paper's greedy decoding.
``sample``
    one seeded draw: keeps the spread of measured counts.
"""

ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


def moments(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation [...] of count ``probabilities`` [..., V]."""
    count = counts_of(probabilities)
    mean = mean_of(probabilities, count)
    variance = (probabilities * (count - mean.unsqueeze(-1)).square()).sum(dim=-1)  # E[c^2] - E[c]^2 would cancel
    return mean, variance.sqrt()


def log_mean(probabilities: Tensor) -> Tensor:
    """Return E[log2(count + 1)], [...], of count ``probabilities`` [..., V]."""
    return mean_of(probabilities, torch.log2(counts_of(probabilities) + 1))


def quantiles(probabilities: Tensor, levels: Sequence[float]) -> list[Tensor]:
    """Return, for each level, the smallest count [...], int32, whose distribution function reaches it."""
    cdf = probabilities.cumsum(dim=-1)
    return [(cdf < level * cdf[..., -1:]).sum(dim=-1).int() for level in levels]


def counts(
    probabilities: Tensor, estimator: Estimator, uniform: Tensor | None = None, decoding: Decoding | None = None
) -> Tensor:
    """Take integer counts from token ``probabilities``.

    Parameters
    ----------
    probabilities
        [..., V], summing to 1 over the tokens.
    estimator
        Which point estimate.
    uniform
        For ``"sample"``: uniform draws [...] in [0, 1), one a count.
    decoding
        For ``"sample"``: how the distribution is narrowed first.

    Returns
    -------
    Counts, int32 [...].
    """
    match estimator:
        case "mean":
            return moments(probabilities)[0].round().int()
        case "log_mean":
            return torch.exp2(log_mean(probabilities)).sub(1).round().int()
        case "mode":
            return probabilities.argmax(dim=-1).int()
        case "sample":
            return draw(probabilities if decoding is None else decoding.sharpen(probabilities), uniform)
