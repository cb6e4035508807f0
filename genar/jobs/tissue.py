"""A slide in, a picture and the outlines of its tissue out."""

import logging
from pathlib import Path

from genar import keys
from genar.pl.tissue import tissue as picture
from genar.slide.focus import focus_warning
from genar.slide.lattice import Lattice
from genar.slide.open import open_slide
from genar.slide.outline import AUTO, source_of, tissue_of
from genar.slide.spots import TILE_UM, spots_on
from genar.write.atomic import atomic, check_writable
from genar.write.outline import write_outline

logger: logging.Logger = logging.getLogger("genar")


def tissue_to_file(
    slide: Path,
    output: Path,
    *,
    lattice: Lattice,
    tissue: str | Path = AUTO,
    mpp: float | None = None,
    overwrite: bool = False,
) -> tuple[Path, Path]:
    """Draw where a slide shows tissue, as ``<stem>.tissue.png``, and write it as ``<stem>.tissue.geojson``.

    Both files appear, or neither.

    Parameters
    ----------
    slide
        The slide's file.
    output
        The folder to write to.
    lattice
        The spots to draw.
    tissue
        Where tissue is; see :func:`genar.slide.outline.tissue_of`.
    mpp
        Resolution of level 0 in µm per pixel; by default the one that the file carries.
    overwrite
        Whether the files may exist.

    Returns
    -------
    The paths of the picture and of the outlines.

    Raises
    ------
    SlideError
        If the slide cannot be read, or no spot lies on its tissue.
    DataError
        If the file of outlines or the mask cannot be used.
    OutputError
        If a file exists and ``overwrite`` is not set, or the folder cannot be written to.
    """
    targets = output / f"{slide.stem}.tissue.png", output / f"{slide.stem}.tissue.geojson"
    for path in targets:
        check_writable(path, overwrite=overwrite)
    with open_slide(slide, mpp) as opened:
        source, mask = source_of(slide, tissue), tissue_of(opened, tissue)
        adata = spots_on(opened, mask, lattice, source=source, tile_um=TILE_UM, min_tissue=0.5)
        with atomic(*targets, overwrite=overwrite) as (image, outlines):
            picture(adata, mask).savefig(image, dpi=150)
            write_outline(mask, opened, outlines)
    if warning := focus_warning(adata.obs[keys.IN_FOCUS].to_numpy(bool)):
        logger.warning("%s: %s", slide.name, warning)
    return targets
