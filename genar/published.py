"""Import of checkpoints of the published code, github.com/oyjr/genar (MIT), commit 223a0a6."""

import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pydantic import ValidationError
from torch import Tensor

from genar import __version__, keys
from genar.errors import ModelError
from genar.genes.hierarchy import Blocks
from genar.kernels import NORM_EPS
from genar.model.condition import FREQUENCIES
from genar.model.config import ModelConfig
from genar.model.cumulative import Cumulative
from genar.slide.lattice import Lattice
from genar.store import Model, ModelInfo

logger: logging.Logger = logging.getLogger("genar")

STATE_PREFIX = "model."
GENE_ORDER = "selected_gene_order_sha256"
PLAIN_DICTS: list[Any] = [(OrderedDict, "addict.addict.Dict")]  # older configs' class; torch lets in no plain dict
NAMES = (  # how theirs begin, how ours do
    (r"condition_processor\.histology_processor\.", "condition.histology."),
    (r"condition_processor\.spatial_processor\.", "condition.position."),
    (r"condition_processor\.final_projection\.", "condition.fuse."),
    (r"gene_embedding\.", "token."),
    (r"gene_identity_embedding\.", "gene."),
    (r"gene_upsampling\.upsample_transforms\.scale_(\d+)_to_\d+\.", r"upsampling.\1."),
    (r"hierarchical_pos_embedding\.scale_(\d+)\.", r"position.\1."),
    (r"scale_embedding\.", "scale."),
    (r"start_token$", "start"),
    (r"transformer_blocks\.(\d+)\.ada_lin\.", r"blocks.\1.modulation."),
    (r"transformer_blocks\.(\d+)\.attn\.mat_qkv\.", r"blocks.\1.attention.qkv."),
    (r"transformer_blocks\.(\d+)\.attn\.proj\.", r"blocks.\1.attention.out."),
    (r"transformer_blocks\.(\d+)\.attn\.scale_mul_1H11$", r"blocks.\1.attention.log_temperature"),
    (r"transformer_blocks\.(\d+)\.attn\.([qv]_bias)$", r"blocks.\1.attention.\2"),
    (r"transformer_blocks\.(\d+)\.ffn\.fc1\.", r"blocks.\1.widen."),
    (r"transformer_blocks\.(\d+)\.ffn\.fc2\.", r"blocks.\1.narrow."),
    (r"head_norm\.ada_lin\.", "head_modulation."),
    (r"film_layer\.condition_projector\.", "film."),
    (r"output_head\.", "head."),
)
CONSTANTS = (r"condition_processor\.div_term$", r"transformer_blocks\.\d+\.attn\.zero_k_bias$")
KNOWN = {  # settings of theirs that decide nothing here: they repeat others, or matter in training alone
    "class", "model_name", "feature_dim", "gene_patch_nums", "gene_count_mode", "max_gene_count", "device",
    "drop_rate", "attn_drop_rate", "cond_drop_rate", "num_genes", "spatial_coord_dim", "model_variant", "library_scale",
}  # fmt: skip


def load_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a Lightning checkpoint of the published code without unpickling anything but plain data and tensors.

    Returns
    -------
    Its configuration and the network's weights under their own names.

    Raises
    ------
    ModelError
        If the file is not such a checkpoint.
    """
    remedy = "give a .ckpt that github.com/oyjr/genar wrote"
    try:
        with torch.serialization.safe_globals(PLAIN_DICTS):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as e:
        raise ModelError(path, f"it cannot be read ({e.strerror or e})", remedy) from e
    except Exception as e:
        raise ModelError(
            path, f"it is no checkpoint of plain data ({type(e).__name__}: {' '.join(str(e).split())[:160]})", remedy
        ) from e
    try:
        config, state = checkpoint["hyper_parameters"]["config"], checkpoint["state_dict"]
        settings = dict(config["MODEL"])
        encoder = str(config["encoder_name"])
        largest = int(config["max_gene_count"])
        order = (config.get("DATA") or {}).get(GENE_ORDER)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        why = f"it lacks hyper_parameters.config (MODEL, encoder_name, max_gene_count) or state_dict ({e})"
        raise ModelError(path, why, remedy) from e
    if not isinstance(state, Mapping) or not all(isinstance(t, Tensor) for t in state.values()):
        raise ModelError(path, "its state_dict does not hold tensors", remedy)
    settings = {"ablation_protocol": "published"} | settings | {"vocab_size": largest + 1, "encoder_name": encoder}
    if order is not None:
        settings[GENE_ORDER] = str(order)
    stray = [name for name in state if not name.startswith(STATE_PREFIX)]
    if stray:
        raise ModelError(path, f"tensors outside the network: {_some(stray)}", remedy)
    return settings, {name.removeprefix(STATE_PREFIX): tensor for name, tensor in state.items()}


def network(settings: Mapping[str, Any], state: Mapping[str, Tensor], source: str | Path) -> Cumulative:
    """Build the published network of constructor arguments ``settings`` and give it the weights ``state``.

    Raises
    ------
    ModelError
        If a setting is not supported, or a tensor is missing or left over.
    """
    try:
        scales = tuple(int(s) for s in settings["scale_dims"])
        config = _config(settings, film="gene_identity_embedding.weight" in state)
        model = Cumulative(
            config, Blocks.of(scales), int(settings["histology_feature_dim"]), int(settings["vocab_size"]) - 1
        )
    except KeyError as e:
        raise ModelError(source, f"its configuration lacks MODEL.{e.args[0]}", "export it again") from e
    except (TypeError, ValueError) as e:
        reason = e.errors()[0]["msg"] if isinstance(e, ValidationError) else e
        raise ModelError(source, f"its configuration is not valid ({reason})", "check it") from e
    ours = translate(state, source)
    expected = model.state_dict()
    ours |= {name: expected[name] for name in ("condition.feature_mean", "condition.feature_std")}
    missing, left = sorted(expected.keys() - ours.keys()), sorted(ours.keys() - expected.keys())
    wrong = sorted(n for n in expected.keys() & ours.keys() if expected[n].shape != ours[n].shape)
    for names, what in ((left, "tensors not used"), (missing, "tensors missing"), (wrong, "tensors of a wrong shape")):
        if names:
            raise ModelError(source, f"{what}: {_some(names)}", "check that its configuration is the one it had")
    model.load_state_dict(ours)
    return model.eval()


def translate(state: Mapping[str, Tensor], source: str | Path) -> dict[str, Tensor]:
    """Give the published network's tensors the names, and where it differs the form, that they have here."""
    ours: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in state.items():
        if any(re.match(pattern, name) for pattern in CONSTANTS):
            _check_constant(name, tensor, source)
        elif (renamed := _rename(name)) is None:
            unknown.append(name)
        else:
            ours[renamed] = tensor.float()
    if unknown:
        raise ModelError(source, f"tensors not used: {_some(unknown)}", "give a checkpoint of the GenAR network")
    if "start" in ours:
        ours["start"] = ours["start"].flatten()
    if "film.2.bias" in ours:  # there x is multiplied by gamma, here by 1 + gamma
        gamma, beta = ours["film.2.bias"].chunk(2)
        ours["film.2.bias"] = torch.cat([gamma - 1, beta])
    return ours


def import_checkpoint(
    path: Path, genes: list[str], *, name: str, geometry: Lattice, tile_um: float
) -> Model:  # fmt: skip
    """Turn a checkpoint of the published code into a model.

    Parameters
    ----------
    path
        The ``.ckpt``.
    genes
        Symbols of its panel, in its order.
    name
        Name of the model.
    geometry
        Spots that it was trained on.
    tile_um
        Side in µm of the tiles that it was trained on, which the checkpoint does not tell.

    Raises
    ------
    ModelError
        If the checkpoint or the genes do not fit.
    """
    settings, state = load_checkpoint(path)
    model = network(settings, state, path)
    if len(genes) != model.scales[-1] or len(set(genes)) != len(genes):
        why = (
            f"it predicts {model.scales[-1]} genes, the list has {len(set(genes))} different ones in {len(genes)} lines"
        )
        raise ModelError(path, why, "give the gene list that it was trained with, in its order")
    if settings.get(GENE_ORDER, order := _order_sha256(genes)) != order:
        why = "the genes are not those, or not in the order, that the checkpoint was trained with"
        raise ModelError(path, why, "give the gene list that its run selected, as it was written")
    panel = model.hierarchy.columns().set_index(pd.Index(genes))
    panel.insert(0, keys.TRAIN_MEAN, float("nan"))
    info = ModelInfo(
        name=name, encoder=settings["encoder_name"], feature_dim=int(settings["histology_feature_dim"]),
        tile_um=tile_um, lattice=geometry.name, spot_um=geometry.spot_um, pitch_um=geometry.pitch_um,
        scales=model.scales, grouping="blocks", max_count=model.max_count, network=model.config,
        genar_version=__version__, sections=(),
    )  # fmt: skip
    return Model(info, panel, model)


def _config(settings: Mapping[str, Any], *, film: bool) -> ModelConfig:
    """Say the published constructor's arguments in ours."""
    if settings.get("shared_aln"):
        msg = "shared_aln is not supported"
        raise ValueError(msg)
    for name, only in (("norm_eps", NORM_EPS), ("continuous_loss_alpha", 0.01), ("continuous_loss_beta", 0.1)):
        if settings.get(name, only) != only:
            msg = f"{name} must be {only:g}"
            raise ValueError(msg)
    if settings.get("prediction_mode") == "continuous":
        loss = settings.get("continuous_loss", "mse")
    else:
        loss = settings.get("final_loss_mode", "gaussian_kl")
        loss = {"gaussian_kl": "gaussian", "gaussian_nll": "gaussian"}.get(loss, loss)  # the second: an older name
    weights = settings.get("scale_loss_weights")
    config = ModelConfig(
        decoder="cumulative", handed_on="greedy", position="published", film=film,
        width=settings["embed_dim"], heads=settings["num_heads"], layers=settings["num_layers"],
        mlp_ratio=settings["mlp_ratio"], qk_norm=settings.get("attn_l2_norm", True),
        condition_width=settings["condition_embed_dim"], drop_path=settings.get("drop_path_rate", 0.1),
        sigma_slope=settings.get("adaptive_sigma_alpha", 0.1), sigma_floor=settings.get("adaptive_sigma_beta", 1.0),
        distribution=loss,
        continuous_reduction=settings.get("ablation_protocol", "normalized"),
        scale_weights=None if weights is None else tuple(weights),
    )  # fmt: skip
    read = {
        "vocab_size", "scale_dims", "histology_feature_dim", "encoder_name", "embed_dim", "num_heads", "num_layers",
        "mlp_ratio", "attn_l2_norm", "condition_embed_dim", "drop_path_rate", "adaptive_sigma_alpha", "norm_eps",
        "adaptive_sigma_beta", "prediction_mode", "continuous_loss", "final_loss_mode", "ablation_protocol",
        "scale_loss_weights", "shared_aln", "continuous_loss_alpha", "continuous_loss_beta", GENE_ORDER,
    }  # fmt: skip
    ignored = sorted(settings.keys() - read - KNOWN)
    if ignored:
        logger.warning("settings of the checkpoint that genar does not know are ignored: %s", ", ".join(ignored))
    return config


def _rename(name: str) -> str | None:
    """Return our name of one of their tensors, if there is one."""
    if pooler := re.fullmatch(r"gene_identity_pooling\.scale_poolers\.scale_(\d+)\.(\d+)\.(\w+)", name):
        return f"identity.{pooler[1]}.{int(pooler[2]) - 1}.{pooler[3]}"  # theirs counts the pooling itself
    for pattern, ours in NAMES:
        renamed, found = re.subn(f"^{pattern}", ours, name)
        if found:
            return renamed
    return None


def _check_constant(name: str, tensor: Tensor, source: str | Path) -> None:
    """Make sure that a buffer which we compute has the value that we compute."""
    expected = torch.zeros_like(tensor)
    if name.endswith("div_term"):
        expected = 10000.0 ** -(torch.arange(FREQUENCIES, dtype=tensor.dtype) / FREQUENCIES)
    if tensor.shape != expected.shape or not torch.allclose(tensor, expected, rtol=1e-4):
        raise ModelError(source, f"its constant {name} differs from the published one", "give an unmodified checkpoint")


def _order_sha256(genes: list[str]) -> str:
    """Hash a panel as the published code does."""
    return hashlib.sha256("".join(f"{gene}\n" for gene in genes).encode()).hexdigest()


def _some(names: list[str]) -> str:
    """List the first few names."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
