"""What spots' positions tell: their pitch, the resolution of the image, the lattice they were laid on."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from genar.errors import DataError
from genar.slide.lattice import ST, VISIUM, Lattice
from genar.slide.open import LARGEST_MPP, SMALLEST_MPP

SAMPLE = 20_000  # spots whose neighbours are looked up; Visium HD has hundreds of thousands
NEIGHBOURS = 1.25  # of the nearest's distance: what lies within are neighbours on the lattice, if a little displaced
TOLERANCE = 0.1  # of a pitch against a known lattice's
GIVE_MPP = "give the resolution of the image in µm per pixel (mpp in a sample sheet, or --mpp)"


def pitch_px(xy: NDArray[np.float64]) -> float | None:
    """Measure the distance of neighbouring spots.

    Parameters
    ----------
    xy
        Centres in level-0 pixels, float64 [N, 2]; spots at one place count once.

    Returns
    -------
    The median distance of two spots that are neighbours, that is, no more than a quarter farther apart than a spot
    typically is from its nearest one; in level-0 pixels. None where spots are too scattered to tell: fewer such pairs
    than a row of spots has. (The median distance to the nearest spot alone is 7 % too small on her2st, whose spots lie
    up to 10 % off the lattice.)
    """
    places = np.unique(xy, axis=0)
    if len(places) < 2:
        return None
    ends = KDTree(places).query_pairs(NEIGHBOURS * nearest_px(places), output_type="ndarray")
    if len(ends) < len(places) - 1:
        return None
    return float(np.median(np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1)))


def nearest_px(xy: NDArray[np.float64]) -> float:
    """Return the median distance of a spot to its nearest one, in level-0 pixels; NaN for fewer than two places."""
    return float(np.median(_distances(xy, 1)[:, 0])) if len(np.unique(xy, axis=0)) > 1 else float("nan")


def is_hexagonal(xy: NDArray[np.float64]) -> bool:
    """Tell whether most spots have a fifth neighbour about as near as the first, as on a hexagonal lattice."""
    if len(np.unique(xy, axis=0)) < 6:
        return False
    distances = _distances(xy, 5)
    return bool(np.median(distances[:, 4] / distances[:, 0]) < 1.2)  # 2**0.5 on a square lattice


def _distances(xy: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """Return the distances of spots, or a sample of them, to their nearest neighbours, nearest first [n, number]."""
    places = np.unique(xy, axis=0)
    distances, _ = KDTree(places).query(places[:: len(places) // SAMPLE + 1], k=number + 1)
    return np.asarray(distances[:, 1:], dtype=np.float64)


def measure_mpp(
    xy: NDArray[np.float64], row: NDArray[np.int64], col: NDArray[np.int64], lattice: Lattice, path: Path
) -> tuple[float, str]:
    """Measure the resolution of the image: the lattice's pitch in µm over its pitch in pixels.

    Parameters
    ----------
    xy
        Centres in level-0 pixels, float64 [N, 2]; the array may be rotated and mirrored in the image.
    row, col
        Their place in the array, [N].
    lattice
        The array's geometry.
    path
        The file they were read from, for errors.

    Returns
    -------
    µm per pixel, and a sentence on where it comes from.

    Raises
    ------
    DataError
        If the spots lie on one line, or the result is not within 0.05 to 5 µm per pixel.
    """
    um_col = lattice.pitch_um / (2 if lattice.hexagonal else 1)
    um_row = lattice.pitch_um * (3**0.5 / 2 if lattice.hexagonal else 1)
    array = np.column_stack([col * um_col, row * um_row, np.ones(len(xy))])
    fit, _, rank, _ = np.linalg.lstsq(array, xy, rcond=None)
    if rank < 3:
        raise DataError(path, "its spots are too few to measure the image's resolution by", GIVE_MPP)
    px_per_um = float(np.sqrt(abs(np.linalg.det(fit[:2]))))
    if not 1 / LARGEST_MPP <= px_per_um <= 1 / SMALLEST_MPP:
        why = f"its spots lie {px_per_um * lattice.pitch_um:.3g} px apart, which cannot be {lattice.pitch_um:g} µm"
        raise DataError(path, why, "give centres in pixels of the full-resolution image")
    pitch = lattice.pitch_um * px_per_um
    return 1 / px_per_um, f"measured: spots {lattice.pitch_um:g} µm apart lie {pitch:.1f} px apart"


def measure_lattice(xy: NDArray[np.float64], mpp: float, path: Path, *, spot_um: float | None = None) -> Lattice:
    """Tell on which lattice spots were laid: Visium's, the legacy ST one, or a square grid of the measured pitch.

    Parameters
    ----------
    xy
        Centres in level-0 pixels, float64 [N, 2].
    mpp
        µm per level-0 pixel.
    path
        The file they were read from, for errors.
    spot_um
        Diameter of a spot on a grid in µm, where the data tell; by default, and where it is 0, the pitch.

    Raises
    ------
    DataError
        If there is only one place, so that no pitch can be measured.
    """
    pitch = (pitch_px(xy) or nearest_px(xy)) * mpp
    if np.isnan(pitch):
        raise DataError(path, "all its spots lie at one place", "give a section with spots side by side")
    for known in (VISIUM, ST):
        if abs(pitch / known.pitch_um - 1) <= TOLERANCE and is_hexagonal(xy) == known.hexagonal:
            return known
    return Lattice("grid", spot_um or pitch, pitch, hexagonal=False)
