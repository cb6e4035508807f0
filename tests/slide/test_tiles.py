import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from torch.utils.data import DataLoader

from genar.slide.open import open_slide
from genar.slide.tiles import TileDataset


def tile(path, centre, *, tile_um=56.0, input_px=112, mpp=None):
    with open_slide(path, mpp) as slide:
        return TileDataset(slide, np.array([centre], dtype=float), tile_um, input_px)[0][0].numpy()


def smooth(side, sigma, seed=0):
    noise = np.random.default_rng(seed).normal(0, 1, (side, side, 3))
    noise = ndimage.gaussian_filter(noise, (sigma, sigma, 0))
    return (128 + 40 * noise / noise.std()).clip(0, 255).astype(np.uint8)


def test_a_tile_at_native_resolution_is_the_image_itself(make_slide):
    image = smooth(600, 2)
    got = tile(make_slide(image), (300, 250))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, image[194:306, 244:356].transpose(2, 0, 1))


@pytest.mark.parametrize(("dx", "dy"), [(0.25, 0.0), (0.6, -0.7), (-0.4, 3.3)])
def test_a_tile_is_moved_by_whole_pixels(make_slide, dx, dy):
    image = smooth(600, 4)
    got = tile(make_slide(image), (300 + dx, 300 + dy))
    x, y = round(244 + dx), round(244 + dy)
    np.testing.assert_array_equal(got, image[y : y + 112, x : x + 112].transpose(2, 0, 1))


@pytest.mark.parametrize(("tile_um", "shrink", "most"), [(26.3, 1, 1), (100.0, 2, 3)])
def test_a_tile_is_as_the_whole_image_resampled(make_slide, tile_um, shrink, most):
    """The window that is read must not show in the result, even where the filter reaches far."""
    image = smooth(1200, 3)
    with open_slide(make_slide(image, mpp=0.1)) as slide:
        tiles = TileDataset(slide, np.array([[600.3, 599.6]]), tile_um, 112)
        got = tiles[0][0].numpy().astype(int)
    grid = tiles.grid
    assert grid.shrink == shrink
    box = [*(tiles.corners[0] * grid.unit).tolist(), *((tiles.corners[0] + 112) * grid.unit).tolist()]
    np.testing.assert_allclose(box, [c + d * tile_um / 0.2 for d in (-1, 1) for c in (600.3, 599.6)], atol=5)
    want = np.asarray(Image.fromarray(image).resize((112, 112), Image.Resampling.BICUBIC, box=box)).astype(int)
    assert np.abs(got - want.transpose(2, 0, 1)).max() <= most


@pytest.mark.parametrize("levels", [1, 3])
def test_the_same_tissue_at_two_resolutions_gives_nearly_the_same_tile(make_slide, levels):
    fine = smooth(1600, 6)
    coarse = np.asarray(Image.fromarray(fine).resize((800, 800), Image.Resampling.BOX))
    at_025 = tile(make_slide(fine, mpp=0.25, levels=levels, name="fine.tif"), (700.5, 820.0)).astype(int)
    at_050 = tile(make_slide(coarse, mpp=0.5, name="coarse.tif"), (350.25, 410.0)).astype(int)
    assert np.abs(at_025 - at_050).mean() < (1.0 if levels == 1 else 4.0)  # levels here are not averaged: 1/4 px off
    assert np.abs(at_025 - np.roll(at_050, 4, axis=2)).mean() > 10


def test_the_coarsest_level_that_is_fine_enough_is_read(make_slide):
    with open_slide(make_slide(smooth(1600, 6), mpp=0.25, levels=3)) as slide:
        centres = np.array([[800.0, 800.0]])
        assert [TileDataset(slide, centres, um, 112).grid.level for um in (28.0, 55.0, 56.0, 150.0)] == [0, 0, 1, 2]


def test_a_tile_is_white_outside_the_slide(make_slide):
    path = make_slide(np.full((600, 600, 3), 100, dtype=np.uint8))
    got = tile(path, (0, 300))
    assert (got[:, :, :54] == 255).all()
    assert (got[:, :, 58:] == 100).all()
    assert (tile(path, (-2000, 300)) == 255).all()


@pytest.mark.parametrize("options", [{}, {"tile": None}], ids=["OpenSlide", "tifffile"])
def test_worker_processes_read_the_same_tiles(make_slide, options):
    centres = np.array([[300.5, 300], [200, 310], [10, 10], [590, 20]])
    with open_slide(make_slide(smooth(600, 2), **options)) as slide:
        tiles = TileDataset(slide, centres, 56.0, 112)
        here = [tiles[k] for k in range(len(tiles))]
        assert len(here) > 1
        there = list(DataLoader(tiles, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
        assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize(("mpp", "warned"), [(0.55, False), (0.7, True)])
def test_a_coarse_slide_is_resampled_up_with_a_warning(make_slide, caplog, mpp, warned):
    image = smooth(600, 4)
    with caplog.at_level("WARNING", "genar"), open_slide(make_slide(image, mpp=mpp)) as slide:
        tiles = TileDataset(slide, np.array([[300.0, 300], [100, 100]]), 56.0, 112)
        got = tiles[1][0] if len(tiles) > 1 else tiles[0][1]
    assert got.shape == (3, 112, 112)
    messages = [record.getMessage() for record in caplog.records]
    want = f"{slide.path} has 0.7 µm/px, coarser than the 0.5 of the encoder's input: its tiles are resampled up"
    assert [message.startswith(want) for message in messages] == [True] * warned
