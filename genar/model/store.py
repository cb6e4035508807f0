"""A model is a directory: ``config.json``, ``model.safetensors``, ``genes.tsv`` and a model card, ``README.md``."""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pandas as pd
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from genar.errors import ModelError
from genar.genes.hierarchy import Hierarchy
from genar.model.config import ModelConfig
from genar.model.decoder import GenAR

CONFIG, WEIGHTS, GENES, CARD = "config.json", "model.safetensors", "genes.tsv", "README.md"
BUNDLED = Path(str(files("genar"))) / "models"


class ModelInfo(BaseModel):
    """What ``config.json`` holds: all that rebuilds the model and tells what its inputs are.

    Parameters
    ----------
    schema_version
        Version of this layout.
    name
        Name of the model.
    encoder
        Name of the tile encoder.
    feature_dim
        Dimension of its features.
    tile_um
        Side of a tile, in µm.
    lattice, spot_um, pitch_um
        Geometry of the spots that the model was trained on, in µm.
    scales
        Groups at each scale.
    max_count
        Largest count token.
    network
        Shape of the network.
    genar_version
        Version that wrote the model.
    sections
        Names of the sections that it was trained on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    encoder: str
    feature_dim: int
    tile_um: float
    lattice: str
    spot_um: float
    pitch_um: float
    scales: tuple[int, ...]
    max_count: int
    network: ModelConfig
    genar_version: str
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """A model in memory.

    Parameters
    ----------
    info
        What the model is.
    panel
        The genes in decoding order: index = symbol, with ``train_mean``, ``heldout_pcc`` and ``group_<s>`` columns.
    network
        The decoder, in evaluation mode.
    sha256
        Hash of the weights; empty for a model that was not loaded from disk.
    """

    info: ModelInfo
    panel: pd.DataFrame
    network: GenAR
    sha256: str = ""


def build(info: ModelInfo, panel: pd.DataFrame) -> GenAR:
    """Build the untrained network that ``info`` and the panel's groups describe."""
    hierarchy = Hierarchy.from_columns(panel, info.scales)
    return GenAR(info.network, hierarchy, info.feature_dim, info.max_count)


def save(model: Model, directory: Path, card: str) -> None:
    """Write a model directory, whole or not at all; an older model of that name is replaced."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        (folder / CONFIG).write_text(model.info.model_dump_json(indent=2) + "\n")
        model.panel.to_csv(folder / GENES, sep="\t", index_label="gene", float_format="%.6g")
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.network.state_dict().items()}
        save_file(state, folder / WEIGHTS)
        (folder / CARD).write_text(card)
        if directory.exists():
            shutil.rmtree(directory)
        folder.rename(directory)


def find(name: str | Path) -> Path:
    """Return the directory of a bundled model (by name) or of one on disk (by path).

    Raises
    ------
    ModelError
        If there is neither.
    """
    for directory in (Path(name), BUNDLED / str(name)):
        if (directory / CONFIG).is_file():
            return directory
    bundled = sorted(p.parent.name for p in BUNDLED.glob(f"*/{CONFIG}"))
    raise ModelError(
        str(name), "there is no such model", f"give a model directory or a bundled name ({', '.join(bundled)})"
    )


def load(name: str | Path, device: str | torch.device = "cpu") -> Model:
    """Load a model, bundled or from a directory. Nothing is unpickled.

    Parameters
    ----------
    name
        A bundled model's name or a model directory.
    device
        Where the network goes.

    Raises
    ------
    ModelError
        If the model is not there, is incomplete, or its parts do not fit.
    """
    directory = find(name)
    try:
        info = ModelInfo.model_validate_json((directory / CONFIG).read_text())
        panel = pd.read_csv(directory / GENES, sep="\t", index_col="gene", keep_default_na=False, na_values=[""])
        network = build(info, panel)
        network.load_state_dict(load_file(directory / WEIGHTS), strict=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as e:
        raise ModelError(
            directory, f"the model cannot be loaded ({_reason(e)})", "use a complete model directory"
        ) from e
    digest = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    return Model(info, panel, network.to(device).eval(), digest)


def _reason(error: Exception) -> str:
    """Put what went wrong on one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{CONFIG}: {'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
    if isinstance(error, json.JSONDecodeError):
        return f"{CONFIG}: {error}"
    return " ".join(str(error).split())[:200]
