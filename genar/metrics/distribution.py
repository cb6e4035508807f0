"""What a predicted distribution over counts is worth at the measured count, cell by cell."""

import torch
from torch import Tensor

from genar.metrics.prediction import LEVELS, Spread

LEAST = 1e-12  # probability: below it a count's log-likelihood is cut, since a regression gives one count all


def negative_log_likelihood(probabilities: Tensor, counts: Tensor) -> Tensor:
    """Return -log p(count), nats, of each measured count.

    Parameters
    ----------
    probabilities
        [..., V], summing to 1 over counts 0..V-1.
    counts
        Measured counts, [...]. One above the vocabulary is taken for its last, as in training.
    """
    token = counts.long().clamp(max=probabilities.shape[-1] - 1).unsqueeze(-1)
    return -probabilities.gather(-1, token).squeeze(-1).clamp(min=LEAST).log()


def crps(cdf: Tensor, counts: Tensor) -> Tensor:
    """Return the continuous ranked probability score, in counts: sum over k of (F(k) - 1[count <= k])^2.

    That of one certain count is the distance. Of whole counts it is the ranked probability score (Epstein, 1969;
    Gneiting & Raftery, 2007).

    Parameters
    ----------
    cdf
        Distribution function at 0..V-1, [..., V]; its last value may miss 1 by rounding.
    counts
        Measured counts, [...], above the vocabulary too: F is 1 there.
    """
    k = torch.arange(cdf.shape[-1], device=cdf.device)
    step = k >= counts.unsqueeze(-1)
    inside = (cdf / cdf[..., -1:]).sub_(step.to(cdf.dtype)).square_().sum(dim=-1)
    return inside + (counts - cdf.shape[-1]).clamp(min=0)


def covered(cdf: Tensor, counts: Tensor, level: float) -> Tensor:
    """Return whether each measured count lies in the central interval, bool [...].

    The interval is from the quantile (1 - level)/2 to (1 + level)/2 of :func:`genar.estimate.quantiles`, both
    included. That of counts holds ``level`` of the probability or more.

    Parameters
    ----------
    cdf
        Distribution function at 0..V-1, [..., V].
    counts
        Measured counts, [...].
    level
        Of the interval, in (0, 1).
    """
    last, y = cdf.shape[-1] - 1, counts.long()
    total = cdf[..., -1]
    here = cdf.gather(-1, y.clamp(max=last).unsqueeze(-1)).squeeze(-1)
    below = cdf.gather(-1, (y - 1).clamp(0, last).unsqueeze(-1)).squeeze(-1)
    # q(a) is the first count that reaches a: q(a) <= y where F(y) does, y <= q(b) where F(y - 1) does not
    above_low = here >= (1 - level) / 2 * total
    return above_low & ((y == 0) | (below < (1 + level) / 2 * total))


def spread_of(probabilities: Tensor, counts: Tensor) -> Spread:
    """Judge a chunk of genes, so that no more than its probabilities are ever held.

    Give it to :meth:`genar.model.decoder.Decoder.generate` as what is read of each chunk, then join the chunks with
    :meth:`Spread.joined`: ``lambda p, genes: spread_of(p, counts[:, genes])``.

    Parameters
    ----------
    probabilities
        [B, g, V], summing to 1 over counts 0..V-1.
    counts
        Measured counts, int [B, g], where the probabilities are.
    """
    cdf = probabilities.cumsum(dim=-1)
    return Spread(
        nll=negative_log_likelihood(probabilities, counts).float().cpu().numpy(),
        crps=crps(cdf, counts.long()).float().cpu().numpy(),
        covered={level: covered(cdf, counts, level).cpu().numpy() for level in LEVELS},
        modes=probabilities.argmax(dim=-1).int().cpu().numpy(),
    )
