"""Weights from files, folders and caches, written here: the network is never asked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import pytest
import timm
import torch
from huggingface_hub import constants
from safetensors.torch import save_file
from torch import nn

from genar.encoders import hub, timm_names
from genar.encoders.entries import ENCODERS, EncoderSpec
from genar.encoders.registry import create, spec_of, weights_sha256
from genar.encoders.timm_names import build
from genar.errors import ModelError

NAME = "resnet10t"
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 2}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache of the hub, and no hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "none"))
    monkeypatch.setenv("GENAR_CACHE", str(tmp_path / "hashes"))

    def refuse(*_: object, **__: object) -> None:
        raise URLError("no network in tests")

    monkeypatch.setattr(hub, "urlopen", refuse)


def random_weights(name: str = NAME, seed: int = 0, classes: int = 1000) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return timm.create_model(name, pretrained=False, num_classes=classes).state_dict()


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return random_weights()


def as_safetensors(state: dict[str, torch.Tensor], folder: Path) -> Path:
    save_file(state, folder / "w.safetensors")
    return folder / "w.safetensors"


def as_pickle(state: dict[str, torch.Tensor], folder: Path) -> Path:
    torch.save(state, folder / "w.pth")
    return folder / "w.pth"


def as_repository(state: dict[str, torch.Tensor], folder: Path) -> Path:
    (folder / "down").mkdir()
    (folder / "down" / "config.json").write_text("{}")
    save_file(state, folder / "down" / "model.safetensors")
    return folder / "down"


def as_old_repository(state: dict[str, torch.Tensor], folder: Path) -> Path:
    (folder / "down").mkdir()
    torch.save(state, folder / "down" / "pytorch_model.bin")
    return folder / "down"


def as_cache(state: dict[str, torch.Tensor], folder: Path) -> Path:
    repository = folder / "cache" / f"models--{str(spec_of(NAME).hub).replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    save_file(state, repository / "snapshots" / "abc" / "model.safetensors")
    return folder / "cache"


def as_one_of_a_cache(state: dict[str, torch.Tensor], folder: Path) -> Path:
    (repository,) = as_cache(state, folder).iterdir()
    return repository


Writer = Callable[[dict[str, torch.Tensor], Path], Path]
WRITERS = [as_safetensors, as_pickle, as_repository, as_old_repository, as_cache, as_one_of_a_cache]


@pytest.mark.parametrize("write", WRITERS)
def test_weights_are_found_and_used(state: dict[str, torch.Tensor], tmp_path: Path, write: Writer) -> None:
    path = write(state, tmp_path)
    network = timm.create_model(NAME, pretrained=False)
    network.load_state_dict(state)
    network.reset_classifier(0)
    tiles = torch.randint(0, 256, (2, 3, 176, 176), dtype=torch.uint8)
    encoder = create(NAME, path)
    assert encoder.spec.input_px == 176
    with torch.inference_mode():
        expected = network.eval()((tiles / 255 - encoder.mean / 255) / (encoder.std / 255))
        torch.testing.assert_close(encoder(tiles), expected, atol=1e-4, rtol=1e-3)
    assert len(weights_sha256(NAME, path)) == 64


def test_the_hubs_cache_is_used_without_asking_the_hub(
    state: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(as_cache(state, tmp_path)))
    assert weights_sha256(NAME) == weights_sha256(NAME, tmp_path / "cache")
    assert create(NAME).spec.dim == 512


def test_a_hash_is_remembered_until_the_file_changes(
    state: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_safetensors(state, tmp_path)
    first = weights_sha256(NAME, path)
    with monkeypatch.context() as patched:
        patched.setattr("hashlib.file_digest", None)  # not asked again
        assert weights_sha256(NAME, path) == first
    save_file(random_weights(seed=1), path)
    assert weights_sha256(NAME, path) != first
    (tmp_path / "hashes" / "weights.json").write_text("{")
    assert weights_sha256(NAME, path) != first


def lacking(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if not name.startswith("layer1")}


def surplus(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return state | {"neck.weight": torch.zeros(2)}


def reshaped(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return state | {"bn1.weight": torch.zeros(2)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lacking, r"it lacks layer1.0.conv1.weight, layer1.0.bn1.weight, layer1.0.bn1.bias and \d+ more: not the"),
        (surplus, r"it also has neck.weight: not the weights of resnet10t"),
        (reshaped, r"it has another shape of bn1.weight"),
    ],
)
def test_weights_of_another_network(
    state: dict[str, torch.Tensor], tmp_path: Path, change: Callable[..., dict[str, torch.Tensor]], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        create(NAME, as_safetensors(change(state), tmp_path))


class Malice:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("ran"),))


def test_what_cannot_be_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.safetensors").write_bytes(b"0" * 20)
    (tmp_path / "text.pth").write_text("weights")
    (tmp_path / "a.txt").write_text("weights")
    torch.save({"a": Malice()}, tmp_path / "malice.pt")
    torch.save({"state_dict": {"a": torch.zeros(1)}, "epoch": 3}, tmp_path / "wrapped.bin")
    (tmp_path / "folder").mkdir()
    for name, said in {
        "cut.safetensors": "cannot be read as weights",
        "text.pth": "cannot be read as weights",
        "malice.pt": "cannot be read as weights",
        "wrapped.bin": "it holds more than named tensors; save the network's state dict alone",
        "a.txt": "it is no file of weights; give a file with the suffix .safetensors",
        "folder": "it holds no weights",
        "nowhere": "there is no such file or folder; run 'hf download timm/",
        ".": "it holds 4 files of weights",
    }.items():
        with pytest.raises(ModelError, match=said):
            create(NAME, tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    licence = r"accept the licence at https://huggingface.co/MahmoodLab/UNI and run 'hf auth login'; or run"
    with pytest.raises(ModelError, match=rf"^uni: its weights are not here.*cannot be reached\); {licence}") as e:
        create("uni_v1")
    assert str(e.value).endswith("and give it with --encoder-weights FOLDER")
    with pytest.raises(ModelError, match=r"^phikon: .*cannot be reached\); run 'hf download owkin/phikon "):
        weights_sha256("phikon")
    with pytest.raises(ModelError, match=r"^hf-hub:a/b: its configuration is not here.*hf download a/b'"):
        spec_of("hf-hub:a/b")
    with pytest.raises(ModelError, match="no weights of it are published; give a file"):
        create("mobilenetv2_075")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
        create("virchow2")


def test_a_repository_of_the_hub_in_timms_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--lab--tiny" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--lab--tiny" / "refs").mkdir()
    (tmp_path / "models--lab--tiny" / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text(
        '{"architecture": "vit_tiny_patch16_224", "num_features": 32, "global_pool": "", "model_args": {"img_size": 32,'
        ' "embed_dim": 32, "depth": 1, "num_heads": 2}, "pretrained_cfg": {"input_size": [3, 32, 32],'
        ' "mean": [0.1, 0.2, 0.3], "std": [0.5, 0.5, 0.5], "license": "mit"}}'
    )
    network = timm.create_model("vit_tiny_patch16_224", img_size=32, embed_dim=32, depth=1, num_heads=2, num_classes=0)
    save_file(network.state_dict(), snapshot / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    timm_names.timm_spec.cache_clear()
    encoder = create("hf-hub:lab/tiny")
    assert (encoder.spec.dim, encoder.spec.input_px, encoder.spec.mean) == (32, 32, (0.1, 0.2, 0.3))
    with torch.inference_mode():
        assert encoder(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape == (2, 32)
    (snapshot / "config.json").write_text('{"architectures": ["BertModel"]}')
    timm_names.timm_spec.cache_clear()
    with pytest.raises(ModelError, match=r"its config.json is not of a network of timm \(KeyError"):
        spec_of("hf-hub:lab/tiny")


def smaller(spec: EncoderSpec) -> EncoderSpec:
    """The same encoder of two thin layers, in which all that sets it apart is left."""
    mlp = {"mlp_ratio": 2.66667 * 2} if spec.swiglu or spec.name == "midnight" else {}
    arguments = dict(spec.arguments) | SMALL | mlp
    return replace(spec, arguments=tuple(arguments.items()), dim=48 * (2 if "+" in spec.pooling else 1))


def randomised(network: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.3)
    return network.eval()


@pytest.mark.parametrize("name", [s.name for s in ENCODERS.values() if s.timm_name and s.pooling != "network"])
def test_pooling(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pooled is told from the tokens that the network's own parts give."""
    spec = replace(smaller(ENCODERS[name]), naming="timm")
    monkeypatch.setitem(ENCODERS, name, spec)
    network = randomised(build(replace(spec, pooling="network")))
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    encoder = create(name, tmp_path / "w.safetensors")
    tiles = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    registers = {"uni2": 8, "virchow2": 4, "h-optimus-0": 4, "h-optimus-1": 4, "h0-mini": 4, "hibou-b": 4, "hibou-l": 4}
    patches = 14 * 14 if name in ("uni", "gigapath", "phikon", "phikonv2") else 16 * 16
    with torch.inference_mode():
        mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in spec.normalisation)
        tokens = network.forward_features((tiles / 255 - mean) / std)
        assert tokens.shape[1] == 1 + registers.get(name, 0) + patches
        expected = tokens[:, 0]
        if "mean" in spec.pooling:
            expected = torch.cat([expected, tokens[:, -patches:].mean(dim=1)], dim=1)
        torch.testing.assert_close(encoder(tiles), expected, atol=1e-4, rtol=1e-3)
    assert expected.shape == (2, spec.dim)


def theirs(name: str, grid: int) -> nn.Module:
    """Build the network that the transformers library has of an encoder, two thin layers of it."""
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    if name == "phikon":
        config = transformers.ViTConfig(**small, intermediate_size=192, image_size=224)
        return transformers.ViTModel(config, add_pooling_layer=False)
    if name in ("phikonv2", "midnight"):
        patch = 16 if name == "phikonv2" else 14
        config = transformers.Dinov2Config(
            **small, patch_size=patch, image_size=patch * grid, use_swiglu_ffn=name == "midnight"
        )
        return transformers.Dinov2Model(config)
    config = transformers.Dinov2WithRegistersConfig(
        **small, patch_size=14, image_size=14 * grid, num_register_tokens=4, use_swiglu_ffn=True
    )
    return transformers.Dinov2WithRegistersModel(config)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "grid"), [("phikon", 14), ("phikonv2", 14), ("midnight", 37), ("midnight", 16), ("hibou-b", 16)]
)
def test_it_computes_what_transformers_computes(
    name: str, grid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = randomised(theirs(name, grid))
    network.save_pretrained(tmp_path)
    spec = smaller(ENCODERS[name])
    monkeypatch.setitem(ENCODERS, name, spec)
    encoder = create(name, tmp_path)
    tiles = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    with torch.inference_mode():
        tokens = network(pixel_values=(tiles - encoder.mean) / encoder.std).last_hidden_state
        expected = tokens[:, 0]
        if name == "midnight":
            expected = torch.cat([expected, tokens[:, 1:].mean(dim=1)], dim=1)
        torch.testing.assert_close(encoder(tiles), expected, atol=1e-3, rtol=1e-3)
