from pathlib import Path

import numpy as np
import pytest

from genar.errors import DataError
from genar.read.geometry import is_hexagonal, measure_lattice, measure_mpp, pitch_px
from genar.slide.lattice import ST, VISIUM, Lattice, lay

PATH = Path("a.csv")


def laid(lattice: Lattice, mpp: float, degrees: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spots of 2 mm by 2 mm, mirrored and turned."""
    um, row, col = lay(lattice, 2000, 2000)
    angle = np.radians(degrees)
    turn = np.array([[-np.cos(angle), np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return um @ turn / mpp + 5000, row, col


@pytest.mark.parametrize("lattice", [VISIUM, ST])
@pytest.mark.parametrize("degrees", [0, 33, 90])
def test_resolution_and_lattice_are_found_again(lattice: Lattice, degrees: float) -> None:
    xy, row, col = laid(lattice, 0.43, degrees)
    mpp, source = measure_mpp(np.rint(xy), row, col, lattice, PATH)
    assert mpp == pytest.approx(0.43, rel=2e-3)
    assert source.startswith(f"measured: spots {lattice.pitch_um:g} µm apart")
    assert pitch_px(xy) == pytest.approx(lattice.pitch_um / 0.43)
    assert is_hexagonal(xy) == lattice.hexagonal
    assert measure_lattice(np.rint(xy), 0.43, PATH) == lattice


def test_other_lattices() -> None:
    xy, _, _ = laid(Lattice("grid", 100, 100, hexagonal=False), 0.5)
    assert measure_lattice(xy, 0.5, PATH) == Lattice("grid", 100, pytest.approx(100), hexagonal=False)
    assert measure_lattice(xy, 0.5, PATH, spot_um=55).spot_um == 55
    assert measure_lattice(xy, 0.25, PATH).pitch_um == pytest.approx(50)


def test_too_few_spots() -> None:
    line = np.array([[0.0, 0], [100, 0], [200, 0]])
    with pytest.raises(DataError, match="too few"):
        measure_mpp(line, np.array([0, 0, 0]), np.array([0, 1, 2]), ST, PATH)
    assert pitch_px(line[:1]) is None
    assert pitch_px(np.vstack([line, line])) == 100
    with pytest.raises(DataError, match="one place"):
        measure_lattice(line[[0, 0]], 0.5, PATH)


def test_implausible_pitch() -> None:
    xy, row, col = laid(VISIUM, 0.5)
    with pytest.raises(DataError, match="px apart, which cannot be 100 µm"):
        measure_mpp(xy / 20, row, col, VISIUM, PATH)
