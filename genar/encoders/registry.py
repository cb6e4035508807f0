"""Tile encoders: which there are, and how to make one."""

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import timm
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genar.encoders import fingerprint, load
from genar.encoders.entries import ENCODERS, EncoderSpec, entry
from genar.encoders.fuse import fuse
from genar.encoders.pooling import features
from genar.encoders.runtime import Runtime, openvino, runtime_of
from genar.encoders.timm_names import HUB, build, timm_spec
from genar.encoders.weights import sha256, weights_file
from genar.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENCODERS", "Encoder", "EncoderSpec", "create", "is_computable", "spec_of", "weights_sha256"]


class Encoder(nn.Module):
    """A frozen network that turns tiles into feature vectors.

    Parameters
    ----------
    spec
        Which one.
    network
        Its network with weights, in timm's form and without a classifier.
    """

    def __init__(self, spec: EncoderSpec, network: nn.Module) -> None:
        super().__init__()
        self.spec = spec
        self.network = network.eval().requires_grad_(False)
        fuse(self.network)
        self.network.to(memory_format=torch.channels_last)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(spec.mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(spec.std).view(1, 3, 1, 1) * 255, persistent=False)
        self._compiled: Callable[[Tensor], Tensor] | None = None

    @property
    def runtime(self) -> Runtime:
        """What computes it where it is; see :func:`genar.encoders.runtime.runtime_of`."""
        return runtime_of(self.spec, self.mean.device)

    def forward(self, tiles: Tensor) -> Tensor:
        """Return the features, float32 [B, dim], of RGB ``tiles``, uint8 [B, 3, input_px, input_px]."""
        if self.runtime == "torch":
            return self._plain(tiles)
        if self._compiled is None:
            self._compiled = openvino(_Plain(self), self.spec.input_px)
        return self._compiled(tiles)

    def fingerprint(self) -> NDArray[np.float32]:
        """Return the first 16 features of a fixed picture, float32 [16]: those of other weights are others."""
        with torch.inference_mode():
            seen = self(fingerprint.picture(self.spec.input_px).to(self.mean.device))
        return seen[0, : fingerprint.LENGTH].float().cpu().numpy()  # type: ignore[no-any-return]

    def _plain(self, tiles: Tensor) -> Tensor:
        x = (tiles.float() - self.mean) / self.std
        return features(self.network, x.contiguous(memory_format=torch.channels_last), self.spec.pooling)


class _Plain(nn.Module):
    """An encoder as torch computes it, whatever computes it else."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, tiles: Tensor) -> Tensor:
        return self.encoder._plain(tiles)


def spec_of(name: str) -> EncoderSpec:
    """Return what an encoder is.

    Parameters
    ----------
    name
        A name or alias of :data:`genar.encoders.entries.ENCODERS`, a network of timm (``resnet50``,
        ``vit_small_patch16_224.dino``), or a repository in timm's form at the Hugging Face hub (``hf-hub:owner/name``).

    Raises
    ------
    ModelError
        If there is no such encoder.
    """
    spec = entry(name) or timm_spec(name)
    if spec is not None:
        return spec
    known = [alias for known in ENCODERS.values() for alias in (known.name, *known.aliases)]
    close = get_close_matches(name.lower(), known, 3) or get_close_matches(name, timm.list_models(), 3)
    remedy = f"use {' or '.join(close)}" if close else f"use one of: {', '.join(ENCODERS)}, or any network of timm"
    raise ModelError(name, "genar knows no such encoder", f"{remedy}; 'genar encoders' lists them")


def is_computable(name: str) -> bool:
    """Tell whether genar knows an encoder and can compute it, given its weights; of the hub's others :func:`create`."""
    spec = entry(name)
    if spec is None and name.startswith(HUB):
        return True
    spec = spec or timm_spec(name)
    return spec is not None and bool(spec.timm_name)


def create(name: str, weights: Path | None = None) -> Encoder:
    """Return an encoder with its weights, ready to run.

    Parameters
    ----------
    name
        As :func:`spec_of` takes it.
    weights
        Its weights: a file (safetensors, or a state dict that torch saved), a folder that holds one under the hub's
        name for it, or a cache of the hub. By default those of an installed package, or of the hub, which are
        downloaded unless they are in its cache.

    Raises
    ------
    ModelError
        If there is no such encoder, or its weights are not there, or not what they should be.
    """
    spec = spec_of(name)
    file = weights_file(spec, weights)
    network = build(spec)
    load.fill(network, spec, file)
    return Encoder(spec, network)


def weights_sha256(name: str, weights: Path | None = None) -> str:
    """Return the SHA-256 of the file that :func:`create` would load, in hexadecimal, remembered between runs.

    Raises
    ------
    ModelError
        As :func:`create`.
    """
    file = weights_file(spec_of(name), weights)
    try:
        return sha256(file)
    except OSError as e:
        raise ModelError(file, f"it cannot be read ({e.strerror or e})", "get it again") from e
