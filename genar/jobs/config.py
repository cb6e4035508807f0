"""What ``genar train`` reads from its YAML file."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from genar.encoders.registry import ENCODERS
from genar.model.config import ModelConfig
from genar.units import LARGEST_TILE_UM
from genar.write.card import CardConfig


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(_Strict):
    """The measured sections.

    Parameters
    ----------
    format
        Layout of the data folder; ``"st"``: legacy Spatial Transcriptomics, as her2st.
    root
        The data folder.
    sections
        Names of the sections to train on.
    mpp
        Resolution of the images in µm per pixel.
    """

    format: Literal["st"] = "st"
    root: Path
    sections: tuple[str, ...] = Field(min_length=1)
    mpp: float = Field(gt=0)

    @model_validator(mode="after")
    def _unique(self) -> "DataConfig":
        if len(set(self.sections)) != len(self.sections):
            msg = "a section is named twice"
            raise ValueError(msg)
        return self


class PanelConfig(_Strict):
    """The genes to predict: the ``n_genes`` with the highest mean count over the training spots."""

    method: Literal["top_mean"] = "top_mean"
    n_genes: int = Field(200, ge=2)


class HierarchyConfig(_Strict):
    """Groups of genes at each scale; the last scale is the panel itself."""

    method: Literal["kmeans"] = "kmeans"
    scales: tuple[Annotated[int, Field(ge=1)], ...] = (1, 4, 8, 40, 100, 200)


class TilesConfig(_Strict):
    """How a spot becomes features: a square of ``tile_um`` µm around it, through ``encoder``."""

    encoder: str = "efficientnet_lite0"
    tile_um: float = Field(154.0, gt=0, le=LARGEST_TILE_UM)

    @field_validator("encoder")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ENCODERS:
            msg = f"genar knows no such encoder; use one of: {', '.join(ENCODERS)}"
            raise ValueError(msg)
        return name


class OptimizerConfig(_Strict):
    """AdamW with a linear warm-up and a cosine decay to zero.

    Parameters
    ----------
    lr
        Peak learning rate.
    weight_decay
        Decoupled weight decay.
    warmup
        Share of all steps over which the rate rises.
    """

    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1)


class TrainerConfig(_Strict):
    """How long and on what to train.

    Parameters
    ----------
    max_epochs
        Passes over the training spots.
    batch_size
        Spots a step.
    accelerator
        Lightning's name of the device, ``"auto"``, ``"cpu"`` or ``"gpu"``.
    gradient_clip
        Largest norm of the gradient.
    precision
        Lightning's name of the arithmetic: ``"bf16-mixed"`` is for GPUs that have it.
    recompute
        Compute the blocks' activations anew in the backward pass rather than keep them: less memory, a third more
        time. Of panels of thousands of genes.
    compile
        Compile the loss with ``torch.compile``: some minutes at the start, faster steps on a GPU.
    thin_to
        Below 1, with ``model.library_size``: thin a spot's counts to a share drawn anew, log-uniformly, between this
        and 1 at each step, so that the model learns what a shallower section looks like.
    """

    max_epochs: int = Field(20, ge=1)
    batch_size: int = Field(64, ge=1)
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    gradient_clip: float = Field(1.0, gt=0)
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    recompute: bool = False
    compile: bool = False
    thin_to: float = Field(1.0, gt=0, le=1)


class EvaluationConfig(_Strict):
    """How the model is judged: ``"leave_one_section_out"`` trains a model without each section first, or ``"none"``."""

    split: Literal["leave_one_section_out", "none"] = "leave_one_section_out"


class TrainConfig(_Strict):
    """A training run, from sections to a model directory.

    Parameters
    ----------
    name
        Name of the model.
    output
        The run folder.
    data, panel, hierarchy, tiles, model, optimizer, trainer, evaluation, card
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
    evaluation: EvaluationConfig = EvaluationConfig()
    card: CardConfig
    seed: int = Field(0, ge=0, lt=2**32)  # NumPy's and scikit-learn's bound

    @model_validator(mode="after")
    def _thinning_needs_depth(self) -> "TrainConfig":
        if self.trainer.thin_to < 1 and not self.model.library_size:
            msg = "trainer.thin_to below 1 needs model.library_size: true"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _scales_end_with_the_panel(self) -> "TrainConfig":
        scales = self.hierarchy.scales
        if scales[-1:] != (self.panel.n_genes,) or any(a >= b for a, b in zip(scales, scales[1:], strict=False)):
            msg = f"hierarchy.scales {list(scales)} must rise to panel.n_genes ({self.panel.n_genes})"
            raise ValueError(msg)
        self.model.check_scales(scales)
        return self
