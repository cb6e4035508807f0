"""The tissue that was found on a slide, and the spots that would be laid."""

from typing import TYPE_CHECKING

import numpy as np
from anndata import AnnData
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from genar import keys
from genar.pl.figure import Picture
from genar.pl.section import image_of, one_section, scale_bar
from genar.pl.text import drawable, short

if TYPE_CHECKING:  # which imports what drawing a result does not need
    from genar.slide.tissue import TissueMask

SIDE_IN, TITLE_IN, LEGEND_IN = 8.0, 0.75, 0.35
OUTLINE, SHARP, BLURRED = "#00c853", "#2962ff", "#ff6d00"


def tissue(adata: AnnData, mask: "TissueMask | None" = None, *, library_id: str | None = None) -> Figure:
    """Draw the whole slide with the outline of its tissue and the spots at true size, those out of focus apart.

    Parameters
    ----------
    adata
        Spots from :func:`genar.pp.spots`.
    mask
        The tissue mask, for a finer outline than the one that the spots carry.
    library_id
        The section to draw, where ``adata`` holds several.

    Returns
    -------
    The figure. A notebook shows it as the result of its cell.

    Raises
    ------
    DataError
        If there is no such section.
    """
    adata, library, section = one_section(adata, library_id)
    known = section[keys.METADATA]
    width, height = int(known[keys.SLIDE_WIDTH]), int(known[keys.SLIDE_HEIGHT])
    found = np.asarray(section.get(keys.TISSUE_MASK, False)) if mask is None else mask.mask
    inches = SIDE_IN / max(width, height)
    size = (max(width * inches, 8.0), max(height * inches, 2.0) + TITLE_IN + LEGEND_IN)
    figure = Picture(figsize=size, dpi=150)
    ax = figure.add_axes((0, LEGEND_IN / size[1], 1, 1 - (TITLE_IN + LEGEND_IN) / size[1]))
    ax.imshow(image_of(section)[0], extent=(0, width, height, 0))
    if found.any() and not found.all():
        x, y = ((np.arange(n) + 0.5) * side / n for n, side in zip(found.shape[::-1], (width, height), strict=True))
        ax.contour(x, y, found, [0.5], colors=OUTLINE, linewidths=1)
    sharp = adata.obs[keys.IN_FOCUS].to_numpy(bool)
    diameter = float(section[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    for where, colour in ((sharp, SHARP), (~sharp, BLURRED)):
        sizes = np.full(int(where.sum()), diameter)
        ax.add_collection(
            EllipseCollection(
                sizes, sizes, np.zeros(len(sizes)), units="xy", offsets=adata.obsm[keys.SPATIAL][where],
                offset_transform=ax.transData, facecolors="none", edgecolors=colour, rasterized=True,
                linewidths=min(1.2, max(0.3, 10 * diameter * inches)),
            )
        )  # fmt: skip
    ax.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[], aspect="equal")
    scale_bar(ax, float(known[keys.MPP]), 0, width, height, 0)
    lines = [("outline of the tissue", OUTLINE), ("spot", SHARP), ("spot out of focus", BLURRED)]
    handles = [Line2D([], [], color=colour, label=label) for label, colour in lines]
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(_title(adata, library, found, sharp), fontsize=10, parse_math=False, y=1 - 0.08 / size[1])
    return figure


def _title(adata: AnnData, library: str, found: np.ndarray, sharp: np.ndarray) -> str:
    """Give the figures that the picture is to be judged by."""
    known = adata.uns[keys.SPATIAL][library][keys.METADATA]
    mpp = float(known[keys.MPP])
    area = float(known[keys.SLIDE_WIDTH]) * float(known[keys.SLIDE_HEIGHT]) * mpp**2 / 1e6
    by = {"auto": "tissue found", "none": "everywhere"}.get(
        known[keys.TISSUE_SOURCE], f"tissue of {short(drawable(str(known[keys.TISSUE_SOURCE]).rpartition('/')[2]), 40)}"
    )
    share = f" ({found.mean():.0%} of the slide)" if found.ndim else ""
    tissue = f"{by}: {area * (found.mean() if found.ndim else 1):.3g} mm²{share}"
    spots = f"{adata.n_obs:,} {known[keys.LATTICE]} spots, {known[keys.PITCH_UM]:g} µm apart"
    focus = f"{1 - sharp.mean():.0%} out of focus"
    return f"{short(drawable(str(known[keys.SLIDE_NAME])), 60)}  ·  {mpp:.4g} µm/px\n{tissue}\n{spots}  ·  {focus}"
