import numpy as np
import pandas as pd
import pytest
import torch
from skimage.color import hed2rgb
from torch.utils.data import DataLoader, Dataset

from genar.slide.augment import STRENGTH, AugmentedTiles, augment, stain, symmetry
from genar.slide.open import open_slide
from genar.slide.tiles import TileDataset


@pytest.fixture
def tile():
    return np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


def test_the_eight_symmetries_of_a_known_square():
    square = np.array([[1, 2], [3, 4]], dtype=np.uint8)[..., None].repeat(3, axis=2)
    seen = [symmetry(square, code)[..., 0].tolist() for code in range(8)]
    assert seen == [
        [[1, 2], [3, 4]],
        [[2, 4], [1, 3]],
        [[4, 3], [2, 1]],
        [[3, 1], [4, 2]],
        [[2, 1], [4, 3]],
        [[4, 2], [3, 1]],
        [[3, 4], [1, 2]],
        [[1, 3], [2, 4]],
    ]


def test_nothing_to_change_changes_nothing():
    every_value = np.arange(256, dtype=np.uint8)
    grid = np.stack(np.meshgrid(every_value[::5], every_value[::5], every_value[::5]), axis=-1).reshape(-1, 52, 3)
    np.testing.assert_array_equal(stain(grid, np.ones(3), np.zeros(3)), grid)


def test_one_stain_more_is_that_stain_in_the_picture():
    """As scikit-image paints it, in a unit that is 6 times the natural logarithm of 10."""
    white = np.full((4, 4, 3), 255, dtype=np.uint8)
    for which in range(3):
        shift = np.eye(3)[which] * 0.4
        painted = hed2rgb(np.broadcast_to(shift / np.log(1e6), (4, 4, 3)))
        np.testing.assert_allclose(stain(white, np.ones(3), shift), painted * 255, atol=1.5)


def test_a_stain_scaled_down_makes_the_tissue_paler(tile):
    assert stain(tile, np.full(3, 0.8), np.zeros(3)).mean() > tile.mean() + 5
    assert stain(tile, np.full(3, 1.2), np.zeros(3)).mean() < tile.mean() - 5


def test_a_view_depends_on_seed_view_and_spot_alone(tile):
    first = augment(tile, seed=3, view=1, index=7)
    np.testing.assert_array_equal(first, augment(tile, seed=3, view=1, index=7))
    for other in ({"seed": 4}, {"view": 2}, {"index": 8}):
        assert (first != augment(tile, **({"seed": 3, "view": 1, "index": 7} | other))).any()
    assert first.dtype == np.uint8
    assert first.shape == tile.shape


def test_views_are_spread_evenly_over_symmetries_and_strength(tile):
    seen = [augment(tile, seed=0, view=0, index=i, strength=0) for i in range(400)]
    codes = [next(code for code in range(8) if (symmetry(tile, code) == view).all()) for view in seen]
    assert np.bincount(codes, minlength=8).min() > 25
    grey = np.full((1, 1, 3), 128, dtype=np.uint8)
    for strength in (STRENGTH, 0.2):
        density = [-np.log(augment(grey, seed=0, view=0, index=i, strength=strength) / 255) for i in range(400)]
        spread = np.ptp(np.concatenate(density), axis=(0, 1))
        assert (spread > 2 * strength).all()
        assert (spread < 6 * strength).all()


class Repeated(Dataset[torch.Tensor]):
    """The same tile for five spots, in the chunks that are given."""

    def __init__(self, tile, chunks):
        self.tile, self.chunks = torch.from_numpy(tile).permute(2, 0, 1), [np.array(spots) for spots in chunks]

    def __getitem__(self, index):
        return self.tile.repeat(len(self.chunks[index]), 1, 1, 1)


@pytest.mark.parametrize("chunks", [[[0, 1, 2, 3, 4]], [[4], [2, 0], [1, 3]]])
def test_chunks_and_workers_do_not_matter(tile, chunks, read_all):
    views = AugmentedTiles(Repeated(tile, chunks), seed=1, view=2)
    assert len(views) == len(chunks)
    here = read_all(views)
    assert here.dtype == torch.uint8
    for spot in range(5):
        np.testing.assert_array_equal(here[spot].permute(1, 2, 0), augment(tile, seed=1, view=2, index=spot))
    there = torch.cat(list(DataLoader(views, batch_size=None, num_workers=2)))
    assert torch.equal(there, here[np.concatenate(chunks)])


def test_the_default_keeps_real_tissue_plausible(shared, read_all):
    """Colours move by what separates two stainings, and not so far that glass is no longer the brightest."""
    spots = pd.read_table(shared / "data/her2st/ST-spotfiles/C2_selection.tsv")[["pixel_x", "pixel_y"]].to_numpy()
    image = shared / "data/her2st/ST-imgs/C/C2/5714_HE_BT_C2.jpg"
    with open_slide(image, 0.687) as slide:
        tiles = TileDataset(slide, spots[::40], 154.0, 224)
        plain = read_all(tiles).numpy().astype(float)
        views = read_all(AugmentedTiles(tiles, seed=0, view=0)).numpy().astype(float)
    moved = np.abs(views.mean(axis=(2, 3)) - plain.mean(axis=(2, 3)))
    assert 2 < moved.mean() < 12
    assert moved.max() < 30
    for before, after in zip(plain, views, strict=True):
        correlation = np.corrcoef(np.sort(before.mean(axis=0).ravel()), np.sort(after.mean(axis=0).ravel()))[0, 1]
        assert correlation > 0.99
