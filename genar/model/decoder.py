"""GenAR with the block-causal decoder: every token is computed once, scale by scale.

All scales lie in one sequence of s_1 + ... + s_K positions, coarse to fine. A position stands for one group of genes
(at the last scale: one gene), sees its own scale and all coarser ones, and predicts its group's mean count as a
distribution over the tokens 0..max_count. Its input is the value of its parent group, measured in training
(teacher forcing), generated in prediction.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genar.genes.hierarchy import Hierarchy
from genar.model import losses
from genar.model.condition import Condition
from genar.model.config import ModelConfig
from genar.model.layers import Block, KeyValue, norm, zero_linear


@dataclass(frozen=True)
class Spots:
    """A batch of spots as the network takes them.

    Parameters
    ----------
    features
        The encoder's features, float32 [B, D].
    position
        x and y scaled to [0, 1] over the slide, float32 [B, 2].
    """

    features: Tensor
    position: Tensor


class GenAR(nn.Module):
    """Count tokens of a panel of G genes, decoded over the K scales of a hierarchy.

    Parameters
    ----------
    config
        Shape of the network.
    hierarchy
        Groups of the genes, in the panel's order.
    feature_dim
        Dimension D of the encoder's features.
    max_count
        The largest count token; the vocabulary has V = max_count + 1 tokens.
    """

    def __init__(self, config: ModelConfig, hierarchy: Hierarchy, feature_dim: int, max_count: int) -> None:
        super().__init__()
        self.config, self.hierarchy, self.max_count = config, hierarchy, max_count
        self.scales = hierarchy.scales
        d, n_genes = config.width, self.scales[-1]
        self.condition = Condition(
            feature_dim, config.condition_width, config.position, config.dropout, config.feature_dropout
        )
        self.start = nn.Parameter(torch.randn(d) * 0.02)
        self.token = nn.Embedding(max_count + 1, d)
        self.gene = nn.Embedding(n_genes, d)
        self.scale = nn.Embedding(len(self.scales), d)
        rates = np.linspace(0, config.drop_path, config.depth)
        self.blocks = nn.ModuleList(
            Block(d, config.heads, config.mlp_ratio, config.condition_width, float(rate)) for rate in rates
        )
        self.head_modulation = nn.Sequential(nn.SiLU(), zero_linear(config.condition_width, 2 * d))
        self.film = nn.Sequential(nn.Linear(d, d), nn.ReLU(), zero_linear(d, 2 * d))
        self.head = nn.Linear(d, max_count + 1)
        self._register_hierarchy(hierarchy)
        self._init()

    def _register_hierarchy(self, hierarchy: Hierarchy) -> None:
        """Keep, as buffers that follow the device but are not saved, what the hierarchy means in tensors."""
        for k in range(len(self.scales)):
            self.register_buffer(f"pooling_{k}", torch.from_numpy(hierarchy.pooling(k)), persistent=False)
            if k > 0:
                self.register_buffer(f"parents_{k}", torch.from_numpy(hierarchy.parents(k)), persistent=False)
        of_scale = torch.repeat_interleave(torch.arange(len(self.scales)), torch.tensor(self.scales))
        self.mask: Tensor
        self.register_buffer("mask", of_scale[:, None] >= of_scale[None, :], persistent=False)  # [S, S]

    def _init(self) -> None:
        """Start from small embeddings."""
        for embedding in (self.token, self.gene, self.scale):
            nn.init.normal_(embedding.weight, std=0.02)

    def group_means(self, counts: Tensor) -> list[Tensor]:
        """Return each scale's targets, the mean counts [B, s_k] of its groups, from gene ``counts`` [B, G]."""
        clipped = counts.to(self.head.weight.dtype).clamp(max=self.max_count)
        return [clipped @ self.get_buffer(f"pooling_{k}").T for k in range(len(self.scales))]

    def embed_values(self, values: Tensor) -> Tensor:
        """Embed real ``values`` [...] in 0..max_count between the embeddings of the two nearest tokens: [..., d]."""
        low = values.floor().clamp(0, self.max_count)
        upper = (values - low).unsqueeze(-1)
        high = (low + 1).clamp(max=self.max_count)
        return torch.lerp(self.token(low.long()), self.token(high.long()), upper)

    def _inputs(self, k: int, coarser: Tensor | None, batch: int) -> tuple[Tensor, Tensor]:
        """Return scale k's inputs [B, s_k, d], from the values [B, s_{k-1}] of the scale before, and its identity."""
        identity = self.get_buffer(f"pooling_{k}") @ self.gene.weight  # [s_k, d]: the mean of the group's genes
        if coarser is None:
            value = self.start.expand(batch, self.scales[k], -1)
        else:
            value = self.embed_values(coarser)[:, self.get_buffer(f"parents_{k}")]
        return value + identity + self.scale.weight[k], identity

    def _logits(self, x: Tensor, condition: Tensor, identity: Tensor) -> Tensor:
        """Turn hidden states [B, S, d] into logits [B, S, V]: AdaLN by the condition, FiLM by the genes' identity."""
        scale, shift = self.head_modulation(condition).unsqueeze(1).chunk(2, dim=-1)
        gamma, beta = self.film(identity).chunk(2, dim=-1)
        return self.head((norm(x) * (1 + scale) + shift) * (1 + gamma) + beta)  # type: ignore[no-any-return]

    def forward(self, spots: Spots, values: list[Tensor]) -> list[Tensor]:
        """Return the logits [B, s_k, V] of every scale, given the ``values`` [B, s_k] of all scales but the last."""
        condition = self.condition(spots.features, spots.position)
        coarser = [None, *values]
        parts = [self._inputs(k, coarser[k], len(condition)) for k in range(len(self.scales))]
        x = torch.cat([inputs for inputs, _ in parts], dim=1)  # [B, S, d]
        for block in self.blocks:
            x, _ = block(x, condition, self.mask)
        logits = self._logits(x, condition, torch.cat([identity for _, identity in parts]))
        return list(torch.split(logits, list(self.scales), dim=1))

    def loss(self, spots: Spots, counts: Tensor) -> Tensor:
        """Return the training loss for measured ``counts`` [B, G]: the mean over scales of the summed divergences."""
        values = self.group_means(counts)
        logits = self(spots, values[:-1])
        coarse = [losses.two_point(z, v) for z, v in zip(logits[:-1], values[:-1], strict=True)]
        fine = losses.gaussian(logits[-1], values[-1], self.config.sigma_slope, self.config.sigma_floor)
        return torch.stack([d.sum(dim=1).mean() for d in [*coarse, fine]]).mean()

    @torch.no_grad()
    def generate(self, spots: Spots) -> Tensor:
        """Decode scale by scale with a key/value cache, and return the last scale's probabilities [B, G, V].

        Between scales the expected value of each group is handed on: a mean is real, so it is not rounded.
        """
        condition = self.condition(spots.features, spots.position)
        caches: list[KeyValue | None] = [None] * len(self.blocks)
        value: Tensor | None = None
        for k in range(len(self.scales)):
            x, identity = self._inputs(k, value, len(condition))
            for i, block in enumerate(self.blocks):
                x, caches[i] = block(x, condition, past=caches[i])
            logits = self._logits(x, condition, identity)
            probabilities = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
            value = self.expect(probabilities)
        return probabilities

    def expect(self, probabilities: Tensor) -> Tensor:
        """Return the expected count [...] of token ``probabilities`` [..., V]."""
        return probabilities @ torch.arange(self.max_count + 1, device=probabilities.device, dtype=probabilities.dtype)
