"""Pixels against the libraries that decode them."""

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image

from genar.errors import SlideError
from genar.slide import backends
from genar.slide.open import open_slide

RGB = np.random.default_rng(3).integers(0, 256, (240, 310, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "left", "top"), [("CMU-1-Small-Region.svs", 1000, 1501), ("TCGA-CR-7395-TS1-no-mpp.svs", 2001, 1303)]
)
def test_a_region_is_openslides_own(shared, name, left, top):
    path = shared / "data/wsi" / name
    with openslide.OpenSlide(path) as raw:
        want = np.asarray(raw.read_region((left, top), 0, (200, 150)))
    assert (want[..., 3] == 255).all()
    with open_slide(path, 0.5) as slide:
        got = slide.read(left, top, 200, 150)
    assert got.std() > 5  # not a blank corner
    np.testing.assert_array_equal(got, want[..., :3])


@pytest.mark.parametrize(("left", "top"), [(2000, 1302), (1234, 2345), (3001, 777)])
def test_a_region_of_a_coarse_level_is_where_it_lies_in_that_level(shared, left, top):
    """OpenSlide takes whole level-0 pixels, 2.0005 of which make one of this level: up to 1/4 pixel off."""
    path = shared / "data/wsi/TCGA-CR-7395-TS1-no-mpp.svs"
    with openslide.OpenSlide(path) as raw:
        whole = np.asarray(raw.read_region((0, 0), 1, raw.level_dimensions[1]))[..., :3].astype(int)
    with open_slide(path, 0.5) as slide:
        got = slide.read(left, top, 150, 120, level=1)
    x, y = round(left / 2.0005), round(top / 2.0005)
    steps = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    off = {(dx, dy): np.abs(got - whole[y + dy : y + dy + 120, x + dx : x + dx + 150]).mean() for dx, dy in steps}
    here = off.pop((0, 0))
    assert here < 6
    assert here < min(off.values()) / 2


def test_a_thumbnail_of_a_scanned_slide_is_as_pillow_makes_it(shared, monkeypatch):
    monkeypatch.setattr("genar.slide.open.STRIP_PX", 500_000)  # several strips
    with open_slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        whole = Image.fromarray(slide.read(0, 0, *slide.dimensions))
        got = slide.thumbnail(500)
    assert got.shape == (500, 374, 3)
    difference = np.abs(got.astype(int) - np.asarray(whole.resize((374, 500), Image.Resampling.BOX)))
    assert difference.mean() < 1.5
    assert np.percentile(difference, 99) < 12


def test_a_window_of_a_deflated_bigtiff(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", RGB, bigtiff=True, compression="zlib", rowsperstrip=16)
    assert (tmp_path / "a.tif").read_bytes()[:4] == b"II+\0"
    with open_slide(tmp_path / "a.tif", 0.5) as slide:
        np.testing.assert_array_equal(slide.read(33, 21, 70, 60), RGB[21:81, 33:103])


def test_a_window_of_a_png(tmp_path):
    Image.fromarray(RGB).save(tmp_path / "a.png")
    with open_slide(tmp_path / "a.png", 0.5) as slide:
        np.testing.assert_array_equal(slide.read(33, 21, 70, 60), RGB[21:81, 33:103])


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_half_transparent_pixels_are_laid_over_white(tmp_path, suffix):
    alpha = np.full(RGB.shape[:2], 128, dtype=np.uint8)
    path = tmp_path / f"a.{suffix}"
    if suffix == "png":
        Image.fromarray(np.dstack([RGB, alpha])).save(path)
    else:
        tifffile.imwrite(path, np.dstack([RGB, alpha]), photometric="rgb", extrasamples=["unassalpha"])
    want = (RGB * 128.0 + 255 * 127.0) / 255
    with open_slide(path, 0.5) as slide:
        assert np.abs(slide.read(0, 0, 310, 240) - want).max() <= 1


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_an_image_is_refused_above_the_limit_alone(tmp_path, monkeypatch, name):
    Image.fromarray(RGB).save(tmp_path / name)
    monkeypatch.setattr(backends, "LARGEST_DECODED", RGB.shape[0] * RGB.shape[1] * 4)
    open_slide(tmp_path / name, 0.5).close()
    monkeypatch.setattr(backends, "LARGEST_DECODED", RGB.shape[0] * RGB.shape[1] * 4 - 1)
    with pytest.raises(SlideError, match="310 x 240 px are too many"):
        open_slide(tmp_path / name, 0.5)
