"""The published decoder: one causal pass a scale over all coarser tokens and this scale's positions.

Numerically equal to the paper's code release. A scale's positions start from what the scale before was *predicted*
to be, in training too, so the passes follow one another; coarser tokens are the measured ones in training.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from genar.genes.hierarchy import Hierarchy
from genar.model.condition import Spots
from genar.model.config import ModelConfig
from genar.model.decoder import Choice, Decoder, Modulated, Read, T, mean_over_paths, summed

DROPOUT = 0.1
INHERITED = 0.7  # share of the upsampled value in a gene's start; the rest is its identity


class Cumulative(Decoder):
    """See the module's head."""

    def __init__(self, config: ModelConfig, hierarchy: Hierarchy, feature_dim: int, max_count: int) -> None:
        super().__init__(config, hierarchy, feature_dim, max_count)
        d, coarse = config.width, self.scales[:-1]
        lengths = [1 + sum(self.scales[: k + 1]) for k in range(len(self.scales))]
        self.position = nn.ModuleList(nn.Embedding(length, d) for length in lengths)
        self.upsampling = nn.ModuleList(
            nn.Sequential(
                nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d), nn.LayerNorm(d), nn.Dropout(DROPOUT)
            )
            for _ in coarse
        )  # fmt: skip
        self.identity: nn.ModuleList | None = None
        if config.film:
            self.identity = nn.ModuleList(
                nn.Sequential(nn.Linear(d, d), nn.LayerNorm(d), nn.Dropout(DROPOUT)) for _ in coarse
            )
        else:
            del self.gene
        for table in self.position:
            nn.init.normal_(table.weight, std=0.02)  # type: ignore[arg-type]

    def forward(self, spots: Spots, values: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs [B, s_k, C] of every scale, given the ``values`` [B, s_k] of all scales but the last."""
        modulated = self.modulated(spots)
        known = [self._known(v) for v in values]
        outputs: list[Tensor] = []
        for k in range(len(self.scales)):
            handed = self.choose(outputs[-1].detach(), Choice(self.config.handed_on), k - 1) if k else None
            outputs.append(self._scale(k, known[:k], handed, modulated))
        return outputs

    def loss(self, spots: Spots, counts: Tensor, measured: Tensor | None = None, free_running: float = 0.0) -> Tensor:
        """Return the training loss; see :meth:`Decoder.loss`. The published algorithm is never free-running here."""
        values, known = self.targets(counts, measured)
        outputs = self(spots, values[:-1])
        last = len(values) - 1
        return self.weighted([
            summed(self.distribution.loss(out, value, last=k == last), seen)
            for k, (out, value, seen) in enumerate(zip(outputs, values, known, strict=True))
        ])  # fmt: skip

    @torch.no_grad()
    def generate(self, spots: Spots, read: Read[T], choice: Choice | None = None) -> list[T]:
        """Decode scale by scale; see :meth:`Decoder.generate`."""
        outputs = self.free_run(spots, choice or Choice(self.config.handed_on))
        probabilities = self.distribution.probabilities(outputs[-1])
        return [read(mean_over_paths(probabilities, len(spots.features)), slice(0, self.scales[-1]))]

    def free_run(self, spots: Spots, choice: Choice) -> list[Tensor]:
        """Return the outputs [B n, s_k, C] of every scale when each takes the values of those before."""
        modulated = self.modulated(spots).repeated(choice.paths)
        known: list[Tensor] = []
        outputs: list[Tensor] = []
        handed: Tensor | None = None
        for k in range(len(self.scales)):
            if k:
                handed = self.choose(outputs[-1], choice, k - 1)
                known.append(self.embed_values(handed))
            outputs.append(self._scale(k, known, handed, modulated))
        return outputs

    def _known(self, value: Tensor) -> Tensor:
        """Embed the measured means [B, s] of a scale: [B, s, d]. Counts are first rounded, halves down."""
        if self.config.distribution in ("mse", "gaussian_nll"):
            return self.embed_values(value)
        return self.token((value - 0.5).ceil().clamp(0, self.max_count).long())  # type: ignore[no-any-return]

    def _scale(self, k: int, known: Sequence[Tensor], handed: Tensor | None, modulated: Modulated) -> Tensor:
        """Return the outputs [B, s_k, C] of scale k's pass.

        ``known`` embeds the coarser scales' tokens; ``handed`` [B, s_{k-1}] is where its own positions start from.
        """
        size, batch = self.scales[k], len(modulated.head[0])
        identity = self._identity(k)
        x = torch.cat([self.start.expand(batch, 1, -1), *known, self._starts(k, handed, identity, batch)], dim=1)
        x = x + self.position[k].weight + self.scale.weight[k]  # type: ignore[operator]
        last = len(modulated.blocks) - 1
        for i, modulation in enumerate(modulated.blocks):
            x, _ = self.through(i, x, modulation, queries=size if i == last else None, causal=True)
        return self.read_out(x, modulated, identity, slice(self.starts[k], self.starts[k + 1]))

    def _starts(self, k: int, handed: Tensor | None, identity: Tensor | None, batch: int) -> Tensor:
        """Return what the positions of scale k start from, [B, s_k, d]."""
        if handed is None:
            return self.start.new_zeros(batch, self.scales[k], self.config.width)
        x = self.upsampling[k - 1](self.embed_values(handed))[:, self.get_buffer(f"parents_{k}")]
        if k < len(self.scales) - 1 or identity is None:
            return x  # type: ignore[no-any-return]
        return INHERITED * x + (1 - INHERITED) * identity  # type: ignore[no-any-return]

    def _identity(self, k: int) -> Tensor | None:
        """Return the identity [s_k, d] of scale k's groups, from their genes' table, if the model has one."""
        if self.identity is None:
            return None
        return self.gene.weight if k == len(self.scales) - 1 else self.identity[k](self.pool(self.gene.weight, k))
