"""What a model is: everything needed to build its network."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DecoderName = Literal["block_causal", "cumulative"]
DistributionName = Literal["gaussian", "cross_entropy", "ordinal", "nb", "mse", "gaussian_nll"]
PositionName = Literal["none", "published", "relative_um"]
COUNT_TOKENS: tuple[DistributionName, ...] = ("gaussian", "cross_entropy", "ordinal")
Rule = Literal["expected", "greedy", "sample"]


class ModelConfig(BaseModel):
    """Shape of the network. The defaults of the sizes are those of the paper.

    Parameters
    ----------
    decoder
        ``"block_causal"``: every token is computed once. ``"cumulative"``: the published algorithm, a pass a scale.
    width, layers, heads
        Width d of the decoder, its blocks, and their attention heads, which must divide ``width``.
    mlp_ratio
        Hidden width of a block's MLP over ``width``.
    gene_layers
        Of ``block_causal``: blocks, counted from the last, that the last scale, the genes, goes through. By default
        half of them, rounded up; all where it is the only scale.
    gene_attention
        Of ``block_causal``: whether a gene sees the coarser scales alone (``"coarser"``), which makes the cost linear
        in the number of genes, or its own scale too (``"scale"``), as a coarser group does.
    qk_norm, film
        L2-normalise queries and keys; modulate the hidden states before the head by the genes' identity (FiLM).
    handed_on
        Which value of a group a coarse scale hands on when it generates: the ``"expected"`` one, or the most probable
        token (``"greedy"``, the paper).
    distribution
        What the head predicts and how it is trained: count tokens with a ``"gaussian"`` soft label (the paper), hard
        ``"cross_entropy"``, the ranked probability score (``"ordinal"``), a negative binomial (``"nb"``); or, as the
        paper's continuous controls, log1p counts with ``"mse"`` or ``"gaussian_nll"``.
    continuous_reduction
        Of the continuous controls: ``"normalized"`` sums a loss over positions and reads the mean of the softplus of
        the head's outputs; ``"published"`` averages over positions and reads its first output.
    sigma_slope, sigma_floor
        alpha and beta: the last scale's soft label for a count mu is a Gaussian with sd ``alpha * mu + beta``.
    scale_weights
        Weight of each scale's loss; equal by default.
    position
        ``"published"``: spot coordinates scaled to [0, 1] over each slide, as in the paper. ``"relative_um"``: in mm
        from the centre of the slide's spots. ``"none"``: histology alone.
    neighbours
        Nearest spots whose histology the spot sees too; 0 for none.
    neighbour_pooling
        How: the spot's histology attends to theirs (``"attention"``), or the mean of their features stands beside the
        spot's own (``"mean"``), which few sections suffice to learn from.
    linear
        Add a ridge regression on the features to every position's logits; see :mod:`genar.model.tilt`.
    library_size
        Condition on the slide's sequencing depth, the log of its median library size.
    condition_width, histology_width
        Width of the fused condition and of the histology branch.
    dropout, feature_dropout
        Dropout in the condition, and on the encoder's features themselves.
    drop_path
        Stochastic depth of the last block, rising linearly from 0 at the first.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    decoder: DecoderName = "block_causal"
    width: int = Field(512, ge=8)
    layers: int = Field(8, ge=1)
    heads: int = Field(8, ge=1)
    mlp_ratio: float = Field(3.0, gt=0)
    gene_layers: int | None = Field(None, ge=1)
    gene_attention: Literal["coarser", "scale"] = "coarser"
    qk_norm: bool = True
    film: bool = True
    handed_on: Literal["expected", "greedy"] = "expected"
    distribution: DistributionName = "gaussian"
    continuous_reduction: Literal["normalized", "published"] = "normalized"
    sigma_slope: float = Field(0.01, ge=0)
    sigma_floor: float = Field(1.0, gt=0)
    scale_weights: tuple[float, ...] | None = None
    position: PositionName = "none"
    neighbours: int = Field(0, ge=0, le=64)
    neighbour_pooling: Literal["attention", "mean"] = "attention"
    linear: bool = False
    library_size: bool = False
    condition_width: int = Field(512, ge=8)
    histology_width: int = Field(512, ge=8)
    dropout: float = Field(0.1, ge=0, lt=1)
    feature_dropout: float = Field(0.0, ge=0, lt=1)
    drop_path: float = Field(0.1, ge=0, lt=1)

    @property
    def context(self) -> bool:
        """Whether the mean of the neighbours' features stands beside the spot's own."""
        return self.neighbours > 0 and self.neighbour_pooling == "mean"

    @property
    def passed_by_genes(self) -> int:
        """Number of blocks that the genes of ``block_causal`` go through."""
        return self.gene_layers or -(-self.layers // 2)

    def check_scales(self, scales: Sequence[int]) -> None:
        """Raise ValueError unless a network of this shape can decode these ``scales``."""
        if self.scale_weights is not None and len(self.scale_weights) != len(scales):
            msg = f"{len(self.scale_weights)} scale_weights for {len(scales)} scales"
            raise ValueError(msg)
        if self.decoder == "block_causal" and self.gene_attention == "coarser" and len(scales) == 1:
            msg = 'gene_attention "coarser" needs a scale coarser than the genes; set it to "scale"'
            raise ValueError(msg)

    @model_validator(mode="after")
    def _fits(self) -> "ModelConfig":
        if self.width % self.heads:
            msg = f"heads ({self.heads}) must divide width ({self.width})"
            raise ValueError(msg)
        if self.gene_layers is not None and self.gene_layers > self.layers:
            msg = f"gene_layers ({self.gene_layers}) is more than layers ({self.layers})"
            raise ValueError(msg)
        if self.decoder == "cumulative" and (self.gene_layers is not None or self.gene_attention != "coarser"):
            msg = "gene_layers and gene_attention belong to the block_causal decoder"
            raise ValueError(msg)
        if self.decoder == "cumulative" and self.handed_on != "greedy":
            msg = "the cumulative decoder is trained on greedy tokens; set handed_on to greedy"
            raise ValueError(msg)
        if self.linear and (self.decoder, self.distribution in COUNT_TOKENS) != ("block_causal", True):
            msg = f"linear belongs to the block_causal decoder with a distribution of {', '.join(COUNT_TOKENS)}"
            raise ValueError(msg)
        if self.scale_weights is not None and (min(self.scale_weights) < 0 or sum(self.scale_weights) == 0):
            msg = f"scale_weights {list(self.scale_weights)} must not be negative, nor all 0"
            raise ValueError(msg)
        return self
