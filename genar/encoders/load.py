"""Weights from a file, a folder or the Hugging Face hub, and nothing unpickled."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from genar.encoders.convert import from_transformers, in_order
from genar.encoders.entries import EncoderSpec
from genar.encoders.hub import FILES, cached
from genar.errors import ModelError

SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")


def find(spec: EncoderSpec, path: Path) -> Path:
    """Return the file of weights that a path leads to.

    Parameters
    ----------
    spec
        The encoder.
    path
        The file; a folder that holds it, such as a downloaded repository; or a cache of the hub.

    Raises
    ------
    ModelError
        If there is no such file.
    """
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise ModelError(path, "it is no file of weights", f"give a file with the suffix {', '.join(SUFFIXES)}")
        return path
    if not path.is_dir():
        raise ModelError(path, "there is no such file or folder", how_to_get(spec))
    for name in FILES:
        if (path / name).is_file():
            return path / name
    for cache in (path, path / "hub", path.parent) if spec.hub else ():
        found = cached(str(spec.hub), FILES, cache)
        if found is not None:
            return found
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    if len(files) == 1:
        return files[0]
    why = f"it holds {len(files)} files of weights" if files else "it holds no weights"
    raise ModelError(path, f"{why} ({' or '.join(FILES)} is looked for)", "name the file itself")


def how_to_get(spec: EncoderSpec) -> str:
    """Say how to get an encoder's weights."""
    if spec.hub is None:
        return "give a file of its weights with --encoder-weights"
    licence = f"accept the licence at https://huggingface.co/{spec.hub} and run 'hf auth login'; or " * spec.gated
    return (
        f"{licence}run 'hf download {spec.hub} --local-dir FOLDER' where there is a network, "
        "bring the folder here and give it with --encoder-weights FOLDER"
    )


def read(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors by name.

    Raises
    ------
    ModelError
        If it cannot be read, or holds anything else.
    """
    try:
        if path.suffix.lower() == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, UnpicklingError, zipfile.BadZipFile, SafetensorError) as e:
        reason = " ".join(str(e).split())[:100]
        why = f"it cannot be read as weights ({reason})"
        raise ModelError(path, why, "get it again, as safetensors if there is a choice") from e
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ModelError(path, "it holds more than named tensors", "save the network's state dict alone")
    return found


def fill(network: nn.Module, spec: EncoderSpec, path: Path) -> None:
    """Put the weights of a file into a network, all of them.

    Parameters
    ----------
    network
        timm's network without a classifier, which the file may have; it may be on the meta device.
    spec
        The encoder.
    path
        The file.

    Raises
    ------
    ModelError
        If the file cannot be read, or its tensors are not the network's.
    """
    state = read(path)
    if spec.naming == "transformers":
        state = from_transformers(state, network)
    elif spec.naming == "order":
        state = in_order(state, network)
    expected = network.state_dict()
    state = {name: tensor for name, tensor in state.items() if name in expected or not _is_head(name, network)}
    missing, surplus = [n for n in expected if n not in state], [n for n in state if n not in expected]
    other = [n for n in expected if n in state and state[n].shape != expected[n].shape]
    faults = [
        f"{word} {_few(names)}"
        for word, names in (("lacks", missing), ("also has", surplus), ("has another shape of", other))
        if names
    ]
    if faults:
        raise ModelError(path, f"it {'; it '.join(faults)}: not the weights of {spec.name}", how_to_get(spec))
    network.load_state_dict(state, strict=True, assign=True)
    network.float()


def _is_head(name: str, network: nn.Module) -> bool:
    """Tell whether a tensor is of the classifier, which timm names."""
    heads = getattr(network, "pretrained_cfg", {}).get("classifier") or ()
    return name.startswith(tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads)))


def _few(names: Sequence[str]) -> str:
    """Name a few."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
