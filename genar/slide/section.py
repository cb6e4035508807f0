"""Where a section's spots lie: the image and its geometry, as Visium files carry them."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.slide.lattice import Lattice
from genar.slide.open import Slide

HIRES_PX, LOWRES_PX = 2000, 600
FIDUCIAL_TO_SPOT = 105 / 65  # the ratio of the two diameters in the files that Space Ranger writes


def library_name(name: str) -> str:
    """Make a name that every anndata release accepts as a key: ``[A-Za-z0-9_.-]``, not starting with ``__``."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return re.sub(r"^__+", "_", clean) or "slide"


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
    library = library_name(library_id or slide.path.stem)
    hires = slide.thumbnail(HIRES_PX)
    lowres = slide.thumbnail(LOWRES_PX)
    longest = max(slide.dimensions)
    diameter = lattice.spot_um / slide.mpp
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
                keys.SOURCE_IMAGE: str(Path(slide.path).resolve()),
                keys.SLIDE_NAME: slide.path.name,
                keys.SLIDE_WIDTH: slide.dimensions[0],
                keys.SLIDE_HEIGHT: slide.dimensions[1],
                keys.MPP: float(slide.mpp),
                keys.MPP_SOURCE: slide.mpp_source,
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
