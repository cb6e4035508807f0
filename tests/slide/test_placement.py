"""Spots and tiles lie where they should on the slide."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from genar.slide.lattice import lattice, lay
from genar.slide.open import open_slide
from genar.slide.tiles import TileDataset


@pytest.mark.parametrize(
    ("kind", "pitch", "distance"), [("visium", None, 100), ("st", None, 200), ("grid", 37.5, 37.5)]
)
def test_every_spots_two_nearest_neighbours_are_a_pitch_away(kind, pitch, distance):
    centres, row, col = lay(lattice(kind, pitch), 2130.0, 1470.0)
    assert len(centres) > 50
    np.testing.assert_allclose(cKDTree(centres).query(centres, k=3)[0][:, 1:], distance)
    assert row.dtype == col.dtype == np.int64
    assert (np.diff(row) >= 0).all()


@pytest.mark.parametrize("kind", ["st", "grid"])
def test_a_square_lattice_has_four_neighbours(kind):
    centres, _, _ = lay(lattice(kind, 200 if kind == "grid" else None), 3000.0, 3000.0)
    inner = (np.abs(centres - 1500) < 1000).all(axis=1)
    distance = cKDTree(centres).query(centres[inner], k=6)[0][:, 1:]
    np.testing.assert_allclose(distance[:, :4], 200)
    np.testing.assert_allclose(distance[:, 4], 200 * np.sqrt(2))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("tile_um", [28.7, 41.3, 63.1])
def test_the_mean_of_a_ramp_follows_the_centre(make_slide, read_all, axis, tile_um):
    """On a ramp of one grey level a pixel, a tile's mean is the ramp's at its centre, to half a pixel of the tile."""
    values = np.arange(256, dtype=np.uint8)
    ramp = np.broadcast_to(values if axis == 0 else values[:, None], (256, 256))
    centres = np.full((5, 2), 128.0)
    centres[:, axis] += [0, 0.25, 0.5, -0.75, 10.4]
    with open_slide(make_slide(np.repeat(ramp[..., None], 3, axis=2)), 0.5) as slide:
        tiles = TileDataset(slide, centres, tile_um, 96)
        means = read_all(tiles).numpy().mean(axis=(1, 2, 3))
    unit = tiles.grid.unit[axis]
    placed = (tiles.corners[:, axis] + 48) * unit
    assert unit == pytest.approx(tile_um / 0.5 / 96, rel=0.001)
    assert (np.abs(placed - centres[:, axis]) <= unit / 2 + 1e-9).all()
    # pixel i has value i at its middle, i + 0.5; the sides are odd so that rounding to grey levels averages out
    np.testing.assert_allclose(means, placed - 0.5, atol=0.12)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bottom", [False, True])
def test_three_quarters_of_a_tile_on_a_corner_are_white(make_slide, right, bottom):
    with open_slide(make_slide(np.full((300, 400, 3), 90, dtype=np.uint8)), 0.5) as slide:
        corner = np.array([[400.0 * right, 300.0 * bottom]])
        tile = TileDataset(slide, corner, 56.0, 112)[0][0].numpy()
    want = np.full((112, 112), 255)
    want[slice(0, 56) if bottom else slice(56, None), slice(0, 56) if right else slice(56, None)] = 90
    edge = np.zeros((112, 112), dtype=bool)
    edge[54:58] = edge[:, 54:58] = True
    np.testing.assert_array_equal(tile[:, ~edge], np.broadcast_to(want[~edge], (3, (~edge).sum())))
