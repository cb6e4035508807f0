"""What ``genar train`` reads from its YAML file."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from genar.data.splits import SplitConfig
from genar.encoders.registry import spec_of
from genar.errors import ModelError
from genar.genes import grouping, panel
from genar.model.config import ModelConfig
from genar.units import LARGEST_TILE_UM
from genar.write.card import CardConfig


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(_Strict):
    """The measured sections.

    Parameters
    ----------
    root
        A folder of sections, one section, or a sample sheet; see docs/data.md.
    sections
        Names of the sections to take; by default all that are found.
    mpp
        Resolution of all images in µm per pixel, in place of what the data say or what is measured; the sample sheet's
        goes before it.
    cache
        Folder in which features are kept; by default the user's cache folder.
    """

    root: Path
    sections: tuple[str, ...] | None = Field(None, min_length=1)
    mpp: float | None = Field(None, gt=0)
    cache: Path | None = None

    @model_validator(mode="after")
    def _unique(self) -> "DataConfig":
        if self.sections and len(set(self.sections)) != len(self.sections):
            msg = "a section is named twice"
            raise ValueError(msg)
        return self


class PanelConfig(_Strict):
    """The genes to predict, chosen on the training sections alone.

    Parameters
    ----------
    method
        ``"top_mean"``: the highest mean counts; ``"hvg"``: the most variable (scanpy, seurat_v3); ``"svg"``: the most
        spatially variable (Moran's I, squidpy).
    n_genes
        How many.
    file
        A list of genes to take instead, one a line.
    min_sections
        Number of training sections that must have measured a gene; by default all. Where a section did not, the gene
        does not count in the loss.
    max_count
        Largest count token; higher counts are cut. By default the largest count of the training spots.
    """

    method: panel.Method = "top_mean"
    n_genes: int = Field(200, ge=2)
    file: Path | None = None
    min_sections: int | None = Field(None, ge=1)
    max_count: int | None = Field(None, ge=1)


class HierarchyConfig(_Strict):
    """Groups of genes at each scale; the last scale is the panel itself.

    Parameters
    ----------
    method
        See :func:`genar.genes.grouping.build`.
    scales
        Groups at each scale, up to the number of genes; by default chosen from that.
    file
        Of method ``"file"``: a table of genes and their groups, coarse to fine.
    """

    method: grouping.Method = "kmeans"
    scales: tuple[Annotated[int, Field(ge=1)], ...] | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _file_goes_with_its_method(self) -> "HierarchyConfig":
        if (self.method == "file") != (self.file is not None):
            msg = "method: file and file: PATH go together"
            raise ValueError(msg)
        if self.method == "file" and self.scales is not None:
            msg = "the file says the scales; leave scales out"
            raise ValueError(msg)
        return self


class TilesConfig(_Strict):
    """How a spot becomes features.

    Parameters
    ----------
    encoder, weights
        Name of the tile encoder, and a file of its weights in place of its own.
    tile_um
        Side in µm of the square around the spot that it sees.
    views
        Augmented views of each tile (flips, rotations, stain) that training draws from beside the tile itself.
    batch_size, workers
        Tiles encoded at once, and processes that read tiles beside this one.
    """

    encoder: str = "efficientnet_lite0"
    weights: Path | None = None
    tile_um: float = Field(154.0, gt=0, le=LARGEST_TILE_UM)
    views: int = Field(0, ge=0, le=100)
    batch_size: int = Field(32, ge=1)
    workers: int = Field(0, ge=0)

    @field_validator("encoder")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            spec = spec_of(name)
        except ModelError as e:
            raise ValueError(str(e)) from e
        if not spec.timm_name:
            msg = f"genar cannot compute {spec.name}, as its network comes in a package of its own"
            raise ValueError(msg)
        return spec.name


class OptimizerConfig(_Strict):
    """AdamW with a linear warm-up.

    Parameters
    ----------
    lr
        Peak learning rate.
    weight_decay
        Decoupled weight decay.
    warmup
        Share of all steps over which the rate rises.
    schedule
        What follows: a ``"cosine"`` decay to zero at ``trainer.max_epochs``, or a ``"constant"`` rate.
    """

    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1)
    schedule: Literal["cosine", "constant"] = "cosine"


class TrainerConfig(_Strict):
    """How long and on what to train.

    Parameters
    ----------
    max_epochs
        Passes over the training spots, at most.
    min_epochs
        Epochs before which none is chosen: where the learning rate is still high, the held-out figure is a lottery.
    batch_size
        Spots a step, of all devices together.
    accelerator
        ``"auto"``: a GPU with CUDA where there is one; ``"cpu"`` or ``"gpu"``.
    devices, num_nodes, strategy
        Lightning's numbers of devices a machine and of machines, and how they work together; see docs/training.md.
    gradient_clip
        Largest norm of the gradient.
    precision
        Lightning's name of the arithmetic; ``"auto"`` is ``"bf16-mixed"`` on a GPU that has it, else ``"32-true"``.
    ema
        Decay a step of the running average of the weights that is judged and kept; 0 for the weights themselves.
    monitor
        What of the held-out spots, predicted free-running, chooses the epoch and stops the training: ``"nll"``, the
        negative log-likelihood of a count, or ``"pcc"``, the mean correlation over genes, which is blind to the level.
    patience
        Epochs without improvement after which training stops.
    refit
        Train again on training and validation sections together, for as many epochs as was best. For few sections.
    workers
        Processes that read spots, for each device.
    tensorboard
        Log to TensorBoard too (``pip install 'genar[tensorboard]'``).
    recompute
        Compute the blocks' activations anew in the backward pass rather than keep them: less memory, a third more
        time. Of panels of thousands of genes.
    compile
        Compile the loss with ``torch.compile``: some minutes at the start, faster steps on a GPU.
    thin_to
        Below 1, with ``model.library_size``: thin a spot's counts to a share drawn anew, log-uniformly, between this
        and 1 at each step, so that the model learns what a shallower section looks like.
    free_running
        Share of spots whose coarse scales hand on, in training too, what the network predicts in place of what was
        measured. Of the ``block_causal`` decoder. At 1 a gene's distribution holds all that is not known of the spot.
    """

    max_epochs: int = Field(20, ge=1)
    min_epochs: int = Field(1, ge=1)
    batch_size: int = Field(64, ge=1)
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: int = Field(1, ge=1)
    num_nodes: int = Field(1, ge=1)
    strategy: Literal["auto", "ddp"] = "auto"
    gradient_clip: float = Field(1.0, gt=0)
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    ema: float = Field(0.0, ge=0, lt=1)
    monitor: Literal["nll", "pcc"] = "nll"
    patience: int = Field(10, ge=1)
    refit: bool = False
    workers: int = Field(0, ge=0)
    tensorboard: bool = False
    recompute: bool = False
    compile: bool = False
    thin_to: float = Field(1.0, gt=0, le=1)
    free_running: float = Field(0.0, ge=0, le=1)

    @property
    def device(self) -> str:
        """Where to compute, by :func:`genar.device.device_of`'s names."""
        return "cuda" if self.accelerator == "gpu" else self.accelerator

    @model_validator(mode="after")
    def _fits(self) -> "TrainerConfig":
        if self.min_epochs > self.max_epochs:
            msg = f"min_epochs ({self.min_epochs}) is more than max_epochs ({self.max_epochs}); give both"
            raise ValueError(msg)
        processes = self.devices * self.num_nodes
        if self.batch_size % processes:
            msg = f"batch_size ({self.batch_size}) must be a multiple of the {processes} devices"
            raise ValueError(msg)
        return self


class TrainConfig(_Strict):
    """A training run, from sections to a model directory.

    Parameters
    ----------
    name
        Name of the model.
    output
        The run folder.
    data, panel, hierarchy, tiles, model, optimizer, trainer, split, card
        See the classes of these fields.
    seed
        Seed of everything that is random.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    output: Path
    data: DataConfig
    panel: PanelConfig = PanelConfig()
    hierarchy: HierarchyConfig = HierarchyConfig()
    tiles: TilesConfig = TilesConfig()
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    trainer: TrainerConfig = TrainerConfig()
    split: SplitConfig = SplitConfig()
    card: CardConfig = CardConfig()
    seed: int = Field(0, ge=0, lt=2**32)  # NumPy's and scikit-learn's bound

    @model_validator(mode="after")
    def _thinning_needs_depth(self) -> "TrainConfig":
        if self.trainer.thin_to < 1 and not self.model.library_size:
            msg = "trainer.thin_to below 1 needs model.library_size: true"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _running_free_is_block_causal(self) -> "TrainConfig":
        if self.trainer.free_running > 0 and self.model.decoder != "block_causal":
            msg = "trainer.free_running belongs to the block_causal decoder"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _scales_end_with_the_panel(self) -> "TrainConfig":
        scales = self.hierarchy.scales
        if scales is None or self.panel.file is not None:
            return self  # checked once the panel is known
        if scales[-1:] != (self.panel.n_genes,) or any(a >= b for a, b in zip(scales, scales[1:], strict=False)):
            msg = f"hierarchy.scales {list(scales)} must rise to panel.n_genes ({self.panel.n_genes})"
            raise ValueError(msg)
        self.model.check_scales(scales)
        return self

    @model_validator(mode="after")
    def _refit_needs_validation(self) -> "TrainConfig":
        if self.trainer.refit and self.split.validation == "none":
            msg = "trainer.refit needs split.validation, which says when to stop"
            raise ValueError(msg)
        return self
