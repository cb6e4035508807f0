"""Tiles cut from regions: the same whatever the region, and few pixels in memory at once."""

import functools

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image
from scipy import ndimage

from genar.slide import regions
from genar.slide.open import Slide, open_slide
from genar.slide.regions import Grid
from genar.slide.tiles import TileDataset

SPOTS = np.random.default_rng(0).uniform(-30, 1130, (150, 2))


@functools.cache
def picture(side=1100):
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(0, 1, (side, side, 3)), (1.5, 1.5, 0))
    return (128 + 40 * noise / noise.std()).clip(0, 255).astype(np.uint8)


def zarr_store(path, image):
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("0", data=np.moveaxis(image, 2, 0), chunks=(3, 200, 300))
    axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [{"path": "0"}]}]
    return path


@pytest.fixture(params=["OpenSlide", "strips", "zarr", "png"])
def slide(request, make_slide, tmp_path):
    """One picture behind every backend."""
    if request.param == "zarr":
        path = zarr_store(tmp_path / "a.zarr", picture())
    elif request.param == "png":
        path = tmp_path / "a.png"
        Image.fromarray(picture()).save(path)
    else:
        options = {"compression": "zlib"} | ({"tile": None, "rowsperstrip": 16} if request.param == "strips" else {})
        path = make_slide(picture(), **options)
    with open_slide(path, 0.5) as slide:
        yield slide


@pytest.fixture
def reads(monkeypatch):
    """Note the size of each read, in pixels of the level."""
    noted = []
    read = Slide.read_level

    def noting(self, level, x, y, width, height):
        noted.append((width, height))
        return read(self, level, x, y, width, height)

    monkeypatch.setattr(Slide, "read_level", noting)
    return noted


@pytest.mark.parametrize("tile_um", [28.0, 20.0, 41.3, 250.0], ids=["as it is", "up", "down", "shrunk"])
def test_a_tile_is_the_same_whatever_is_read_with_it(slide, read_all, monkeypatch, tile_um):
    monkeypatch.setattr(regions, "CELL", 300)
    monkeypatch.setattr(regions, "LARGEST_CELL", 300 * 1100)
    tiles = TileDataset(slide, SPOTS, tile_um, 56)
    together = read_all(tiles)
    assert 3 < len(tiles) < len(SPOTS)
    assert (tiles.grid.shrink > 1) == (tile_um == 250.0)
    for spot in range(0, len(SPOTS), 7):
        alone = TileDataset(slide, SPOTS[spot : spot + 1], tile_um, 56)[0][0]
        np.testing.assert_array_equal(together[spot], alone)
    np.testing.assert_array_equal(read_all(TileDataset(slide, SPOTS[::-1], tile_um, 56)), together.flip(0))


def test_a_tile_is_what_one_read_gives(slide, read_all):
    tiles = TileDataset(slide, SPOTS, 28.0, 56)
    assert tiles.grid.steps == (1, 1)
    for tile, (x, y) in zip(read_all(tiles), np.floor(SPOTS - 27.5).astype(int).tolist(), strict=True):
        np.testing.assert_array_equal(tile.permute(1, 2, 0), slide.read(x, y, 56, 56))


def test_white_outside(slide, read_all):
    centres = np.array([[0.0, 550.0], [1100.0, 1100.0], [-900.0, 5.0], [5e6, 5e6]])
    tiles = read_all(TileDataset(slide, centres, 41.3, 56))
    assert (tiles[0][:, :, :26] == 255).all()
    assert (tiles[1][:, 31:, 31:] == 255).all()
    assert (tiles[2:] == 255).all()
    assert (tiles[0][:, :, 30:] != 255).float().mean() > 0.9


@pytest.mark.parametrize("unit", [0.013, 0.3, 0.9979, 1.0022, 1.0, 1.3, 2.72, 7.1, 178.5])
def test_a_tile_far_out_is_as_large_and_as_near_to_its_spot_as_any(make_slide, unit):
    """The grid is rounded, its places are not counted in rounded steps of what it should be."""
    with open_slide(make_slide(picture())) as slide:
        grid = Grid.of(slide, unit, 224)
    centres = np.random.default_rng(0).uniform(0, 2e5, (100, 2))
    placed = (grid.corners(centres, 224) + 112) * grid.unit
    assert (np.abs(placed - centres) <= np.array(grid.unit) / 2 + 1e-6).all()
    np.testing.assert_allclose(grid.unit, unit, rtol=0.5 / 224)
    assert (grid.steps == (1, 1)) == (abs(unit - 1) < 0.5 / 224)
    assert max(grid.steps) < regions.SHRUNK * 2


def test_a_levels_own_scale_counts(make_slide):
    """A level of 1100 px that is 367 wide has pixels of 2.9973, not 3."""
    image = picture()
    with tifffile.TiffWriter(path := make_slide(image).with_name("p.tif")) as writer:
        for level, pixels in enumerate((image, image[::3, ::3])):
            options = {"tile": (128, 128), "photometric": "rgb", "metadata": None, "subfiletype": int(level > 0)}
            writer.write(pixels, resolution=(2e4 / 3**level,) * 2, resolutionunit="CENTIMETER", **options)
    with open_slide(path) as slide:
        tiles = TileDataset(slide, np.array([[550.0, 550.0], [1099.0, 1099.0]]), 3 * 28.0, 56)
        assert tiles.grid.level == 1
        assert tiles.grid.steps == (1, 1)
        assert tiles.grid.unit == (1100 / 367, 1100 / 367)
        corner = round(1099 / (1100 / 367) - 28)
        want = slide.read_level(1, corner, corner, 56, 56)
        np.testing.assert_array_equal(tiles[len(tiles) - 1][-1].permute(1, 2, 0), want)


def test_spots_far_apart_read_little(make_slide, read_all, reads):
    centres = np.array([[100.0, 100.0], [1000.0, 1000.0], [120.0, 980.0]])
    with open_slide(make_slide(picture(), tile=(64, 64))) as slide:
        read_all(TileDataset(slide, centres, 28.0, 56))
    assert reads == [(56, 56)] * 3


@pytest.mark.parametrize("options", [{"tile": (64, 64)}, {"tile": None, "rowsperstrip": 8}], ids=["tiles", "strips"])
def test_a_huge_tile_is_read_in_pieces(make_slide, monkeypatch, reads, options):
    monkeypatch.setattr(regions, "CELL", 256)
    monkeypatch.setattr(regions, "LARGEST_CELL", 256 * 256)
    image = picture()
    with open_slide(make_slide(image, compression="zlib", **options)) as slide:
        tiles = TileDataset(slide, np.array([[550.0, 550.0]]), 500.0, 28)
        tile = tiles[0][0].numpy().astype(int)
    assert max(width * height for width, height in reads) <= 1200 * 60
    assert sum(width * height for width, height in reads) < 2 * 1100**2
    left, right = (tiles.corners[0, 0] * tiles.grid.unit[0], (tiles.corners[0, 0] + 28) * tiles.grid.unit[0])
    box = (left, left, right, right)
    want = np.asarray(Image.fromarray(image).resize((28, 28), Image.Resampling.BICUBIC, box=box)).astype(int)
    assert np.abs(tile - want.transpose(2, 0, 1))[:, 1:-1, 1:-1].max() <= 3


def test_regions_are_bounded_whatever_the_pitch(make_slide, read_all, reads):
    image = np.broadcast_to(np.uint8(90), (3000, 3000, 3))
    for pitch in (11.0, 150.0, 700.0):
        centres = np.stack(np.meshgrid(*[np.arange(1400, 1700, pitch)] * 2), axis=-1).reshape(-1, 2)
        with open_slide(make_slide(image, compression="zlib")) as slide:
            tiles = TileDataset(slide, centres, 112.0, 224)
            assert max(map(len, tiles.chunks)) <= 256
            assert (read_all(tiles) == 90).all()
    assert max(width * height for width, height in reads) <= (2048 + 224) ** 2


def test_a_real_section(shared, read_all):
    """Spots of C2 in chunks, as the image itself has them."""
    with open_slide(shared / "data/her2st/ST-imgs/C/C2/5714_HE_BT_C2.jpg", 0.687) as slide:
        centres = np.random.default_rng(0).uniform(500, 9000, (60, 2))
        got = read_all(TileDataset(slide, centres, 154.0, 224))
        for tile, (x, y) in zip(got, np.floor(centres - 111.5).astype(int).tolist(), strict=True):
            np.testing.assert_array_equal(tile.permute(1, 2, 0), slide.backend.pixels[y : y + 224, x : x + 224])


def test_nor_does_it_matter_between_levels_that_do_not_divide_evenly(tmp_path, read_all):
    """OpenSlide interpolates in such a level, by a shift that depends on where a region starts."""
    image = np.random.default_rng(0).integers(0, 255, (3001, 4003, 3), dtype=np.uint8)
    with tifffile.TiffWriter(tmp_path / "odd.tif") as writer:
        for step, options in ((1, {"resolution": (40000, 40000), "resolutionunit": "CENTIMETER"}), (2, {})):
            size = image.shape[1] // step, image.shape[0] // step
            level = np.asarray(Image.fromarray(image).resize(size))
            writer.write(
                level, tile=(256, 256), photometric="rgb", compression="zlib", subfiletype=int(step > 1), metadata=None,
                **options,
            )  # fmt: skip
    spots = np.random.default_rng(1).uniform(300, 2700, (30, 2))
    with open_slide(tmp_path / "odd.tif") as slide:
        assert slide.downsamples[1] != 2
        together = read_all(TileDataset(slide, spots, 56.0, 112))
        for spot, tile in zip(spots, together, strict=True):
            np.testing.assert_array_equal(tile, TileDataset(slide, spot[None], 56.0, 112)[0][0])
