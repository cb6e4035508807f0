"""JPEG blocks decoded directly: OpenSlide's pixels, and OpenSlide's opinion of damage."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openslide
import pytest
import tifffile

from genar.errors import SlideError
from genar.slide.open import open_slide


@pytest.fixture(scope="module")
def tissue(shared):
    """A piece of C2 whose sides are no multiples of a block."""
    with open_slide(shared / "data/her2st/ST-imgs/C/C2/5714_HE_BT_C2.jpg", 0.687) as slide:
        return slide.read(4000, 4000, 777, 611).copy()


def jpeg(make_slide, pixels, *, quality=80, subsampling=(2, 2), **options):
    arguments = {"level": quality, "subsampling": subsampling}
    return make_slide(pixels, compression="jpeg", compressionargs=arguments, **options)


def openslides(path, x, y, width, height):
    with openslide.OpenSlide(path) as slide:
        return np.asarray(slide.read_region((x, y), 0, (width, height)).convert("RGB"))


@pytest.mark.parametrize("subsampling", [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("tile", [(256, 256), (240, 176)])
def test_pixels_are_openslides(make_slide, tissue, subsampling, tile):
    path = jpeg(make_slide, tissue, subsampling=subsampling, tile=tile)
    with open_slide(path, 0.687) as slide:
        assert slide.backend.jpeg is not None
        for window in ((0, 0, 777, 611), (255, 255, 2, 2), (301, 7, 300, 604), (512, 512, 200, 50)):
            np.testing.assert_array_equal(slide.read(*window), openslides(path, *window))


def test_a_scanned_slides_pixels_are_openslides(shared):
    """Aperio's blocks share their tables, and are in RGB."""
    path = shared / "data/wsi/CMU-1-Small-Region.svs"
    with open_slide(path) as slide:
        assert slide.backend.jpeg is not None
        whole = slide.read(0, 0, *slide.dimensions)
        assert whole.std() > 20
        np.testing.assert_array_equal(whole, openslides(path, 0, 0, *slide.dimensions))


def test_a_coarse_level_is_read_without_a_shift(make_slide, tissue):
    """OpenSlide counts in level-0 pixels, and blends neighbours where these do not divide evenly."""
    path = jpeg(make_slide, tissue, levels=2, quality=95)
    with open_slide(path, 0.687) as slide:
        level = tissue[::2, ::2].astype(int)
        whole = slide.read_level(1, 0, 0, 389, 306)
        assert np.abs(whole - level).mean() < 4
        np.testing.assert_array_equal(slide.read_level(1, 101, 57, 200, 211), whole[57:268, 101:301])


@pytest.mark.parametrize("compression", ["zlib", "lzw"])
def test_other_compressions_are_left_to_openslide(make_slide, tissue, compression):
    path = make_slide(tissue, compression=compression)
    with open_slide(path, 0.687) as slide:
        assert slide.backend.jpeg is None
        np.testing.assert_array_equal(slide.read(30, 40, 500, 400), openslides(path, 30, 40, 500, 400))


def test_a_slide_with_a_block_missing_is_left_to_openslide(make_slide, tissue):
    path = jpeg(make_slide, tissue)
    with tifffile.TiffFile(path, mode="r+b") as file:
        tag = file.pages.first.tags["TileByteCounts"]
        tag.overwrite((0, *tag.value[1:]))
    with open_slide(path, 0.687) as slide:
        assert slide.backend.jpeg is None


def test_blocks_of_other_pixels_than_the_tags_say_are_left_to_openslide(make_slide, tissue, monkeypatch):
    path = jpeg(make_slide, tissue)
    monkeypatch.setattr("genar.slide.blocks.simplejpeg.decode_jpeg", lambda _, buffer, **options: buffer)
    with open_slide(path, 0.687) as slide:
        assert slide.backend.jpeg is None


@pytest.mark.parametrize("kind", ["flipped", "zeroed", "another size"])
def test_a_damaged_block_is_an_error(make_slide, tissue, kind):
    path = jpeg(make_slide, tissue)
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        number = int(np.argsort(page.databytecounts)[0])  # not the one that is tried when the slide is opened
        offset, length = page.dataoffsets[number], page.databytecounts[number]
    raw = bytearray(path.read_bytes())
    block = raw[offset : offset + length]
    if kind == "flipped":
        block[length // 2 : length // 2 + 4] = b"\xff\xd9\x12\xff"
    elif kind == "another size":
        frame = block.index(b"\xff\xc0")
        block[frame + 5 : frame + 9] = (128).to_bytes(2, "big") * 2
    else:
        block[length // 2 :] = bytes(length - length // 2)
    raw[offset : offset + length] = block
    path.write_bytes(raw)
    with open_slide(path, 0.687) as slide:
        assert slide.backend.jpeg is not None
        with pytest.raises(SlideError, match=r"s\.tif: its pixels cannot be decoded \(.+\); copy or export"):
            slide.read(0, 0, *slide.dimensions)


def test_threads_may_share_a_slide(make_slide):
    image = np.random.default_rng(0).integers(0, 255, (1024, 1024, 3), dtype=np.uint8)
    with open_slide(make_slide(image, compression="jpeg")) as slide:
        assert slide.backend.jpeg is not None
        corners = [(x, y) for x in range(0, 1024, 128) for y in range(0, 1024, 128)] * 4
        alone = [slide.read(x, y, 128, 128) for x, y in corners]
        with ThreadPoolExecutor(8) as pool:
            shared = list(pool.map(lambda corner: slide.read(*corner, 128, 128), corners))
    np.testing.assert_array_equal(shared, alone)
