"""What ``genar train`` reads from its YAML file."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from genar.model.card import CardConfig
from genar.model.config import ModelConfig
from genar.model.module import OptimizerConfig


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
    scales: tuple[int, ...] = (1, 4, 8, 40, 100, 200)


class TilesConfig(_Strict):
    """How a spot becomes features: a square of ``tile_um`` µm around it, through ``encoder``."""

    encoder: str = "efficientnet_lite0"
    tile_um: float = Field(154.0, gt=0)


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
    """

    max_epochs: int = Field(20, ge=1)
    batch_size: int = Field(64, ge=1)
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    gradient_clip: float = Field(1.0, gt=0)


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
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _scales_end_with_the_panel(self) -> "TrainConfig":
        scales = self.hierarchy.scales
        if scales[-1:] != (self.panel.n_genes,) or any(a >= b for a, b in zip(scales, scales[1:], strict=False)):
            msg = f"hierarchy.scales {list(scales)} must rise to panel.n_genes ({self.panel.n_genes})"
            raise ValueError(msg)
        return self
