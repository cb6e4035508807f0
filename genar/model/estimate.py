"""From a distribution over count tokens to counts."""

from typing import Literal, get_args

import torch
from torch import Tensor

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
    token = torch.arange(probabilities.shape[-1], device=probabilities.device, dtype=probabilities.dtype)
    mean = probabilities @ token
    variance = (probabilities @ token.square() - mean.square()).clamp(min=0)
    return mean, variance.sqrt()


def log_mean(probabilities: Tensor) -> Tensor:
    """Return E[log2(count + 1)], [...], of count ``probabilities`` [..., V]."""
    token = torch.arange(probabilities.shape[-1], device=probabilities.device, dtype=probabilities.dtype)
    return probabilities @ torch.log2(token + 1)


def counts(probabilities: Tensor, estimator: Estimator, uniform: Tensor | None = None) -> Tensor:
    """Take integer counts from token ``probabilities``.

    Parameters
    ----------
    probabilities
        [..., V], summing to 1 over the tokens.
    estimator
        Which point estimate.
    uniform
        For ``"sample"``: uniform draws [...] in [0, 1), one a count.

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
            if uniform is None:
                msg = "sampling needs uniform draws"
                raise ValueError(msg)
            below = (probabilities.cumsum(dim=-1) < uniform.unsqueeze(-1)).sum(dim=-1)
            return below.clamp(max=probabilities.shape[-1] - 1).int()
