"""Where spots are laid: lattices in µm."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genar.errors import ConfigError
from genar.units import LARGEST_TILE_UM


@dataclass(frozen=True)
class Lattice:
    """A regular arrangement of round spots.

    Parameters
    ----------
    name
        ``"visium"``, ``"st"`` or ``"grid"``.
    spot_um
        Diameter of a spot, in µm.
    pitch_um
        Distance of neighbouring centres, in µm.
    hexagonal
        Whether odd rows are shifted by half a pitch and rows lie closer, as on Visium slides.
    """

    name: str
    spot_um: float
    pitch_um: float
    hexagonal: bool


VISIUM = Lattice("visium", 55.0, 100.0, hexagonal=True)
ST = Lattice("st", 100.0, 200.0, hexagonal=False)
LATTICES = ("visium", "st", "grid")
LARGEST_PITCH_UM = 10_000.0
MOST_SPOTS = 20_000_000  # laid in memory at some 100 bytes each


def lattice(kind: str, pitch_um: float | None = None) -> Lattice:
    """Return a lattice by name.

    Parameters
    ----------
    kind
        ``"visium"``: 55 µm spots, 100 µm apart, hexagonal. ``"st"``: 100 µm spots, 200 µm apart, square.
        ``"grid"``: square, spots as wide as ``pitch_um``.
    pitch_um
        Distance of neighbouring centres in µm, for ``"grid"`` alone.

    Raises
    ------
    ConfigError
        If the kind is unknown, or the pitch is missing, superfluous or out of range.
    """
    if kind == "grid":
        if pitch_um is None:
            raise ConfigError("--spots grid", "it needs a pitch", "give the distance of spots in µm, as --pitch 100")
        if not 0 < pitch_um <= LARGEST_PITCH_UM:
            raise ConfigError("--pitch", f"{pitch_um:g} µm is out of range", f"give up to {LARGEST_PITCH_UM:g} µm")
        return Lattice("grid", float(pitch_um), float(pitch_um), hexagonal=False)
    for known in (VISIUM, ST):
        if kind == known.name:
            if pitch_um is not None:
                raise ConfigError(
                    "--pitch", f"{kind} spots have their own", "use it with --spots grid, or leave it out"
                )
            return known
    raise ConfigError("--spots", f"{kind!r} is not a lattice", "give visium, st or grid")


def lay(
    lattice: Lattice, width_um: float, height_um: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Lay a lattice over a rectangle, centred, row by row.

    Parameters
    ----------
    lattice
        What to lay.
    width_um, height_um
        Size of the rectangle in µm.

    Returns
    -------
    centres_um
        Centres (x, y) in µm from the top left corner, float64 [N, 2].
    array_row, array_col
        Their place in the lattice, int64 [N]. On a hexagonal lattice neighbours in a row are two columns apart, and
        ``array_row + array_col`` is even, as in Space Ranger's files.

    Raises
    ------
    ConfigError
        If that makes more than 20 million spots.
    """
    dy = lattice.pitch_um * (math.sqrt(3) / 2 if lattice.hexagonal else 1.0)
    dx = lattice.pitch_um / (2 if lattice.hexagonal else 1)  # one array column
    n_rows, n_cols = (int(size // step) + 1 for size, step in ((height_um, dy), (width_um, dx)))
    if n_rows * n_cols > MOST_SPOTS:
        why = f"{lattice.pitch_um:g} µm makes {n_rows * n_cols:,} spots on this slide, more than {MOST_SPOTS:,}"
        raise ConfigError("--pitch", why, "give a larger pitch")
    row, col = (a.ravel() for a in np.mgrid[:n_rows, :n_cols])
    if lattice.hexagonal:
        even = (row + col) % 2 == 0
        row, col = row[even], col[even]
    x = (width_um - (n_cols - 1) * dx) / 2 + col * dx
    y = (height_um - (n_rows - 1) * dy) / 2 + row * dy
    return np.column_stack([x, y]), row.astype(np.int64), col.astype(np.int64)


def check_tile(tile_um: float) -> None:
    """Raise unless a tile can have this side, in µm.

    Raises
    ------
    ConfigError
        If it cannot.
    """
    if not 0 < tile_um <= LARGEST_TILE_UM:
        raise ConfigError("tile_um", f"{tile_um:g} µm is out of range", f"give up to {LARGEST_TILE_UM:g} µm")
