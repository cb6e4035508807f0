"""Where a section's spots lie: the image and its geometry, as Visium files carry them."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_matrix

from genar import keys
from genar.slide.backends import origin
from genar.slide.lattice import Lattice
from genar.slide.open import Slide

HIRES_PX, LOWRES_PX = 2000, 600
FIDUCIAL_TO_SPOT = 105 / 65  # the ratio of the two diameters in the files that Space Ranger writes


def library_name(name: str) -> str:
    """Make a name that every anndata release accepts as a key: ``[A-Za-z0-9_.-]``, not starting with ``__``."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return re.sub(r"^__+", "_", clean) or "slide"


def bare(xy: NDArray[np.float64], obs: pd.DataFrame) -> AnnData:
    """Make spots without genes.

    Parameters
    ----------
    xy
        Their centres in level-0 pixels, float64 [N, 2] (x, y).
    obs
        What else is known of them, a row a spot, by their names.
    """
    spots = AnnData(csr_matrix((len(obs), 0), dtype=np.int32), obs=obs)
    spots.obsm[keys.SPATIAL] = xy
    return spots


def shrunk(picture: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    """Return a picture, RGB [h, w, 3], made no longer than ``longest`` pixels."""
    small = Image.fromarray(picture)
    small.thumbnail((longest, longest), Image.Resampling.BOX)
    return np.asarray(small)


def place(spots: AnnData, slide: Slide, lattice: Lattice, *, library_id: str | None = None) -> None:
    """Add a slide's image and geometry to its spots, in ``obs["library_id"]`` and ``uns["spatial"]``.

    Parameters
    ----------
    spots
        Spots with their centres in ``obsm["spatial"]``.
    slide
        The slide they lie on.
    lattice
        Their geometry.
    library_id
        Name of the section; by default from the slide's file name.
    """
    hires = slide.thumbnail(HIRES_PX)
    describe(
        spots,
        lattice,
        library_id or slide.path.stem,
        images=(hires, shrunk(hires, LOWRES_PX)),
        size=slide.dimensions,
        mpp=slide.mpp,
        mpp_source=slide.mpp_source,
        slide_name=slide.path.name,
        bounds=origin(slide.backend),
    )
    metadata(spots)[keys.SOURCE_IMAGE] = str(Path(slide.path).resolve())


def describe(
    spots: AnnData,
    lattice: Lattice,
    name: str,
    *,
    images: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    size: tuple[int, int],
    mpp: float,
    mpp_source: str,
    slide_name: str,
    bounds: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Write ``obs["library_id"]`` and ``uns["spatial"]``, as Visium files have them.

    Parameters
    ----------
    spots
        The spots.
    lattice
        Their geometry.
    name
        Name of the section.
    images
        The whole slide at two sizes, the larger first: RGB, uint8 [h, w, 3].
    size
        Width and height of level 0 in pixels.
    mpp, mpp_source
        Resolution of level 0 in µm per pixel, and where it comes from.
    slide_name
        Name of the slide.
    bounds
        Corner of the scanned area in level-0 pixels; see :func:`genar.slide.backends.origin`.
    """
    library, diameter, longest = library_name(name), lattice.spot_um / mpp, max(size)
    hires, lowres = images
    spots.obs[keys.LIBRARY_ID] = pd.Categorical([library] * spots.n_obs)
    spots.uns[keys.SPATIAL] = {
        library: {
            keys.IMAGES: {keys.HIRES: hires, keys.LOWRES: lowres},
            keys.SCALEFACTORS: {
                keys.HIRES_SCALE: max(hires.shape[:2]) / longest,
                keys.LOWRES_SCALE: max(lowres.shape[:2]) / longest,
                keys.SPOT_DIAMETER: diameter,
                keys.FIDUCIAL_DIAMETER: diameter * FIDUCIAL_TO_SPOT,
            },
            keys.METADATA: {
                keys.CHEMISTRY: f"{lattice.name} lattice, {lattice.spot_um:g} µm spots",
                keys.SOFTWARE: f"genar {version('genar')}",
                keys.SLIDE_NAME: slide_name,
                keys.SLIDE_WIDTH: size[0],
                keys.SLIDE_HEIGHT: size[1],
                keys.BOUNDS_X: float(bounds[0]),
                keys.BOUNDS_Y: float(bounds[1]),
                keys.MPP: float(mpp),
                keys.MPP_SOURCE: mpp_source,
                keys.LATTICE: lattice.name,
                keys.SPOT_UM: float(lattice.spot_um),
                keys.PITCH_UM: float(lattice.pitch_um),
            },
        }
    }


def metadata(spots: AnnData) -> dict[str, Any]:
    """Return ``uns["spatial"][library_id]["metadata"]`` of the one section that these spots are, to read or change."""
    library = str(spots.obs[keys.LIBRARY_ID].iloc[0])
    found: dict[str, Any] = spots.uns[keys.SPATIAL][library][keys.METADATA]
    return found


def centres(spots: AnnData) -> np.ndarray:
    """Return the spots' centres in level-0 pixels, float64 [N, 2] (x, y)."""
    return np.asarray(spots.obsm[keys.SPATIAL], dtype=np.float64)
