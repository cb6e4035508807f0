"""What computes a frozen network: torch, or OpenVINO where it is installed and the network is one that it speeds up."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor, nn

from genar.encoders.entries import EncoderSpec
from genar.errors import ConfigError

Runtime = Literal["torch", "openvino"]
VARIABLE = "GENAR_RUNTIME"


def runtime_of(spec: EncoderSpec, device: str | torch.device = "cpu") -> Runtime:
    """Return what computes an encoder on a device.

    OpenVINO computes, on the CPU, encoders whose ``pooling`` is ``"network"`` (it speeds up convolutions, and large
    vision transformers hardly) where it is installed (``pip install genar[openvino]``), unless the environment variable
    ``GENAR_RUNTIME`` is ``torch``. Torch computes all else. Features of the two differ by rounding.

    Raises
    ------
    ConfigError
        If ``GENAR_RUNTIME`` is neither of the two, or OpenVINO is asked for and not installed.
    """
    wanted = os.environ.get(VARIABLE) or ("openvino" if _installed() else "torch")
    if wanted not in ("torch", "openvino"):
        raise ConfigError(VARIABLE, f"{wanted!r} is not known", "set it to torch or openvino")
    if wanted == "openvino" and not _installed():
        raise ConfigError(VARIABLE, "OpenVINO is not installed", "pip install 'genar[openvino]'")
    is_faster = spec.pooling == "network" and torch.device(device).type == "cpu"
    return "openvino" if wanted == "openvino" and is_faster else "torch"


@cache
def _installed() -> bool:
    return find_spec("openvino") is not None


def openvino(network: nn.Module, px: int) -> Callable[[Tensor], Tensor]:
    """Compile a network for the CPU.

    Parameters
    ----------
    network
        Takes uint8 [B, 3, px, px]; in evaluation mode.
    px
        Side of its input in pixels.

    Returns
    -------
    What the network is called with, on the CPU, to what it returns, float32. It uses as many threads as torch.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type] # OpenVINO then reports to no one
    import openvino as ov
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    example = torch.zeros(2, 3, px, px, dtype=torch.uint8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and OpenVINO each deprecate what the other uses
        frontend = FrontEndManager().load_by_framework("pytorch")
        decoder = TorchScriptPythonDecoder(network, example_input=(example,))  # has to outlive the conversion
        model = frontend.convert(frontend.load(decoder))
    model.reshape(ov.PartialShape([-1, 3, px, px]))
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = ov.Core().compile_model(model, "CPU", settings)
    return lambda tiles: torch.from_numpy(compiled(tiles.contiguous().numpy())[0].copy())
