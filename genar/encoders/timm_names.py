"""Any of timm's networks, and any at the Hugging Face hub that is in timm's form, as an encoder."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import timm
import torch
from timm.layers.mlp import SwiGLUPacked
from torch import nn

from genar.encoders import hub
from genar.encoders.entries import RGB, EncoderSpec
from genar.errors import ModelError
from genar.units import TilePx

HUB = "hf-hub:"
NOT_SHAPES = {
    "cache_dir",
    "checkpoint_path",
    "exportable",
    "pretrained",
    "pretrained_cfg",
    "scriptable",
}  # of model_args


def build(spec: EncoderSpec) -> nn.Module:
    """Build an encoder's network, without a classifier and without weights yet.

    A vision transformer is built on the meta device, so that a billion weights are not drawn at random first.
    """
    arguments = dict(spec.arguments) | {"num_classes": 0}
    if spec.swiglu:
        arguments |= {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU}
    with torch.device("cpu" if spec.pooling == "network" else "meta"):
        return timm.create_model(spec.timm_name, pretrained=False, **arguments)


@cache
def timm_spec(name: str) -> EncoderSpec | None:
    """Return what one of timm's networks is as an encoder, from what timm says of its pretrained weights.

    Parameters
    ----------
    name
        ``architecture``, ``architecture.weights``, or ``hf-hub:owner/repository``.

    Returns
    -------
    The encoder; None if there is no such network. An architecture is named with the weights that timm takes for it.

    Raises
    ------
    ModelError
        If the hub's repository cannot be asked, or is not in timm's form.
    """
    if name.startswith(HUB):
        return _of_hub(name)
    try:
        known = timm.get_pretrained_cfg(name)
    except RuntimeError:  # weights that the architecture does not have
        return None
    if known is None:
        return None
    architecture = str(known.architecture)
    return _sized(
        EncoderSpec(
            f"{architecture}.{known.tag}" if known.hf_hub_id else architecture,
            architecture,
            0,
            known.license or "unknown",
            (_rgb(known.mean), _rgb(known.std)),
            TilePx(known.input_size[-1]),
            mpp=None,
            hub=known.hf_hub_id,
        )
    )


def _of_hub(name: str) -> EncoderSpec:
    """Read a repository's ``config.json``."""
    repository = name.removeprefix(HUB)
    try:
        path = hub.fetch(repository, ["config.json"])
    except (hub.NotThereError, ValueError) as e:
        remedy = f"run 'hf download {repository}' where there is a network, and bring the hub's cache here"
        raise ModelError(name, f"its configuration is not here, and cannot be had ({e})", remedy) from e
    try:
        return _sized(_configured(name, path))
    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError) as e:
        why = f"its config.json is not of a network of timm ({type(e).__name__}: {' '.join(str(e).split())[:100]})"
        raise ModelError(name, why, "compute its features elsewhere, and give them with --features") from e


def _configured(name: str, path: Path) -> EncoderSpec:
    """Take from a repository's configuration what makes an encoder; one that pools nothing gives its class token."""
    config = json.loads(path.read_text(encoding="utf-8"))
    known = config.get("pretrained_cfg", config)
    arguments = dict(config.get("model_args", {}))
    arguments = {key: value for key, value in arguments.items() if key not in NOT_SHAPES}
    pool = arguments.pop("global_pool", config.get("global_pool"))
    return EncoderSpec(
        name,
        config["architecture"],
        0,
        str(known.get("license") or "see its page"),
        (_rgb(known["mean"]), _rgb(known["std"])),
        TilePx(int(known["input_size"][-1])),
        mpp=None,
        pooling="class" if pool == "" else "network",
        arguments=tuple((arguments | ({"global_pool": pool} if pool else {})).items()),
        hub=name.removeprefix(HUB),
    )


def _rgb(values: Sequence[float]) -> RGB:
    """Return three numbers."""
    red, green, blue = values
    return red, green, blue


def _sized(spec: EncoderSpec) -> EncoderSpec:
    """Fill in the dimension of the features, told by the network itself, without computing any."""
    arguments = dict(spec.arguments) | {"num_classes": 0}
    with torch.device("meta"):
        network = timm.create_model(spec.timm_name, pretrained=False, **arguments).eval()
        seen = network(torch.empty(1, 3, spec.input_px, spec.input_px))
    return replace(spec, dim=int(seen.shape[-1] if spec.pooling == "class" else seen.shape[1]))
