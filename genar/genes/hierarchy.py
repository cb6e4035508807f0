"""Groups of genes, coarse to fine: the scales at which counts are decoded."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genar import keys
from genar.errors import ModelError


@dataclass(frozen=True)
class Hierarchy:
    """Nested groups of an ordered panel of G genes, s_1 < ... < s_K = G groups at the K scales.

    Parameters
    ----------
    groups
        For each scale, the group of each gene: int [G], from 0 to s_k - 1, never falling along the panel.
        At the last scale every gene is its own group, so ``groups[-1]`` is ``arange(G)``.
    """

    groups: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        last = self.groups[-1]
        if not np.array_equal(last, np.arange(last.size)):
            msg = "the last scale of a hierarchy must hold one gene a group"
            raise ValueError(msg)
        self._check_nesting()

    def _check_nesting(self) -> None:
        for coarse, fine in zip(self.groups, self.groups[1:], strict=False):
            if np.any(np.diff(coarse) < 0) or np.any(np.diff(coarse)[np.diff(fine) == 0] != 0):
                msg = "groups must be contiguous, and each must lie inside one group of the scale before"
                raise ValueError(msg)

    @property
    def scales(self) -> tuple[int, ...]:
        """Number of groups at each scale, (s_1, ..., s_K)."""
        return tuple(int(g[-1]) + 1 for g in self.groups)

    def parents(self, k: int) -> NDArray[np.int64]:
        """Return, for each group of scale ``k`` > 0, its group at scale ``k - 1``: int [s_k]."""
        _, first_gene = np.unique(self.groups[k], return_index=True)
        return self.groups[k - 1][first_gene]

    def members(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which genes are averaged over at scale ``k``: a gene and its group for each pair, two int [M]."""
        return np.arange(self.groups[k].size), self.groups[k]

    def columns(self) -> pd.DataFrame:
        """Return the groups as columns ``group_<s>``, one row a gene."""
        return pd.DataFrame({keys.group(s): g for s, g in zip(self.scales, self.groups, strict=True)})

    @classmethod
    def from_columns(cls, genes: pd.DataFrame, scales: tuple[int, ...]) -> "Hierarchy":
        """Rebuild the hierarchy from the ``group_<s>`` columns of a panel in decoding order."""
        missing = [keys.group(s) for s in scales if keys.group(s) not in genes]
        if missing:
            raise ModelError("genes.tsv", f"it lacks the columns {missing}", "use a complete model directory")
        return cls(tuple(genes[keys.group(s)].to_numpy(np.int64) for s in scales))


@dataclass(frozen=True)
class Blocks(Hierarchy):
    """The published hierarchy: equal blocks of the ordered panel, whether or not they cut each other.

    Means are adaptive average pools, whose windows overlap where a scale does not divide the panel.
    """

    @classmethod
    def of(cls, scales: tuple[int, ...]) -> "Blocks":
        """Return the blocks of a panel of ``scales[-1]`` genes."""
        return cls(tuple(np.arange(scales[-1]) * s // scales[-1] for s in scales))

    def _check_nesting(self) -> None:
        """Blocks of neighbouring scales may cut each other."""

    def parents(self, k: int) -> NDArray[np.int64]:
        """Return, for each block j of scale ``k`` > 0, the one at scale ``k - 1`` that holds its start: int [s_k]."""
        return np.arange(self.scales[k]) * self.scales[k - 1] // self.scales[k]

    def members(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the genes in each block's window, from floor(i G / s) up to ceil((i + 1) G / s)."""
        n_genes, size = self.scales[-1], self.scales[k]
        windows = [np.arange(i * n_genes // size, -(-(i + 1) * n_genes // size)) for i in range(size)]
        return np.concatenate(windows), np.repeat(np.arange(size), [w.size for w in windows])
