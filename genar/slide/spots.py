"""Spots on the tissue of a slide."""

from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.errors import ConfigError, SlideError
from genar.slide.focus import blur_um, in_focus
from genar.slide.lattice import Lattice, check_tile, lay
from genar.slide.lattice import lattice as lattice_of
from genar.slide.open import Slide, open_slide
from genar.slide.outline import AUTO, NONE, source_of, tissue_of
from genar.slide.section import bare, metadata, place
from genar.slide.tissue import TissueMask

TILE_UM = 154.0  # 224 px at 0.687 µm/px, the resolution that her2st was scanned at


def spots(
    slide: Slide | str | Path,
    lattice: str | Lattice = "visium",
    *,
    pitch_um: float | None = None,
    tile_um: float = TILE_UM,
    min_tissue: float = 0.5,
    tissue: str | Path = AUTO,
    mpp: float | None = None,
) -> AnnData:
    """Lay spots on the tissue of a slide.

    Parameters
    ----------
    slide
        An open slide, or its file.
    lattice
        ``"visium"``, ``"st"``, ``"grid"`` or a lattice.
    pitch_um
        Distance of spots in µm, for ``"grid"``.
    tile_um
        Side in µm of the square around a spot that must show tissue.
    min_tissue
        Smallest share of it that does.
    tissue
        Where tissue is: ``"auto"``, ``"none"`` (everywhere), or outlines or a mask of yours, see
        :func:`genar.slide.outline.tissue_of`.
    mpp
        Resolution in µm per pixel, where ``slide`` is a file that does not carry it.

    Returns
    -------
    Spots by no genes yet: ``obs`` with ``array_row``, ``array_col``, ``in_tissue``, ``tissue_fraction``, ``blur_um``
    (see :func:`genar.slide.focus.blur_um`), ``in_focus`` and ``library_id``; centres in level-0 pixels in
    ``obsm["spatial"]``; the image, the geometry and, unless everywhere is tissue, the tissue mask in
    ``uns["spatial"]``.

    Raises
    ------
    SlideError
        If no spot lies on tissue.
    DataError
        If the file of outlines or the mask cannot be used.
    ConfigError
        If the lattice, ``tile_um``, ``min_tissue`` or ``tissue`` is not valid.

    Examples
    --------
    >>> adata = genar.pp.spots("slide.svs", "visium")
    """
    check_tile(tile_um)
    if not 0 <= min_tissue <= 1:
        raise ConfigError("min_tissue", f"{min_tissue:g} is not a share", "give a number from 0 to 1")
    geometry = lattice if isinstance(lattice, Lattice) else lattice_of(lattice, pitch_um)
    if not isinstance(slide, Slide):
        with open_slide(slide, mpp) as opened:
            return spots(opened, geometry, tile_um=tile_um, min_tissue=min_tissue, tissue=tissue)
    source, mask = source_of(slide.path, tissue), tissue_of(slide, tissue)
    return spots_on(slide, mask, geometry, source=source, tile_um=tile_um, min_tissue=min_tissue)


def spots_on(
    slide: Slide, mask: TissueMask | None, lattice: Lattice, *, source: str, tile_um: float, min_tissue: float
) -> AnnData:
    """Lay spots where a mask, from ``source``, shows tissue, or everywhere; see :func:`spots`."""
    width, height = slide.dimensions
    centres_um, row, col = lay(lattice, width * slide.mpp, height * slide.mpp)
    xy = centres_um / slide.mpp
    fraction = np.ones(len(xy), dtype=np.float32) if mask is None else mask.fraction(xy, tile_um / slide.mpp)
    kept = np.ones(len(xy), dtype=bool) if mask is None else fraction >= min_tissue
    if mask is not None and not kept.any():
        raise _nothing(slide, mask, source)
    adata = _table(xy[kept], row[kept], col[kept], fraction[kept], blur_um(slide, xy[kept]))
    place(adata, slide, lattice)
    known = metadata(adata)
    known[keys.TILE_UM] = float(tile_um)
    known[keys.TISSUE_SOURCE] = source if source in (AUTO, NONE) else str(Path(source).resolve())
    if mask is not None:
        section = adata.uns[keys.SPATIAL][str(adata.obs[keys.LIBRARY_ID].iloc[0])]
        section[keys.TISSUE_MASK] = mask.resized(section[keys.IMAGES][keys.LOWRES].shape[:2])
    return adata


def _table(
    xy: NDArray[np.float64],
    row: NDArray[np.int64],
    col: NDArray[np.int64],
    fraction: NDArray[np.float32],
    blur: NDArray[np.float32],
) -> AnnData:
    """Make the table of spots."""
    obs = {
        keys.IN_TISSUE: np.ones(len(xy), dtype=np.int64),
        keys.ARRAY_ROW: row,
        keys.ARRAY_COL: col,
        keys.TISSUE_FRACTION: fraction,
        keys.BLUR_UM: blur,
        keys.IN_FOCUS: in_focus(blur),
    }
    names = [f"{r}x{c}" for r, c in zip(row, col, strict=True)]
    return bare(xy, pd.DataFrame(obs, index=names))


def _nothing(slide: Slide, mask: TissueMask, source: str) -> SlideError:
    """Say that no spot lies on tissue."""
    width, height = (side * slide.mpp for side in slide.dimensions)
    found = "no spot lies on enough of its tissue" if mask.mask.any() else "no tissue found"
    by = "" if source == AUTO else f", by {Path(source).name}"
    why = f"{found} (the slide is {width:.0f} x {height:.0f} µm at {slide.mpp:g} µm/px{by})"
    yours = "" if source != AUTO else ", or outline its tissue yourself (--tissue)"
    return SlideError(slide.path, why, f"check that it is an H&E slide and its resolution (--mpp) is right{yours}")
