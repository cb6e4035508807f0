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
        return TileDataset(slide, np.array([centre], dtype=float), tile_um, input_px)[0].numpy()


def smooth(side, sigma, seed=0):
    noise = np.random.default_rng(seed).normal(0, 1, (side, side, 3))
    noise = ndimage.gaussian_filter(noise, (sigma, sigma, 0))
    return (128 + 40 * noise / noise.std()).clip(0, 255).astype(np.uint8)


def test_a_tile_at_native_resolution_is_the_image_itself(make_slide):
    image = smooth(600, 2)
    got = tile(make_slide(image), (300, 250))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, image[194:306, 244:356].transpose(2, 0, 1))


@pytest.mark.parametrize(("dx", "dy"), [(0.25, 0.0), (0.5, -0.5), (-0.4, 0.3)])
def test_a_fraction_of_a_pixel_shifts_the_tile_by_it(make_slide, dx, dy):
    path = make_slide(smooth(600, 4))
    start, moved = (tile(path, centre).astype(float) for centre in ((300, 300), (300 + dx, 300 + dy)))
    along_y, along_x = np.gradient(start, axis=(1, 2))
    gradients = np.column_stack([along_x.ravel(), along_y.ravel()])
    shift = np.linalg.lstsq(gradients, (moved - start).ravel(), rcond=None)[0]
    np.testing.assert_allclose(shift, [dx, dy], atol=0.03)


def test_a_tile_is_as_the_whole_image_resampled(make_slide):
    """The window that is read must not show in the result, even where the filter reaches far."""
    image = smooth(1200, 3)
    got = tile(make_slide(image, mpp=0.1), (600.3, 599.6), tile_um=100.0, input_px=112).astype(int)
    box = (100.3, 99.6, 1100.3, 1099.6)
    want = np.asarray(Image.fromarray(image).resize((112, 112), Image.Resampling.BICUBIC, box=box)).astype(int)
    assert np.abs(got - want.transpose(2, 0, 1)).max() <= 1


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
        assert [TileDataset(slide, centres, um, 112).level for um in (28.0, 55.0, 56.0, 150.0)] == [0, 0, 1, 2]


def test_a_tile_is_white_outside_the_slide(make_slide):
    path = make_slide(np.full((600, 600, 3), 100, dtype=np.uint8))
    got = tile(path, (0, 300))
    assert (got[:, :, :54] == 255).all()
    assert (got[:, :, 58:] == 100).all()
    assert (tile(path, (-2000, 300)) == 255).all()


@pytest.mark.parametrize("options", [{}, {"tile": None}], ids=["OpenSlide", "tifffile"])
def test_worker_processes_read_the_same_tiles(make_slide, options):
    with open_slide(make_slide(smooth(600, 2), **options)) as slide:
        tiles = TileDataset(slide, np.array([[300.5, 300], [200, 310], [10, 10]]), 56.0, 112)
        assert len(tiles) == 3
        here = torch.stack([tiles[i] for i in range(3)])
        assert here.shape == (3, 3, 112, 112)
        (there,) = DataLoader(tiles, batch_size=3, num_workers=1, multiprocessing_context="spawn")
        assert torch.equal(here, there)
