"""Losses over count tokens, without a dense target."""

import math

import torch
from torch import Tensor

REACH = 6.0  # standard deviations at which the Gaussian label is cut off: what lies beyond weighs 2e-9


def two_point(logits: Tensor, mean: Tensor) -> Tensor:
    """KL divergence [...] of ``logits`` [..., V] from the two-point label on the integers around a ``mean`` [...].

    A mean m is labelled ``ceil(m) - m`` on floor(m) and ``m - floor(m)`` on ceil(m) (all on m where it is whole).
    """
    low = mean.floor()
    upper = mean - low
    tokens = torch.stack([low, (low + 1).clamp(max=logits.shape[-1] - 1)], dim=-1).long()
    weights = torch.stack([1 - upper, upper], dim=-1)
    return _divergence(logits, tokens, weights)


def gaussian(logits: Tensor, count: Tensor, slope: float, floor: float) -> Tensor:
    """KL divergence [...] of ``logits`` [..., V] from a Gaussian around a measured ``count`` mu, cut into the tokens.

    Its standard deviation grows with the count: sigma = slope * mu + floor (alpha, beta in the paper: 0.01 and 1).
    """
    sigma = slope * count + floor
    size = logits.shape[-1]
    reach = math.ceil(REACH * float(sigma.max()))
    if 2 * reach + 1 < size:
        tokens = count.round().unsqueeze(-1) + torch.arange(-reach, reach + 1, device=count.device)
    else:
        tokens = torch.arange(size, device=count.device).expand(*count.shape, size)
    z = (tokens - count.unsqueeze(-1)) / sigma.unsqueeze(-1)
    inside = (tokens >= 0) & (tokens < size)
    weights = torch.where(inside, torch.exp(-0.5 * z.square()), 0.0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return _divergence(logits, tokens.clamp(0, size - 1).long(), weights)


def cross_entropy(logits: Tensor, count: Tensor) -> Tensor:
    """Negative log-likelihood [...] of whole ``count`` [...] under ``logits`` [..., V]."""
    return logits.logsumexp(dim=-1) - logits.gather(-1, count.long().unsqueeze(-1)).squeeze(-1)


def ranked_probability(logits: Tensor, value: Tensor) -> Tensor:
    """Ranked probability score [...] (the CRPS on integers) of ``logits`` [..., V] for a real ``value`` [...].

    The sum over tokens of the squared difference between the predicted and the measured distribution function. A
    value between two integers counts as a mixture of both, as in :func:`two_point`.
    """
    cdf = torch.softmax(logits, dim=-1).cumsum(dim=-1)
    below = torch.cat([torch.zeros_like(cdf[..., :1]), cdf.cumsum(dim=-1)], dim=-1)  # sums of cdf over tokens < t
    low = value.floor()
    upper = value - low
    at = low.long().unsqueeze(-1)
    squares = cdf.square().sum(dim=-1)
    # The measured function is 0 below low, 1 - upper at low and 1 above it.
    cross = (below[..., -1:] - below.gather(-1, at)).squeeze(-1) - upper * cdf.gather(-1, at).squeeze(-1)
    measured = logits.shape[-1] - low - 1 + (1 - upper).square()
    return squares - 2 * cross + measured


def _divergence(logits: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """KL(label || softmax(logits)) for a label that puts ``weights`` on ``tokens`` (both [..., W])."""
    log_p = logits.gather(-1, tokens) - logits.logsumexp(dim=-1, keepdim=True)
    entropy: Tensor = torch.special.xlogy(weights, weights).sum(-1)
    return entropy - (weights * log_p).sum(-1)
