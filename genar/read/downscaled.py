"""A section without its slide: HEST's patches and the small picture beside them."""

from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from PIL import Image

from genar import keys
from genar.errors import DataError
from genar.slide.lattice import Lattice
from genar.slide.section import HIRES_PX, LOWRES_PX, describe, shrunk

DOWNSCALED, DOWNSCALED_SCALE = "downscaled_fullres", "tissue_downscaled_fullres_scalef"  # in uns["spatial"]["ST"]


def place_downscaled(
    spots: AnnData,
    table: AnnData,
    known: dict[str, Any],
    mpp: float,
    mpp_source: str | None,
    lattice: Lattice,
    name: str,
    path: Path,
) -> None:
    """Add a section's geometry as :func:`genar.slide.section.place` does, but from the small picture of HEST's table.

    The metadata then name no slide.

    Parameters
    ----------
    spots
        The section, without its image.
    table
        HEST's own table.
    known
        HEST's metadata.
    mpp
        Resolution of the slide, which is absent, in µm per pixel.
    mpp_source
        Where it comes from, if not from the user.
    lattice
        The spots' geometry.
    name
        Name of the section.
    path
        The table's file, for errors.

    Raises
    ------
    DataError
        If the table carries no picture.
    """
    try:
        theirs = table.uns[keys.SPATIAL]["ST"]
        picture = Image.fromarray(np.asarray(theirs[keys.IMAGES][DOWNSCALED])[..., :3].astype(np.uint8))
        scale = float(theirs[keys.SCALEFACTORS][DOWNSCALED_SCALE])
    except (KeyError, TypeError, ValueError, IndexError) as e:
        raise DataError(path, "it carries no downscaled picture", "download the slide, wsis/<id>.tif") from e
    hires = shrunk(np.asarray(picture), HIRES_PX)
    width, height = (
        int(known.get(key) or round(px / scale))
        for key, px in zip(("fullres_px_width", "fullres_px_height"), picture.size, strict=True)
    )
    describe(
        spots,
        lattice,
        name,
        images=(hires, shrunk(hires, LOWRES_PX)),
        size=(width, height),
        mpp=mpp,
        mpp_source=mpp_source or "given by the user",
        slide_name=name,
    )
