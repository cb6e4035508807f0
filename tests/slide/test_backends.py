import logging

import numpy as np
import pytest
import tifffile
from PIL import Image

from genar.errors import SlideError
from genar.slide import backends, tiff
from genar.slide.open import open_slide

RANDOM = np.random.default_rng(0)
RGB = RANDOM.integers(0, 255, (300, 400, 3), dtype=np.uint8)
GREY = RGB[..., 0]
WIDE = RGB.astype(np.uint16) * 256 + 7  # bytes that differ, so that their order shows
AS_GREY = np.repeat(GREY[..., None], 3, axis=2)

LAYOUTS = {
    "strips": (RGB, RGB, {}),
    "deflate": (RGB, RGB, {"compression": "zlib"}),
    "LZW": (RGB, RGB, {"compression": "lzw"}),
    "one strip": (RGB, RGB, {"compression": "zlib", "rowsperstrip": 300}),
    "BigTIFF": (RGB, RGB, {"bigtiff": True}),
    "grey": (GREY, AS_GREY, {}),
    "white is zero": (255 - GREY, AS_GREY, {"photometric": "miniswhite"}),
    "16-bit grey": (WIDE[..., 0], AS_GREY, {}),
    "16-bit RGB": (WIDE, RGB, {"photometric": "rgb"}),
    "16-bit, big-endian": (WIDE, RGB, {"photometric": "rgb", "byteorder": ">"}),
    "planes": (np.moveaxis(RGB, 2, 0), RGB, {"photometric": "rgb", "planarconfig": "separate"}),
    "tiles": (RGB, RGB, {"tile": (128, 128)}),
    "tiles that OpenSlide refuses": (RGB, RGB, {"tile": (128, 128), "compression": "jpegxl"}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_tiff_gives_the_same_pixels(tmp_path, layout):
    written, want, options = LAYOUTS[layout]
    if options.get("compression") == "jpegxl":
        options = {**options, "compressionargs": {"lossless": True}}
    tifffile.imwrite(tmp_path / "a.tif", written, **options)
    with open_slide(tmp_path / "a.tif", 0.5) as slide:
        assert slide.dimensions == (400, 300)
        np.testing.assert_array_equal(slide.read(0, 0, 400, 300), want)
        np.testing.assert_array_equal(slide.read(130, 77, 60, 50), want[77:127, 130:190])


def test_a_large_chunk_is_decoded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(tiff, "LARGEST_CHUNK", 1000)
    tifffile.imwrite(tmp_path / "a.tif", RGB, compression="zlib", rowsperstrip=300)
    with open_slide(tmp_path / "a.tif", 0.5) as slide:
        assert isinstance(slide.backend.arrays[0], np.ndarray)
        np.testing.assert_array_equal(slide.read(5, 6, 10, 10), RGB[6:16, 5:15])


@pytest.mark.parametrize("suffix", ["tif", "png"])
def test_transparent_is_white(tmp_path, suffix):
    alpha = np.zeros((300, 400), dtype=np.uint8)
    alpha[:, 200:] = 255
    rgba = np.dstack([RGB, alpha])
    path = tmp_path / f"a.{suffix}"
    if suffix == "png":
        Image.fromarray(rgba).save(path)
    else:
        tifffile.imwrite(path, rgba, photometric="rgb", extrasamples=["unassalpha"])
    with open_slide(path, 0.5) as slide:
        pixels = slide.read(0, 0, 400, 300)
        assert (pixels[:, :200] == 255).all()
        np.testing.assert_array_equal(pixels[:, 200:], RGB[:, 200:])


def test_an_image_of_any_size_up_to_the_limit_is_decoded(tmp_path, monkeypatch):
    Image.fromarray(RGB).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow's own limit, lower than ours
    with open_slide(tmp_path / "a.png", 0.5) as slide:
        np.testing.assert_array_equal(slide.read(0, 0, 400, 300), RGB)
    assert Image.MAX_IMAGE_PIXELS == 1000


def test_an_image_above_the_limit_is_refused_with_the_way_out(tmp_path, monkeypatch):
    Image.fromarray(RGB).save(tmp_path / "a.jpg")
    monkeypatch.setattr(backends, "LARGEST_DECODED", 1000)
    with pytest.raises(SlideError, match="400 x 300 px are too many.*vips tiffsave a.jpg out.tif --tile --pyramid"):
        open_slide(tmp_path / "a.jpg", 0.5)


def test_pictures_that_are_not_histology_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "float.tif", RGB.astype(np.float32), photometric="rgb")
    with pytest.raises(SlideError, match="float32.*convert it to 8-bit RGB"):
        open_slide(tmp_path / "float.tif", 0.5)
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((5, 64, 64), dtype=np.uint8), photometric="minisblack")
    with pytest.raises(SlideError, match="its axes are"):
        open_slide(tmp_path / "stack.tif", 0.5)


@pytest.mark.parametrize("keep", [0.3, 0.9])
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "plain.tif", "lzw.tif"])
def test_truncated_files(tmp_path, name, keep):
    path = tmp_path / name
    if name.endswith("tif"):
        tifffile.imwrite(path, RGB, compression="lzw" if name.startswith("lzw") else None)
    else:
        Image.fromarray(RGB).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(SlideError, match="damaged"), open_slide(path, 0.5) as slide:
        slide.read(0, 0, *slide.dimensions)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "plain.tif", "deflate.tif", "ome.tif"])
def test_damaged_headers_raise_nothing_but_slide_errors(tmp_path, caplog, name):
    path = tmp_path / name
    if name.endswith("tif"):
        compression = "zlib" if name.startswith("deflate") else None
        tifffile.imwrite(path, RGB, compression=compression, ome=name.startswith("ome"))
    else:
        Image.fromarray(RGB).save(path)
    data = path.read_bytes()
    refused = 0
    caplog.set_level(logging.CRITICAL, logger="tifffile")
    for seed in range(40):
        random = np.random.default_rng(seed)
        damaged = bytearray(data)
        for at in random.integers(0, 300, 20):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        try:
            with open_slide(path, 0.5) as slide:
                slide.read(0, 0, 50, 50)
        except SlideError:
            refused += 1
    assert refused > 10
