"""Soft-label losses over count tokens, without a dense target."""

import math

import torch
from torch import Tensor

REACH = 6.0  # standard deviations at which the Gaussian label is cut off: what lies beyond weighs 2e-9


def two_point(logits: Tensor, mean: Tensor) -> Tensor:
    """KL divergence from the two-point label on the integers around a group mean.

    A mean m is labelled ``ceil(m) - m`` on floor(m) and ``m - floor(m)`` on ceil(m) (all on m where it is whole).

    Parameters
    ----------
    logits
        [..., V], one a count token.
    mean
        Group means, [...], from 0 to V - 1.

    Returns
    -------
    The divergence of each position, [...].
    """
    low = mean.floor()
    upper = mean - low
    tokens = torch.stack([low, (low + 1).clamp(max=logits.shape[-1] - 1)], dim=-1).long()
    weights = torch.stack([1 - upper, upper], dim=-1)
    return _divergence(logits, tokens, weights)


def gaussian(logits: Tensor, count: Tensor, slope: float, floor: float) -> Tensor:
    """KL divergence from a Gaussian around the measured count, discretised over the tokens.

    Its standard deviation grows with the count: sigma = slope * mu + floor (paper: 0.01 and 1).

    Parameters
    ----------
    logits
        [..., V], one a count token.
    count
        Measured counts mu, [...], from 0 to V - 1.
    slope, floor
        alpha and beta of the paper.

    Returns
    -------
    The divergence of each position, [...].
    """
    sigma = slope * count + floor
    reach = math.ceil(REACH * float(sigma.max()))
    tokens = count.round().unsqueeze(-1) + torch.arange(-reach, reach + 1, device=count.device, dtype=count.dtype)
    z = (tokens - count.unsqueeze(-1)) / sigma.unsqueeze(-1)
    inside = (tokens >= 0) & (tokens < logits.shape[-1])
    weights = torch.where(inside, torch.exp(-0.5 * z.square()), 0.0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return _divergence(logits, tokens.clamp(0, logits.shape[-1] - 1).long(), weights)


def _divergence(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """KL(label || softmax(logits)) for a label that puts ``weights`` on ``tokens`` (both [..., W])."""
    log_p = logits.gather(-1, tokens) - logits.logsumexp(dim=-1, keepdim=True)
    entropy: Tensor = torch.special.xlogy(weights, weights).sum(-1)
    return entropy - (weights * log_p).sum(-1)
