"""A linear path from the features to every position's distribution over tokens.

What a frozen encoder sees explains counts mostly linearly, and of few sections a ridge regression learns that better
than a transformer does. The path is that regression, in the form of an exponential family on phi(c) = log2(c + 1):

    logits(c) = -ln(c + 1) + (a + b m) phi(c) - s phi(c)^2,    m = x W + w,

a Gaussian on the scale of phi, cut off at 0, whose mean follows the regression's prediction m; the first term is the
density of the counts on that scale. It is fitted before training (:mod:`genar.jobs.linear`), stays as it is, and is
added to the head's logits, which start at zero: the decoder learns what is left. What is left of the spots that taught
the regression is less than of others, so in training the path of a spot is one fitted without the spot's section.
"""

import torch
from torch import Tensor, nn

from genar.model.condition import given


class Tilt(nn.Module):
    """See the module's head.

    Parameters
    ----------
    features
        Dimension D of the standardised features x.
    positions
        Number of positions P, of all scales together.
    max_count
        The largest count.
    """

    def __init__(self, features: int, positions: int, max_count: int) -> None:
        super().__init__()
        self.weight: Tensor
        self.bias: Tensor
        self.offset: Tensor
        self.slope: Tensor
        self.width: Tensor
        self.phi: Tensor
        self.fold_weight: Tensor | None
        self.fold_bias: Tensor | None
        self.register_buffer("weight", torch.zeros(features, positions))  # W
        for name in ("bias", "offset", "slope", "width"):  # w, a, b, s
            self.register_buffer(name, torch.zeros(positions))
        self.register_buffer("phi", phi(torch.arange(max_count + 1.0)), persistent=False)
        for name in ("fold_weight", "fold_bias"):  # while training: W and w fitted without each inner fold
            self.register_buffer(name, None, persistent=False)

    def means(self, x: Tensor, fold: Tensor | None = None) -> Tensor:
        """Return what the regression predicts of phi, [B, P], from standardised features ``x`` [B, D].

        Of spots in an inner ``fold``, [B], what the regression that was fitted without it does.
        """
        if fold is None:
            return x @ self.weight + self.bias
        found = x.new_empty(len(x), self.weight.shape[1])
        for i, (weight, bias) in enumerate(zip(given(self.fold_weight), given(self.fold_bias), strict=True)):
            here = fold == i
            found[here] = x[here] @ weight + bias
        return found

    def logits(self, means: Tensor, rows: slice) -> Tensor:
        """Return the logits [B, R, V] of some positions, of which ``means`` [B, P] holds all."""
        return tilted(means[:, rows], self.offset[rows], self.slope[rows], self.width[rows], self.phi)


def phi(values: Tensor) -> Tensor:
    """Return log2(value + 1)."""
    return (values + 1).log2()


def tilted(means: Tensor, offset: Tensor, slope: Tensor, width: Tensor, phi: Tensor) -> Tensor:
    """Return the logits [B, R, V] of the module's head, from ``means`` [B, R] and a, b and s, [R] each."""
    density = -phi * torch.log(phi.new_tensor(2.0)) - width.unsqueeze(-1) * phi.square()
    return density + (offset + slope * means).unsqueeze(-1) * phi
