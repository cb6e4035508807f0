import errno
import hashlib
import multiprocessing
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from genar.errors import SlideError
from genar.slide.open import open_slide


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)


def test_an_aperio_slide_carries_its_resolution(shared):
    with open_slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        assert (slide.mpp, slide.mpp_source) == (0.499, "openslide.mpp-x")
        assert slide.dimensions == (2220, 2967)
        assert slide.downsamples == (1.0,)


def test_a_slide_without_resolution_is_refused_until_the_user_gives_it(shared):
    path = shared / "data/wsi/TCGA-CR-7395-TS1-no-mpp.svs"
    with pytest.raises(SlideError, match="does not carry its resolution.*--mpp"):
        open_slide(path)
    with open_slide(path, 0.5) as slide:
        assert (slide.mpp, slide.mpp_source) == (0.5, "given by the user")
        assert slide.downsamples == pytest.approx((1, 2), abs=0.001)


def test_an_implausible_resolution_is_refused(shared):
    with pytest.raises(SlideError, match=r"352\.8 µm/px.*implausible.*--mpp"):
        open_slide(shared / "data/wsi/boxes.tiff")


@pytest.mark.parametrize("mpp", [0.0, -0.5, 0.01, 50.0, float("nan")])
def test_an_implausible_resolution_from_the_user_is_refused(make_slide, noise, mpp):
    with pytest.raises(SlideError, match="--mpp"):
        open_slide(make_slide(noise), mpp)


def test_pixels_that_are_not_square_are_refused(make_slide, noise):
    path = make_slide(noise, mpp=None, resolution=(20000, 19000), resolutionunit="CENTIMETER")
    with pytest.raises(SlideError, match="not square"):
        open_slide(path)
    with open_slide(path, 0.5) as slide:
        assert slide.mpp == 0.5


def test_resolution_from_ome_xml(tmp_path, noise):
    path = tmp_path / "a.ome.tif"
    with tifffile.TiffWriter(path) as writer:
        size = {f"PhysicalSize{axis}": 300 for axis in "XY"} | {f"PhysicalSize{axis}Unit": "nm" for axis in "XY"}
        writer.write(noise, subifds=1, tile=(128, 128), photometric="rgb", metadata={"axes": "YXS", **size})
        writer.write(noise[::2, ::2], subfiletype=1, tile=(128, 128), photometric="rgb")
    with open_slide(path) as slide:
        assert (slide.mpp, slide.mpp_source) == (pytest.approx(0.3), "OME-XML")
        assert slide.downsamples == (1.0, 2.0)
        np.testing.assert_array_equal(slide.read(0, 0, 200, 150, level=1), noise[::2, ::2])


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_resolution_from_dots_per_inch(tmp_path, noise, name):
    Image.fromarray(noise).save(tmp_path / name, dpi=(50800, 50800))
    with open_slide(tmp_path / name) as slide:
        assert slide.mpp == pytest.approx(0.5, rel=1e-4)
        assert slide.mpp_source.endswith("dpi")


def test_resolution_from_tiff_tags_in_inches(make_slide, noise):
    path = make_slide(noise, mpp=None, tile=None, resolution=(101600, 101600), resolutionunit="INCH")
    with open_slide(path) as slide:
        assert (slide.mpp, slide.mpp_source) == (pytest.approx(0.25), "TIFF resolution tags")


def test_files_that_are_no_slides(tmp_path, shared):
    (tmp_path / "empty.svs").touch()
    (tmp_path / "text.svs").write_text("patient,slide\n" * 100)
    data = (shared / "data/wsi/CMU-1-Small-Region.svs").read_bytes()
    (tmp_path / "truncated.svs").write_bytes(data[: len(data) // 2])
    reasons = {
        tmp_path / "missing.svs": "no such file",
        tmp_path: "a folder",
        tmp_path / "empty.svs": "empty",
        tmp_path / "text.svs": "not an image",
        tmp_path / "truncated.svs": "cannot be opened",
        shared / "data/wsi/broken.svs": "not an image",
        shared / "data/wsi/unopenable.tiff": "COMPRESSION",
    }
    for path, reason in reasons.items():
        with pytest.raises(SlideError, match=reason) as caught:
            open_slide(path, 0.5)
        assert caught.value.what == str(path)
        assert "\n" not in str(caught.value)


def test_a_file_without_permission(make_slide, noise, monkeypatch):
    def refuse(*_: object) -> None:  # root may read every file, so that chmod would not do
        raise PermissionError(errno.EACCES, "Permission denied")

    path = make_slide(noise)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SlideError, match="cannot be read .Permission denied.; check the path and its permissions"):
        open_slide(path)


def test_damage_that_shows_when_reading(tmp_path, shared):
    data = bytearray((shared / "data/wsi/CMU-1-Small-Region.svs").read_bytes())
    data[200_000:900_000] = b"\xaa" * 700_000
    path = tmp_path / "damaged.svs"
    path.write_bytes(data)
    with open_slide(path) as slide, pytest.raises(SlideError, match="cannot be decoded"):
        slide.read(0, 0, *slide.dimensions)


@pytest.mark.parametrize("options", [{}, {"tile": None}], ids=["OpenSlide", "tifffile"])
def test_white_outside_the_slide(make_slide, noise, options):
    with open_slide(make_slide(noise, **options)) as slide:
        window = slide.read(-10, -20, 500, 400)
        np.testing.assert_array_equal(window[20:320, 10:410], noise)
        window[20:320, 10:410] = 255
        assert (window == 255).all()
        assert (slide.read(5000, 5000, 7, 5) == 255).all()
        assert slide.read(5000, 5000, 7, 5).shape == (5, 7, 3)


def test_best_level_never_upsamples(make_slide, noise):
    with open_slide(make_slide(noise, levels=3)) as slide:
        assert slide.downsamples == (1.0, 2.0, 4.0)
        assert [slide.best_level(d) for d in (0.5, 1, 1.9, 2, 3.9, 4, 100)] == [0, 0, 0, 1, 1, 2, 2]


def test_levels_are_read_where_they_lie_on_level_0(make_slide):
    y, x = np.mgrid[:333, :517]
    image = np.dstack([x // 4, y // 4, 0 * x]).astype(np.uint8)
    with open_slide(make_slide(image, levels=3)) as slide:
        for level, step in enumerate((1, 2, 4)):
            for left, top in ((0, 0), (200, 100), (400, 240)):
                want = image[top : top + 10 * step : step, left : left + 10 * step : step]
                got = slide.read(left, top, 10, 10, level)
                assert np.abs(got.astype(int) - want).max() <= 1


def test_thumbnail_is_bounded_and_averages(make_slide, monkeypatch):
    monkeypatch.setattr("genar.slide.open.STRIP_PX", 20_000)  # several strips
    checks = np.where(np.indices((600, 900)).sum(axis=0) % 2, 255, 1).astype(np.uint8)
    with open_slide(make_slide(np.repeat(checks[..., None], 3, axis=2))) as slide:
        thumbnail = slide.thumbnail(150)
        assert thumbnail.shape == (100, 150, 3)
        assert np.abs(thumbnail.astype(int) - 128).max() <= 1
        assert slide.thumbnail(5000).shape == (600, 900, 3)


def _read(slide):
    return slide.read(10, 10, 50, 50)


def test_a_slide_travels_to_another_process(make_slide, noise):
    with open_slide(make_slide(noise)) as slide:
        here = _read(slide)
        with pickle.loads(pickle.dumps(slide)) as copy:
            assert copy == slide
            np.testing.assert_array_equal(_read(copy), here)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            np.testing.assert_array_equal(pool.apply(_read_path, (slide,)), here)


def _read_path(slide):
    with slide:
        return _read(slide)


def test_a_handle_is_not_shared_across_a_fork(make_slide, noise, monkeypatch):
    with open_slide(make_slide(noise)) as slide:
        parents = slide.backend
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as a forked child sees it
        assert slide.backend is not parents
        np.testing.assert_array_equal(_read(slide), noise[10:60, 10:60])
        parents.close()


def test_sha256_is_that_of_the_file(make_slide, noise):
    path = make_slide(noise)
    with open_slide(path) as slide:
        assert slide.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
