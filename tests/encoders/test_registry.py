from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from genar import keys
from genar.encoders import weights
from genar.encoders.entries import ENCODERS, EncoderSpec
from genar.encoders.registry import Encoder, create, is_computable, spec_of
from genar.encoders.timm_names import build
from genar.errors import ModelError
from genar.jobs.config import TilesConfig

PATHOLOGY = [spec for spec in ENCODERS.values() if spec.timm_name and spec.pooling != "network"]
PARAMETERS = {  # of the published networks, in millions
    "uni": 303.4, "uni2": 681.4, "virchow": 631.2, "virchow2": 631.2, "h-optimus-0": 1134.8, "h-optimus-1": 1134.8,
    "h0-mini": 85.7, "gigapath": 1134.9, "phikon": 85.8, "phikonv2": 303.4, "hibou-b": 85.7, "hibou-l": 303.7,
    "midnight": 1136.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("efficientnet_lite0")


def photograph(name: str, box: tuple[int, int, int, int]) -> torch.Tensor:
    """Return a square of one of scikit-image's pictures, uint8 [1, 3, 224, 224]."""
    with resources.as_file(resources.files("skimage.data") / name) as path, Image.open(path) as image:
        square = image.convert("RGB").crop(box).resize((224, 224), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(square)).permute(2, 0, 1)[None]


@pytest.fixture(scope="module")
def cat() -> torch.Tensor:
    return photograph("chelsea.png", (75, 0, 375, 300))


@pytest.mark.parametrize("name", ["efficientnet_lite0"])
def test_spec_agrees_with_timm(name: str) -> None:
    spec = ENCODERS[name]
    config = timm.get_pretrained_cfg(spec.timm_name)
    assert config.mean == spec.mean
    assert config.std == spec.std
    assert config.input_size == (3, spec.input_px, spec.input_px)
    assert timm.create_model(spec.timm_name, pretrained=False, num_classes=0).num_features == spec.dim


@pytest.mark.parametrize("spec", PATHOLOGY, ids=lambda spec: spec.name)
def test_architecture(spec: EncoderSpec) -> None:
    """Built without memory for its weights: as large as the published one, and as wide as its features."""
    network = build(spec)
    assert all(parameter.is_meta for parameter in network.parameters())
    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(PARAMETERS[spec.name], rel=0.002)
    assert network.num_features * (2 if "+" in spec.pooling else 1) == spec.dim


def test_weights_are_mapped_right(encoder: Encoder, cat: torch.Tensor) -> None:
    """The classifier on top of the features knows a cat (ImageNet 281 to 285) and an espresso (967)."""
    state = torch.load(weights.packaged(encoder.spec), weights_only=True)
    *_, weight, bias = state.values()
    espresso = photograph("coffee.png", (100, 0, 500, 400))
    with torch.inference_mode():
        seen = (encoder(torch.cat([cat, espresso])) @ weight.T + bias).argmax(dim=1)
    assert int(seen[0]) in range(281, 286)
    assert int(seen[1]) == 967


def test_features(encoder: Encoder, cat: torch.Tensor) -> None:
    assert not encoder.network.training
    batch = torch.cat([cat, cat, torch.full_like(cat, 255)])
    with torch.inference_mode():
        features = encoder(batch)
    assert features.shape == (3, encoder.spec.dim)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()
    torch.testing.assert_close(features[0], features[1])
    assert (features[0] - features[2]).abs().mean() > 0.1


def test_tiles_are_normalised_as_timm_says(encoder: Encoder, cat: torch.Tensor) -> None:
    config = timm.get_pretrained_cfg(encoder.spec.timm_name)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (config.mean, config.std))
    with torch.inference_mode():
        torch.testing.assert_close(encoder(cat), encoder.network((cat / 255 - mean) / std), atol=1e-4, rtol=1e-3)


def test_names() -> None:
    """Every name leads to one entry, whatever the case; no two entries share one."""
    names = [name.lower() for s in ENCODERS.values() for name in (s.name, *s.aliases)]
    assert len(names) == len(set(names))
    for spec in ENCODERS.values():
        assert ENCODERS[spec.name] is spec
        for name in (spec.name, *spec.aliases, spec.name.upper(), *([f"hf-hub:{spec.hub}"] if spec.hub else [])):
            assert spec_of(name) is spec
    trident = "uni_v1 uni_v2 virchow virchow2 hoptimus0 hoptimus1 h0-mini gigapath phikon phikon_v2 hibou_l midnight12k"
    assert [spec_of(name).name for name in trident.split()] == [
        "uni", "uni2", "virchow", "virchow2", "h-optimus-0", "h-optimus-1", "h0-mini", "gigapath", "phikon", "phikonv2",
        "hibou-l", "midnight",
    ]  # fmt: skip


def test_any_network_of_timm() -> None:
    spec = spec_of("resnet50")
    assert (spec.name, spec.dim, spec.input_px) == ("resnet50.a1_in1k", 2048, 224)
    assert (spec.mean, spec.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert (spec.licence, spec.hub) == ("apache-2.0", "timm/resnet50.a1_in1k")
    assert spec_of("resnet50.a1_in1k") == spec
    assert spec_of("vit_small_patch16_224.dino").dim == 384
    assert spec_of("mobilenetv3_small_100").dim == 1024  # whose features pass a layer of its classifier
    assert spec_of("mobilenetv2_075").hub is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("resnet", r"^resnet: genar knows no such encoder; use resnet\w+ or "),
        ("hoptimus", r"use hoptimus\d or .*'genar encoders' lists them"),
        ("resnet50.nonsense", "genar knows no such encoder"),
        ("*", r"use one of: efficientnet_lite0, .*, or any network of timm"),
    ],
)
def test_unknown_encoder(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        create(name)
    assert not is_computable(name)


def test_what_the_hub_holds_may_be_computable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be asked, the reason is given by who loads the weights."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert is_computable("hf-hub:someone/their-vit")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        create("hf-hub:someone/their-vit")


def test_conch_is_refused() -> None:
    assert spec_of("conch_v1").dim == 512
    assert not is_computable("conch")
    assert is_computable("uni_v1")
    with pytest.raises(ModelError, match=r"^conch: genar cannot compute it.*--features$"):
        create("conch")


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(ENCODERS["efficientnet_lite0"], package="no-such-package==1")
    monkeypatch.setitem(ENCODERS, "efficientnet_lite0", lost)
    with pytest.raises(ModelError, match=r"not installed.*pip install .*no-such-package==1"):
        create("efficientnet_lite0")


def test_changed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(ENCODERS["efficientnet_lite0"], sha256="0" * 64)
    monkeypatch.setitem(ENCODERS, "efficientnet_lite0", other)
    with pytest.raises(ModelError, match="not the released ones"):
        create("efficientnet_lite0")


def test_a_name_of_the_hub_makes_a_key() -> None:
    assert keys.features("hf-hub:owner/name") == "X_hf-hub:owner_name"
    assert keys.fingerprint("hf-hub:owner/name") == "encoder_fingerprint_hf-hub:owner_name"


def test_a_model_is_trained_under_the_one_name() -> None:
    assert TilesConfig(encoder="UNI_v1").encoder == "uni"
    assert TilesConfig(encoder="resnet50").encoder == "resnet50.a1_in1k"
    with pytest.raises(ValueError, match="genar cannot compute conch"):
        TilesConfig(encoder="conch")
    with pytest.raises(ValueError, match="hoptimus3: genar knows no such encoder; use hoptimus"):
        TilesConfig(encoder="hoptimus3")
