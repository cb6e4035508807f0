import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from genar.encoders import runtime
from genar.encoders.entries import ENCODERS
from genar.encoders.registry import Encoder, create
from genar.encoders.runtime import runtime_of
from genar.errors import ConfigError

LITE0 = ENCODERS["efficientnet_lite0"]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("efficientnet_lite0")


def set_installed(monkeypatch: pytest.MonkeyPatch, *, installed: bool) -> None:
    monkeypatch.setattr(runtime, "_installed", lambda: installed)
    monkeypatch.delenv("GENAR_RUNTIME", raising=False)


def test_which_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    set_installed(monkeypatch, installed=True)
    assert runtime_of(LITE0) == runtime_of(LITE0, torch.device("cpu")) == "openvino"
    assert runtime_of(LITE0, "cuda:1") == runtime_of(ENCODERS["uni"]) == "torch"
    monkeypatch.setenv("GENAR_RUNTIME", "torch")
    assert runtime_of(LITE0) == "torch"
    set_installed(monkeypatch, installed=False)
    assert runtime_of(LITE0) == "torch"
    monkeypatch.setenv("GENAR_RUNTIME", "openvino")
    with pytest.raises(ConfigError, match=r"OpenVINO is not installed; pip install 'genar\[openvino\]'"):
        runtime_of(LITE0)
    monkeypatch.setenv("GENAR_RUNTIME", "abacus")
    with pytest.raises(ConfigError, match="'abacus' is not known; set it to torch or openvino"):
        runtime_of(LITE0)


@pytest.mark.skipif(find_spec("openvino") is None, reason="OpenVINO is not installed")  # imported it would report
def test_openvino_computes_the_same(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = torch.randint(0, 256, (5, 3, 224, 224), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    computed = {}
    with torch.inference_mode():
        for name in ("torch", "openvino"):
            monkeypatch.setenv("GENAR_RUNTIME", name)
            assert encoder.runtime == name
            computed[name] = encoder(tiles.contiguous(memory_format=torch.channels_last)).numpy()
        again = np.concatenate([encoder(tiles[:2]).numpy(), encoder(tiles[2:]).numpy()])
    np.testing.assert_allclose(computed["openvino"], computed["torch"], atol=1e-4)
    assert (computed["openvino"] != computed["torch"]).any()  # it is another program
    np.testing.assert_array_equal(again, computed["openvino"])  # whatever the batch
    assert getattr(sys.modules.get("openvino_telemetry"), "Telemetry", None) is None  # it reports to no one
