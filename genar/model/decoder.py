"""What the two decoders share: tables, blocks, head, the loss over scales and the choice of values between them.

Symbols are the paper's: G genes, K scales of s_1 < ... < s_K = G groups, V count tokens, width d, B spots.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from genar.genes.hierarchy import Hierarchy
from genar.kernels import NORM_EPS
from genar.model.condition import Condition, Spots, given
from genar.model.config import ModelConfig, Rule
from genar.model.decoding import Decoding, draw
from genar.model.distributions import distribution_of
from genar.model.layers import Block, KeyValue, Modulation, zero_linear
from genar.model.tilt import Tilt

T = TypeVar("T")
Read = Callable[[Tensor, slice], T]
"""Takes the probabilities [B, g, V] of a slice of the panel's genes, and makes of them what the caller wants."""

CHUNK_BYTES = 2**30  # what the activations of one chunk of genes may take


@dataclass(frozen=True)
class Choice:
    """How values are chosen between scales.

    ``rule`` is as in :class:`~genar.model.decoding.Decoding`; for ``"sample"``, ``uniform`` holds draws in [0, 1),
    [B, n, s_1 + ... + s_{K-1}], for n paths a spot, and ``decoding`` says how a distribution is narrowed first.
    """

    rule: Rule
    uniform: Tensor | None = None
    decoding: Decoding = Decoding()

    @property
    def paths(self) -> int:
        """Number of paths a spot, n."""
        return given(self.uniform).shape[1] if self.rule == "sample" else 1


class Modulated(NamedTuple):
    """What a batch of spots does to the network.

    Parameters
    ----------
    blocks
        What modulates each block.
    head
        Scale and shift before the head, [B, 1, d] each.
    linear
        What the linear path predicts, [B, s_1 + ... + s_K]; None without one.
    """

    blocks: list[Modulation]
    head: tuple[Tensor, Tensor]
    linear: Tensor | None = None

    def repeated(self, copies: int) -> "Modulated":
        """Return the same for ``copies`` of each spot, one after another."""
        if copies == 1:
            return self
        blocks = [tuple(m.repeat_interleave(copies, dim=0) for m in block) for block in self.blocks]
        scale, shift = (t.repeat_interleave(copies, dim=0) for t in self.head)
        linear = None if self.linear is None else self.linear.repeat_interleave(copies, dim=0)
        return Modulated(blocks, (scale, shift), linear)


class Decoder(nn.Module, ABC):
    """Counts of a panel of genes, decoded over the scales of a hierarchy.

    Parameters
    ----------
    config
        Shape of the network.
    hierarchy
        Groups of the genes, in the panel's order.
    feature_dim
        Dimension D of the spots' features.
    max_count
        The largest count; the vocabulary has V = max_count + 1 tokens.
    """

    def __init__(self, config: ModelConfig, hierarchy: Hierarchy, feature_dim: int, max_count: int) -> None:
        super().__init__()
        self.config, self.hierarchy, self.max_count = config, hierarchy, max_count
        self.scales, self.recompute = hierarchy.scales, False
        config.check_scales(self.scales)
        d = config.width
        self.distribution = distribution_of(config, max_count)
        self.condition = Condition(config, feature_dim)
        self.start = nn.Parameter(torch.randn(d) * 0.02)
        self.token = nn.Embedding(max_count + 1, d)
        self.gene = nn.Embedding(self.scales[-1], d)
        self.scale = nn.Embedding(len(self.scales), d)
        self.blocks = nn.ModuleList(
            Block(d, config.heads, config.mlp_ratio, config.condition_width, float(rate), qk_norm=config.qk_norm)
            for rate in np.linspace(0, config.drop_path, config.layers)
        )
        self.head_modulation = nn.Sequential(nn.SiLU(), zero_linear(config.condition_width, 2 * d))
        self.film = nn.Sequential(nn.Linear(d, d // 2), nn.ReLU(), zero_linear(d // 2, 2 * d)) if config.film else None
        self.head = nn.Linear(d, self.distribution.channels)
        self.tilt = Tilt(feature_dim, sum(self.scales), max_count) if config.linear else None
        self.starts = np.cumsum([0, *self.scales]).tolist()  # of each scale, among the positions of all
        for k in range(len(self.scales)):  # buffers that follow the device but are not saved
            genes, groups = (torch.from_numpy(a) for a in hierarchy.members(k))
            self.register_buffer(f"members_{k}", genes, persistent=False)
            self.register_buffer(f"groups_{k}", groups, persistent=False)
            if k > 0:
                self.register_buffer(f"parents_{k}", torch.from_numpy(hierarchy.parents(k)), persistent=False)
        for embedding in (self.token, self.gene, self.scale):
            nn.init.normal_(embedding.weight, std=0.02)
        if self.tilt is not None:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        if len(self.scales) == 1:
            self.token.requires_grad_(False)  # nothing is handed on: processes that train together ask for gradients

    @abstractmethod
    def forward(self, spots: Spots, values: Sequence[Tensor]) -> list[Tensor]:
        """Return the head's outputs [B, s_k, C] of every scale, given the ``values`` [B, s_k] of all but the last."""

    @abstractmethod
    def loss(self, spots: Spots, counts: Tensor, measured: Tensor | None = None, free_running: float = 0.0) -> Tensor:
        """Return the training loss for ``counts`` [B, G]: the mean over scales of the summed divergences.

        ``measured``, bool [B, G], says which genes a spot's section measured (None: all); the others do not count.
        ``free_running`` is the share of spots whose coarse scales hand on what the network predicts, as in prediction,
        not what was measured (scheduled sampling, Bengio et al., 2015).
        """

    @abstractmethod
    def generate(self, spots: Spots, read: Read[T], choice: Choice | None = None) -> list[T]:
        """Decode free-running, scale by scale.

        ``read`` is called with the last scale's probabilities [B, g, V] of each chunk of genes, and the chunk; what it
        returned is returned, in the panel's order. By default ``choice`` is as the model's ``handed_on`` says.
        """

    def through(self, i: int, *args: Any, **options: Any) -> tuple[Tensor, KeyValue]:
        """Pass block i; see :meth:`~genar.model.layers.Block.forward`."""
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(self.blocks[i], *args, use_reentrant=False, **options)  # type: ignore[no-any-return]
        return self.blocks[i](*args, **options)  # type: ignore[no-any-return]

    def pool(self, genes: Tensor, k: int) -> Tensor:
        """Return the means [s_k, ...] over the groups of scale ``k`` of ``genes`` [G, ...]."""
        members, groups = self.get_buffer(f"members_{k}"), self.get_buffer(f"groups_{k}")
        sums = genes.new_zeros(self.scales[k], *genes.shape[1:]).index_add_(0, groups, genes[members])
        return sums / groups.bincount().to(genes.dtype).view(-1, *[1] * (genes.dim() - 1))

    def targets(self, counts: Tensor, measured: Tensor | None = None) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return each scale's mean values [B, s_k] of its groups, and which of these were measured, bool [B, s_k].

        A mean is over the genes that were; a group that has none gets its parent's mean, to hand on. Where all are
        ``measured``, None stands for the second.
        """
        scales = range(len(self.scales))
        values = self.distribution.values(counts.to(self.head.weight.dtype))
        if measured is None:
            return [self.pool(values.T, k).T for k in scales], [None] * len(scales)
        weight = measured.to(values.dtype)
        means: list[Tensor] = []
        known: list[Tensor | None] = []
        for k in scales:
            share = self.pool(weight.T, k).T
            mean = self.pool((values * weight).T, k).T / share.clamp(min=torch.finfo(share.dtype).tiny)
            if k:
                mean = torch.where(share > 0, mean, means[-1][:, self.get_buffer(f"parents_{k}")])
            means.append(mean)
            known.append(share > 0)
        return means, known

    def embed_values(self, values: Tensor) -> Tensor:
        """Embed real ``values`` [...] in 0..max_count between the embeddings of the two nearest tokens: [..., d]."""
        values = values.to(self.token.weight.dtype).clamp(0, self.max_count)
        low = values.floor()
        high = (low + 1).clamp(max=self.max_count)
        return torch.lerp(self.token(low.long()), self.token(high.long()), (values - low).unsqueeze(-1))

    def modulated(self, spots: Spots) -> Modulated:
        """Return what ``spots`` do to each block and to the outputs."""
        condition = self.condition(spots)
        scale, shift = self.head_modulation(condition).unsqueeze(1).chunk(2, dim=-1)
        blocks = [block.modulate(condition) for block in self.blocks]  # type: ignore[operator]
        linear = None if self.tilt is None else self.tilt.means(self.condition.standard(spots.features), spots.fold)
        return Modulated(blocks, (1 + scale, shift), linear)

    def read_out(self, x: Tensor, modulated: Modulated, identity: Tensor | None, rows: slice) -> Tensor:
        """Turn hidden states [B, S, d] into outputs [B, S, C]: AdaLN by the condition, FiLM by the genes' identity.

        ``rows`` are their places among the positions of all scales.
        """
        scale, shift = modulated.head
        x = torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=NORM_EPS), scale)
        if self.film is not None and identity is not None:
            gamma, beta = self.film(identity).chunk(2, dim=-1)
            x = torch.addcmul(beta, x, 1 + gamma)
        out: Tensor = self.head(x)
        return out if self.tilt is None else out + self.tilt.logits(given(modulated.linear), rows)

    def weighted(self, divergences: Sequence[Tensor]) -> Tensor:
        """Return the loss: each scale's summed divergence [B], averaged over spots and, by weight, over scales."""
        each = torch.stack([d.mean() for d in divergences])
        weights = each.new_tensor(self.config.scale_weights or [1.0] * len(each))
        return (each * (weights / weights.sum())).sum()

    def choose(self, out: Tensor, choice: Choice, k: int) -> Tensor:
        """Return the values [B n, s_k] that the outputs [B n, s_k, C] of scale k hand on."""
        if choice.rule == "expected" or self.config.distribution in ("mse", "gaussian_nll"):
            return self.distribution.expected(out)
        probabilities = self.distribution.probabilities(out)
        if choice.rule == "greedy":
            return probabilities.argmax(dim=-1).to(probabilities.dtype)
        start = sum(self.scales[:k])
        uniform = given(choice.uniform)[..., start : start + self.scales[k]].flatten(0, 1)
        return draw(choice.decoding.sharpen(probabilities), uniform).to(probabilities.dtype)


def summed(divergence: Tensor, measured: Tensor | None) -> Tensor:
    """Sum the ``divergence`` [B, s] of a scale's groups over those that were ``measured``: [B]."""
    return divergence.sum(dim=1) if measured is None else (divergence * measured).sum(dim=1)


def mean_over_paths(probabilities: Tensor, spots: int) -> Tensor:
    """Average ``probabilities`` [B n, g, V] over the n sampled paths of each of B ``spots``: [B, g, V]."""
    if len(probabilities) == spots:
        return probabilities
    return probabilities.unflatten(0, (spots, -1)).mean(dim=1)  # type: ignore[no-any-return]
