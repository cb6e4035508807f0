import numpy as np
import pytest
from scipy.spatial import cKDTree

from genar.errors import ConfigError
from genar.slide.lattice import Lattice, lattice, lay


def test_known_lattices():
    assert lattice("visium") == Lattice("visium", 55, 100, hexagonal=True)
    assert lattice("st") == Lattice("st", 100, 200, hexagonal=False)
    assert lattice("grid", 8) == Lattice("grid", 8, 8, hexagonal=False)


@pytest.mark.parametrize(
    ("kind", "pitch"),
    [("visium", 100), ("st", 100), ("grid", None), ("grid", 0), ("grid", -1), ("grid", 10_001), ("hex", None)]
    + [("grid", float("nan")), ("grid", float("inf"))],
)
def test_what_is_no_lattice_is_refused(kind, pitch):
    with pytest.raises(ConfigError):
        lattice(kind, pitch)


def test_visium_is_hexagonal_with_space_rangers_numbering():
    centres, row, col = lay(lattice("visium"), 6500, 6500)
    assert ((row + col) % 2 == 0).all()
    inner = (np.abs(centres - 3250) < 2000).all(axis=1)
    distance = cKDTree(centres).query(centres[inner], k=8)[0][:, 1:]
    np.testing.assert_allclose(distance[:, :6], 100)
    assert (distance[:, 6] > 150).all()
    for r in (0, 1):
        np.testing.assert_array_equal(np.diff(col[row == r]), 2)
        np.testing.assert_allclose(np.diff(centres[row == r, 0]), 100)
    assert centres[row == 1, 0][0] - centres[row == 0, 0][0] == pytest.approx(50)


@pytest.mark.parametrize("kind", ["visium", "st"])
def test_the_lattice_is_centred_inside_the_slide_in_row_major_order(kind):
    width, height = 5130.0, 3970.0
    centres, row, col = lay(lattice(kind), width, height)
    assert (centres >= 0).all()
    assert (centres <= [width, height]).all()
    np.testing.assert_allclose(centres.min(axis=0) + centres.max(axis=0), [width, height])
    assert (np.lexsort((col, row)) == np.arange(len(row))).all()
    assert len(set(zip(row.tolist(), col.tolist(), strict=True))) == len(row)


def test_a_slide_smaller_than_the_pitch_has_one_spot():
    centres, _, _ = lay(lattice("st"), 90, 60)
    np.testing.assert_allclose(centres, [[45, 30]])


def test_too_many_spots_are_refused():
    with pytest.raises(ConfigError, match="makes 2,50.*spots"):
        lay(lattice("grid", 1), 50_000, 50_000)
