import json
import os
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from genar import pp
from genar.encoders import cache as cache_module
from genar.encoders.cache import default_cache, features
from genar.encoders.content import content
from genar.encoders.registry import create, spec_of
from genar.encoders.weights import packaged
from genar.errors import ConfigError, ModelError, OutputError, SlideError
from genar.slide.open import Slide, open_slide

OPTIONS = {"encoder": "efficientnet_lite0", "tile_um": 154.0}


@pytest.fixture
def section(make_slide, tissue_image):
    path = make_slide(tissue_image(400, 150), mpp=2.0, name="a b é.tif")
    return pp.spots(path, "st")[:3].copy()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "kept" / "here"


def entries(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.iterdir() if p.name != "hashes.json")


def test_features_are_those_of_the_encoder_and_computed_once(section, cache, encoded):
    first = features(section, cache=cache, **OPTIONS)
    assert encoded.tiles == 3
    again = features(section, cache=cache, **OPTIONS)
    assert encoded.tiles == 3
    assert first.path == again.path
    assert entries(cache) == [first.path.name]
    assert first.views is again.views is None
    pp.embed(section)
    np.testing.assert_array_equal(first.plain, section.obsm["X_efficientnet_lite0"])
    np.testing.assert_array_equal(again.plain, first.plain)


def test_values_are_mapped_and_not_read(section, cache):
    found = features(section, cache=cache, views=2, **OPTIONS)
    for values, shape in ((found.plain, (3, 1280)), (found.views, (2, 3, 1280))):
        assert isinstance(values, np.memmap)
        assert values.shape == shape
        assert values.dtype == np.float32
        assert not values.flags.writeable
        with found.path.open("r+b") as file:  # what is written to the file now shows in the array
            file.seek(values.offset)
            file.write(np.float32(7).tobytes())
        assert values.flat[0] == 7


def test_the_file_is_in_tridents_form(section, cache):
    found = features(section, cache=cache, views=1, **OPTIONS)
    with h5py.File(found.path) as file:
        assert set(file) == {"features", "coords", "views"}
        assert all(file[name].chunks is None and file[name].compression is None for name in file)
        np.testing.assert_array_equal(file["features"], found.plain)
        np.testing.assert_array_equal(file["views"], found.views)
        np.testing.assert_array_equal(file["coords"], np.rint(section.obsm["spatial"] - 154 / 2 / 2))
        assert file["coords"].dtype == np.int64
        attributes = dict(file["coords"].attrs)
    wanted = {"patch_size": 224, "patch_size_level0": 77, "overlap": 0, "level0_magnification": 5.0}
    assert {name: attributes[name] for name in wanted} == wanted
    assert attributes["target_magnification"] == pytest.approx(10 / (154 / 224))
    assert attributes["name"] == "a b é"


def test_what_features_depend_on_misses(section, cache, encoded, monkeypatch):
    options = OPTIONS | {"cache": cache}
    first = features(section, **options)
    moved = section.copy()
    moved.obsm["spatial"] = moved.obsm["spatial"] + 0.25
    finer = section.copy()
    next(iter(finer.uns["spatial"].values()))["metadata"]["mpp"] = 1.9
    cases = [
        (section, {"tile_um": 150.0}),
        (section, {"views": 1}),
        (section, {"views": 2}),
        (section, {"views": 1, "seed": 1}),
        (moved, {}),
        (finer, {}),
        (section[::-1].copy(), {}),
    ]
    paths = [first.path] + [features(spots, **(options | change)).path for spots, change in cases]
    for name, changed in [
        ("weights_sha256", lambda *_: "0" * 64),
        ("runtime_of", lambda *_: "abacus"),
        ("VERSION", 0),
        ("spec_of", lambda name: replace(spec_of(name), normalisation=((0.5, 0.5, 0.5), (0.4, 0.5, 0.5)))),
    ]:
        with monkeypatch.context() as patched:
            patched.setattr(cache_module, name, changed)
            paths.append(features(section, **options).path)
    assert len(set(paths)) == len(paths) == len(entries(cache)) == 12
    assert encoded.tiles == 3 * (1 + 1 + 2 + 3 + 2 + 3 + 4)
    features(section, seed=1, **options)  # a seed without views is none
    assert encoded.tiles == 3 * 16


def test_weights_are_known_by_content(section, cache, encoded, tmp_path):
    state = torch.load(packaged(spec_of("efficientnet_lite0")), weights_only=True)
    torch.save({name: value * 1.01 if value.dim() == 4 else value for name, value in state.items()}, tmp_path / "w.pth")
    first = features(section, cache=cache, **OPTIONS)
    changed = features(section, cache=cache, weights=tmp_path / "w.pth", **OPTIONS)
    assert encoded.tiles == 6
    assert changed.path != first.path
    assert (changed.plain != first.plain).any()
    assert (changed.fingerprint != first.fingerprint).any()
    (tmp_path / "w.pth").rename(tmp_path / "v.pth")
    assert features(section, cache=cache, weights=tmp_path / "v.pth", **OPTIONS).path == changed.path
    with pytest.raises(ModelError, match=r"w\.pth"):
        features(section, cache=cache, weights=tmp_path / "w.pth", **OPTIONS)


def test_the_fingerprint_is_kept(section, cache):
    first = features(section, cache=cache, **OPTIONS)
    assert first.fingerprint.shape == (16,)
    assert first.fingerprint.dtype == np.float32
    np.testing.assert_allclose(first.fingerprint, create("efficientnet_lite0").fingerprint(), rtol=1e-5)
    np.testing.assert_array_equal(features(section, cache=cache, **OPTIONS).fingerprint, first.fingerprint)


def test_the_slide_is_known_by_content_and_not_by_name(section, cache, encoded, make_slide, tissue_image, tmp_path):
    known = next(iter(section.uns["spatial"].values()))["metadata"]
    first = features(section, cache=cache, **OPTIONS)
    renamed = tmp_path / "elsewhere.tif"
    Path(known["source_image_path"]).rename(renamed)
    known["source_image_path"] = str(renamed)
    assert features(section, cache=cache, **OPTIONS).path == first.path
    assert encoded.tiles == 3
    make_slide(tissue_image(400, 150, seed=1), mpp=2.0, name="elsewhere.tif")
    changed = features(section, cache=cache, **OPTIONS)
    assert changed.path != first.path
    assert (changed.plain != first.plain).any()


def test_a_slide_is_hashed_once(section, cache):
    features(section, cache=cache, **OPTIONS)
    path = Path(next(iter(section.uns["spatial"].values()))["metadata"]["source_image_path"])
    with open_slide(path) as slide:
        files, size, changed, digest = json.loads((cache / "hashes.json").read_text())[str(path)]
        assert digest == slide.sha256()
    data = path.read_bytes()
    path.write_bytes(bytes(len(data)))  # another content at the same size and time: only a remembered hash still fits
    os.utime(path, ns=(changed, changed))
    assert (files, size) == (1, len(data))
    features(section, cache=cache, **OPTIONS)
    (cache / "hashes.json").write_text("{")
    with pytest.raises(SlideError, match="a b é.tif"):
        features(section, cache=cache, **OPTIONS)


def test_a_slide_may_be_a_folder(tmp_path):
    (tmp_path / "slide" / "0").mkdir(parents=True)
    (tmp_path / "slide" / "0" / "a").write_bytes(b"1")
    (tmp_path / "slide" / "b").write_bytes(b"22")
    slide = Slide(tmp_path / "slide", 0.5, "")
    first = content(slide, tmp_path / "hashes.json")
    assert first == content(slide, tmp_path / "hashes.json") == slide.sha256()
    (tmp_path / "slide" / "0" / "a").write_bytes(b"3")
    os.utime(tmp_path / "slide" / "0" / "a", ns=(0, 2**62))
    assert first != content(slide, tmp_path / "hashes.json") == slide.sha256()


def test_views_are_the_same_each_time_and_differ(section, cache, tmp_path):
    found = features(section, cache=cache, views=2, seed=3, batch_size=2, **OPTIONS)
    again = features(section, cache=tmp_path / "b", views=2, seed=3, batch_size=2, workers=1, **OPTIONS)
    other = features(section, cache=cache, views=2, seed=4, batch_size=2, **OPTIONS)
    np.testing.assert_array_equal(found.views, again.views)
    np.testing.assert_array_equal(found.plain, again.plain)
    np.testing.assert_array_equal(found.plain, other.plain)
    distance = np.abs(found.views - found.plain).mean(axis=2)
    between_spots = np.abs(found.plain[0] - found.plain[1]).mean()
    assert (distance > 0.001).all()
    assert distance.mean() < 3 * between_spots
    assert (np.abs(found.views[0] - found.views[1]).mean(axis=1) > 0.001).all()
    assert (np.abs(found.views - other.views).mean(axis=2) > 0.001).all()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def reshape(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["features"] = np.zeros((1280, 3), dtype=np.float32)


def widen(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["features"] = np.zeros((3, 1280), dtype=np.float64)


def compress(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.zeros((3, 1280), dtype=np.float32), compression="gzip")


@pytest.mark.parametrize("damage", [cut, empty, reshape, widen, compress])
def test_a_damaged_entry_is_computed_again(section, cache, encoded, caplog, damage):
    found = features(section, cache=cache, **OPTIONS)
    values = np.array(found.plain)
    del found
    (name,) = entries(cache)
    damage(cache / name)
    mended = features(section, cache=cache, **OPTIONS)
    assert encoded.tiles == 6
    np.testing.assert_array_equal(mended.plain, values)
    (warning,) = [record for record in caplog.records if "are damaged" in record.message]
    assert warning.levelname == "WARNING"
    assert f"{name}: cached features are damaged" in warning.message
    features(section, cache=cache, **OPTIONS)
    assert encoded.tiles == 6


def test_an_encoding_that_fails_at_once_leaves_nothing(make_slide, tissue_image, cache, encoded):
    path = make_slide(tissue_image(800, 300), mpp=2.0, compression="deflate")
    section = pp.spots(path, "st")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 5000] = bytes(5000)  # in the middle of the pixels
    path.write_bytes(data)
    with pytest.raises(SlideError, match="cannot be decoded"):
        features(section, cache=cache, batch_size=1, **OPTIONS)
    assert entries(cache) == []


def test_an_open_slide_is_used_as_it_is(section, cache, encoded):
    path = next(iter(section.uns["spatial"].values()))["metadata"]["source_image_path"]
    first = features(section, cache=cache, **OPTIONS)
    with open_slide(path, 2.0) as slide:
        assert features(section, slide, cache=cache, **OPTIONS).path == first.path
    assert encoded.tiles == 3
    with open_slide(path, 1.5) as slide:
        assert features(section, slide, cache=cache, **OPTIONS).path != first.path


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"views": -1}, ConfigError),
        ({"views": 1, "seed": 2**63}, ConfigError),
        ({"tile_um": 0.0}, ConfigError),
        ({"device": "abacus"}, ConfigError),
        ({"encoder": "resnet"}, ModelError),
    ],
)
def test_options_that_cannot_be(section, cache, change, error):
    with pytest.raises(error):
        features(section, cache=cache, **(OPTIONS | change))
    assert not cache.exists()


def test_a_slide_that_is_gone(section, cache):
    next(iter(section.uns["spatial"].values()))["metadata"]["source_image_path"] = "/no/such/slide.svs"
    with pytest.raises(SlideError, match=r"^/no/such/slide.svs: it cannot be read \(No such file or directory\)"):
        features(section, cache=cache, **OPTIONS)


def test_a_cache_that_cannot_be_written(section, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/c: features cannot be kept there .*GENAR_CACHE"):
        features(section, cache=tmp_path / "file" / "c", **OPTIONS)


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GENAR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache().parts[-2:] == ("genar", "features")
    monkeypatch.setenv("GENAR_CACHE", str(tmp_path / "mine"))
    assert default_cache() == tmp_path / "mine"
