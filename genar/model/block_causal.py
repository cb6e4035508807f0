"""The block-causal decoder: every token is computed once, scale by scale.

A position stands for one group of genes (at the last scale: one gene), sees its own scale and all coarser ones, and
predicts its group's mean. Its input is the value of its parent group, measured in training (teacher forcing),
generated in prediction. The coarse scales form a trunk that passes all blocks; the genes pass the last
``gene_layers`` of them, and see the trunk's keys and values there, and each other only if so configured.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from genar.genes.hierarchy import Hierarchy
from genar.model.condition import Spots
from genar.model.config import ModelConfig
from genar.model.decoder import CHUNK_BYTES, Choice, Decoder, Modulated, Read, T, mean_over_paths, summed
from genar.model.layers import KeyValue


class BlockCausal(Decoder):
    """See the module's head."""

    def __init__(self, config: ModelConfig, hierarchy: Hierarchy, feature_dim: int, max_count: int) -> None:
        super().__init__(config, hierarchy, feature_dim, max_count)
        self.coarser = config.gene_attention == "coarser"
        # with one scale there is no trunk, and the genes pass all blocks
        self.skipped = config.layers - config.passed_by_genes if len(self.scales) > 1 else 0
        trunk = torch.tensor(self.scales[:-1], dtype=torch.int64)
        of_scale = torch.repeat_interleave(torch.arange(len(trunk)), trunk)
        self.mask: Tensor
        self.register_buffer("mask", of_scale[:, None] >= of_scale[None, :], persistent=False)

    def forward(self, spots: Spots, values: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs [B, s_k, C] of every scale, given the ``values`` [B, s_k] of all scales but the last."""
        modulated = self.modulated(spots)
        coarse, caches = self._trunk(modulated, values, len(spots.features))
        parents = self._parents(values, len(spots.features))
        return [*coarse, self._genes(modulated, caches, parents)(slice(0, self.scales[-1]))]

    def loss(self, spots: Spots, counts: Tensor, measured: Tensor | None = None, free_running: float = 0.0) -> Tensor:
        """Return the training loss; see :meth:`Decoder.loss`."""
        values, known = self.targets(counts, measured)
        handed = self._handed(spots, values[:-1], free_running)
        modulated = self.modulated(spots)
        coarse, caches = self._trunk(modulated, handed, len(counts))
        genes = self._genes(modulated, caches, self._parents(handed, len(counts)))

        def divergence(rows: slice) -> Tensor:
            part, size = values[-1][:, rows], self.scales[-1]
            each = self.distribution.loss(genes(rows), part, last=True, positions=size)
            return summed(each, None if measured is None else measured[:, rows])

        chunks = list(self._chunks(len(counts)))
        if len(chunks) == 1:
            fine = divergence(chunks[0])
        else:  # the chunks' activations are computed anew in the backward pass, one chunk at a time
            fine = torch.stack([checkpoint(divergence, rows, use_reentrant=False) for rows in chunks]).sum(dim=0)
        divergences = [
            summed(self.distribution.loss(out, value, last=False), seen)
            for out, value, seen in zip(coarse, values, known, strict=False)
        ]
        return self.weighted([*divergences, fine])

    @torch.no_grad()
    def generate(self, spots: Spots, read: Read[T], choice: Choice | None = None) -> list[T]:
        """Decode with a key/value cache; see :meth:`Decoder.generate`."""
        choice = choice or Choice(self.config.handed_on)
        modulated, caches, values = self._run(spots, choice)
        parents = self._parents(values, len(spots.features))
        genes = self._genes(modulated, caches, parents)
        return [
            read(mean_over_paths(self.distribution.probabilities(genes(rows)), len(spots.features)), rows)
            for rows in self._chunks(len(parents))
        ]

    def _run(self, spots: Spots, choice: Choice) -> tuple[Modulated, list[KeyValue | None], list[Tensor]]:
        """Decode the coarse scales free-running, with a cache: what modulates, the caches, and the values handed on."""
        modulated = self.modulated(spots)
        caches: list[KeyValue | None] = [None] * len(self.blocks)
        values: list[Tensor] = []
        for k in range(len(self.scales) - 1):
            x, identity = self._inputs(k, values[-1] if values else None, len(spots.features))
            for i, modulation in enumerate(modulated.blocks):
                x, caches[i] = self.through(i, x, modulation, past=caches[i])
            out = self.read_out(x, modulated, identity, slice(self.starts[k], self.starts[k + 1]))
            if k == 0 and choice.paths > 1:  # up to here the paths of a spot are one
                modulated = modulated.repeated(choice.paths)
                caches = [_copy(cache, choice.paths) for cache in caches]
                out = out.repeat_interleave(choice.paths, dim=0)
            values.append(self.choose(out, choice, k))
        return modulated, caches, values

    def _handed(self, spots: Spots, values: Sequence[Tensor], share: float) -> list[Tensor]:
        """Put, for a share of the spots, what the network hands on itself in place of the measured ``values``."""
        if share == 0 or not values:
            return list(values)
        with torch.no_grad():
            _, _, own = self._run(spots, Choice(self.config.handed_on))
        free = torch.rand(len(own[0]), 1, device=own[0].device) < share
        return [torch.where(free, mine, measured) for mine, measured in zip(own, values, strict=True)]

    def _inputs(self, k: int, coarser: Tensor | None, batch: int) -> tuple[Tensor, Tensor]:
        """Return scale k's inputs [B, s_k, d], from the values [B, s_{k-1}] of the scale before, and its identity.

        The identity [s_k, d] of groups is the mean of their genes'.
        """
        identity = self.pool(self.gene.weight, k)
        value = self.start.expand(batch, 1, -1)
        if coarser is not None:
            value = self.embed_values(coarser)[:, self.get_buffer(f"parents_{k}")]
        return value + identity + self.scale.weight[k], identity

    def _trunk(
        self, modulated: Modulated, values: Sequence[Tensor], batch: int
    ) -> tuple[list[Tensor], list[KeyValue | None]]:
        """Pass the coarse scales, teacher-forced, through all blocks: their outputs, and each block's cache."""
        if len(self.scales) == 1:
            return [], [None] * len(self.blocks)
        coarser = [None, *values]
        parts = [self._inputs(k, coarser[k], batch) for k in range(len(self.scales) - 1)]
        x = torch.cat([inputs for inputs, _ in parts], dim=1)
        caches: list[KeyValue | None] = []
        for i, modulation in enumerate(modulated.blocks):
            x, cache = self.through(i, x, modulation, mask=self.mask)
            caches.append(cache)
        identity = torch.cat([identity for _, identity in parts])
        out = self.read_out(x, modulated, identity, slice(0, self.starts[-2]))
        return list(out.split(self.scales[:-1], dim=1)), caches

    def _parents(self, values: Sequence[Tensor], batch: int) -> Tensor:
        """Embed what the genes start from, the values of the scale before: [B, s_{K-1}, d]."""
        return self.embed_values(values[-1]) if values else self.start.expand(batch, 1, -1)

    def _genes(
        self, modulated: Modulated, caches: Sequence[KeyValue | None], parents: Tensor
    ) -> Callable[[slice], Tensor]:
        """Return what gives the outputs [B, g, C] of a slice of the genes, from the values ``parents`` embed."""
        blocks, first = modulated.blocks, self.starts[-2]
        k = len(self.scales) - 1

        def hidden(rows: slice) -> Tensor:
            x = parents[:, self.get_buffer(f"parents_{k}")[rows]] if k else parents
            x = x + self.gene.weight[rows] + self.scale.weight[k]
            for i in range(self.skipped, len(blocks)):
                x, _ = self.through(i, x, blocks[i], past=caches[i], own=not self.coarser)
            return x

        whole = None if self.coarser else hidden(slice(None))

        def outputs(rows: slice) -> Tensor:
            x = hidden(rows) if whole is None else whole[:, rows]
            return self.read_out(x, modulated, self.gene.weight[rows], slice(first + rows.start, first + rows.stop))

        return outputs

    def _chunks(self, batch: int) -> Iterator[slice]:
        """Cut the panel into slices whose activations fit in :data:`CHUNK_BYTES`."""
        blocks = len(self.blocks) - self.skipped if self.coarser else 0
        a_gene = 4 * batch * (4 * self.distribution.channels + 16 * self.config.width * blocks)
        n_genes, size = self.scales[-1], max(1, CHUNK_BYTES // a_gene)
        yield from (slice(start, min(start + size, n_genes)) for start in range(0, n_genes, size))


def _copy(cache: KeyValue | None, copies: int) -> KeyValue | None:
    """Give each of ``copies`` paths of a spot its cache."""
    return None if cache is None else (cache[0].repeat_interleave(copies, 0), cache[1].repeat_interleave(copies, 0))
