"""A model is a directory: ``config.json``, ``model.safetensors``, ``genes.tsv`` and a model card, ``README.md``.

Beside them may lie ``reference.safetensors``, what the training tissue looks like.
"""

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pandas as pd
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, numpy
from safetensors.torch import load_file
from safetensors.torch import save as serialize

from genar import keys
from genar.data.splits import Split
from genar.errors import ModelError, OutputError
from genar.genes.hierarchy import Blocks, Hierarchy
from genar.model.block_causal import BlockCausal
from genar.model.config import ModelConfig
from genar.model.cumulative import Cumulative
from genar.model.decoder import Decoder
from genar.ood import Reference
from genar.shelf import CARD, CONFIG, GENES, REFERENCE, WEIGHTS, card_of, find, is_model, source_of
from genar.write.atomic import ELSEWHERE, beside, check_writable

GENE_ID = "gene_id"  # the column of genes.tsv, a gene a line; in var it is keys.GENE_IDS, as scanpy's readers name it
Micrometres = Annotated[float, Field(gt=0, allow_inf_nan=False)]


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
    encoder_fingerprint
        Features that the encoder gave of a fixed picture (:meth:`genar.encoders.registry.Encoder.fingerprint`), by
        which other weights under its name are known; None where that is not known.
    tile_um
        Side of a tile, in µm.
    lattice, spot_um, pitch_um
        Geometry of the spots that the model was trained on, in µm.
    scales
        Groups at each scale.
    grouping
        Whether the groups are clusters of genes, or equal blocks of the panel, as published.
    max_count
        Largest count token.
    network
        Shape of the network.
    library_size
        Median over its training sections of their median total counts, over all their genes.
    genar_version
        Version that wrote the model.
    sections
        Names of the sections that it was trained on.
    split
        Which sections it learnt from, was stopped by and was judged on, with hashes of their content.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    encoder: str
    feature_dim: int = Field(gt=0)
    encoder_fingerprint: tuple[float, ...] | None = None
    tile_um: Micrometres
    lattice: Literal["visium", "st", "grid"]
    spot_um: Micrometres
    pitch_um: Micrometres
    scales: tuple[int, ...] = Field(min_length=1)
    grouping: Literal["clusters", "blocks"] = "clusters"
    max_count: int = Field(gt=0)
    network: ModelConfig
    library_size: float | None = Field(None, ge=0)
    genar_version: str
    sections: tuple[str, ...]
    split: Split | None = None


@dataclass(frozen=True)
class Model:
    """A model in memory.

    Parameters
    ----------
    info
        What the model is.
    panel
        The genes in decoding order: index = symbol, with ``train_mean`` and ``group_<s>`` columns, ``gene_ids``
        where the training data have them, and what :func:`genar.reliability.add` adds where the model was judged.
    network
        The decoder, in evaluation mode.
    sha256
        Hash of the weights; empty for a model that was not loaded from disk.
    reference
        What the features of the training tissue look like; None where that is not known.
    card
        The model card, Markdown; empty where there is none.
    source
        ``owner/name@commit`` of a model from the Hugging Face hub; else empty.
    """

    info: ModelInfo
    panel: pd.DataFrame
    network: Decoder
    sha256: str = ""
    reference: Reference | None = None
    card: str = ""
    source: str = ""


def build(info: ModelInfo, panel: pd.DataFrame) -> Decoder:
    """Build the untrained network that ``info`` and the panel's groups describe."""
    if info.grouping == "blocks":
        hierarchy: Hierarchy = Blocks.of(info.scales)
    else:
        hierarchy = Hierarchy.from_columns(panel, info.scales)
    decoder = BlockCausal if info.network.decoder == "block_causal" else Cumulative
    dim = info.feature_dim * (2 if info.network.context else 1)
    return decoder(info.network, hierarchy, dim, info.max_count)


def check_free(directory: Path) -> None:
    """Fail now, rather than after long work, if :func:`save` would not write to ``directory``.

    Raises
    ------
    OutputError
        If it holds what is not a model, or cannot be written to.
    """
    check_writable(directory / CONFIG, overwrite=True)
    if directory.exists() and not is_model(directory):
        why = "it exists and is not a model, so genar does not replace it"
        raise OutputError(directory, why, f"remove it, or {ELSEWHERE}")


def save(model: Model, directory: Path, card: str) -> None:
    """Write a model directory, whole or not at all; an older model of that name is replaced.

    Raises
    ------
    OutputError
        As :func:`check_free`.
    """
    check_free(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.") as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        (folder / CONFIG).write_text(model.info.model_dump_json(indent=2) + "\n")
        (folder / GENES).write_text(_genes_text(model), encoding="utf-8")
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.network.state_dict().items()}
        (folder / WEIGHTS).write_bytes(serialize(state))  # whose own writer lets no one else read the file
        if model.reference is not None:
            (folder / REFERENCE).write_bytes(numpy.save(model.reference.tensors()))
        (folder / CARD).write_text(card)
        old = Path(temporary) / "old"  # which goes with the temporary folder, once the new one is in place
        if directory.exists():
            directory.rename(old)
        try:
            folder.rename(directory)
        except BaseException:
            if old.exists():
                old.rename(directory)
            raise


def describe(model: Model, directory: Path, card: str) -> None:
    """Write what is said of a model that is on disk anew, its genes and its card; all else stays as it is."""
    for name, text in ((GENES, _genes_text(model)), (CARD, card)):
        with beside(directory / name) as path:
            path.write_text(text, encoding="utf-8")


def _genes_text(model: Model) -> str:
    """Return ``genes.tsv``."""
    genes = model.panel.rename(columns={keys.GENE_IDS: GENE_ID})
    return str(genes.to_csv(sep="\t", index_label="gene", float_format="%.6g"))


def load(name: str | Path, device: str | torch.device = "cpu") -> Model:
    """Load a model, bundled, from a directory, or from the Hugging Face hub. Nothing is unpickled.

    Parameters
    ----------
    name
        A bundled model's name, a model directory, or ``owner/name[@revision]`` at the hub.
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
        panel = _panel(directory / GENES)
        network = build(info, panel)
        network.load_state_dict(load_file(directory / WEIGHTS), strict=True)
        reference = _reference(directory / REFERENCE, info.feature_dim)
        card = card_of(directory)
    except (OSError, ValueError, LookupError, RuntimeError, SafetensorError) as e:
        raise ModelError(
            directory, f"the model cannot be loaded ({_reason(e)})", "use a complete model directory"
        ) from e
    digest = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    return Model(info, panel, network.to(device).eval(), digest, reference, card, source_of(directory))


def _panel(path: Path) -> pd.DataFrame:
    """Read the genes, of which one may be called NA; an unknown ID is an empty string."""
    panel = pd.read_csv(
        path, sep="\t", index_col="gene", keep_default_na=False, na_values=[""], converters={GENE_ID: str},
        dtype={keys.RELIABLE: bool},
    )  # fmt: skip
    return panel.rename(columns={GENE_ID: keys.GENE_IDS})


def _reference(path: Path, dim: int) -> Reference | None:
    """Read the reference; models that were imported have none."""
    return Reference.from_tensors(numpy.load_file(path), dim) if path.exists() else None


def _reason(error: Exception) -> str:
    """Put what went wrong on one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{CONFIG}: {'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
    if isinstance(error, json.JSONDecodeError):
        return f"{CONFIG}: {error}"
    return " ".join(str(error).split())[:200]
