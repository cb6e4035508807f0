"""A section's spots over its image: what the drawings of spots are made of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from genar import keys
from genar.errors import DataError

BAR_LENGTHS_UM = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
Section = Mapping[str, Any]  # an entry of uns["spatial"]: images, scalefactors, metadata
MARGIN = 0.06  # around the spots, as a share of their extent


def one_section(adata: AnnData, library_id: str | None) -> tuple[AnnData, str, Section]:
    """Return the spots of one section, its name and its ``uns["spatial"]`` entry."""
    images = adata.uns.get(keys.SPATIAL, {})
    names = adata.obs.get(keys.LIBRARY_ID)  # Visium readers leave it out, for there is one section
    usable = [n for n in images if names is None or (names == n).any()]
    if library_id is None and len(usable) == 1:
        library_id = usable[0]
    if library_id not in usable:
        why = "no such section with spots and an image" if library_id else "which section to draw is not clear"
        raise DataError(library_id or "library_id", why, f"choose among {', '.join(usable) or 'none'}")
    one = adata if names is None else adata[(names == library_id).to_numpy()]
    return one, str(library_id), images[library_id]


def provenance_of(adata: AnnData, library: str) -> Mapping[str, Any]:
    """Return what ``uns["genar"]`` says of one section, in a file of one or of several; empty where it was measured."""
    said = adata.uns.get(keys.GENAR, {})
    found: Mapping[str, Any] = said.get("sections", {}).get(library, said)
    return found


def extent_of(adata: AnnData, section: Section) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of the spots with a margin, in level-0 pixels.

    The margin ends where the slide does, but for the one below, which holds the scale bar.
    """
    diameter = float(section[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    image, scale = image_of(section)
    xy = np.asarray(adata.obsm[keys.SPATIAL], dtype=np.float64)
    low, high = xy.min(axis=0) - 0.6 * diameter, xy.max(axis=0) + 0.6 * diameter
    pad = 0.4 * diameter + MARGIN * float((high - low).max())
    left, top = np.minimum(low, np.maximum(low - pad, 0))
    right = max(high[0], min(high[0] + pad, image.shape[1] / scale))
    return float(left), float(right), float(top), float(high[1] + pad)


def image_of(section: Section) -> tuple[NDArray[np.uint8], float]:
    """Return the section's image, the sharpest that has a usual name, and its px per level-0 px."""
    images = section[keys.IMAGES]
    kind = keys.HIRES if keys.HIRES in images else next(iter(images))
    return np.asarray(images[kind]), float(section[keys.SCALEFACTORS][f"tissue_{kind}_scalef"])


def draw_outline(ax: Axes, section: Section) -> None:
    """Draw the border of the tissue mask, if the section has one."""
    mask = np.asarray(section.get(keys.TISSUE_MASK, False))
    if mask.any() and not mask.all():
        image, scale = image_of(section)
        extent = (0, image.shape[1] / scale, 0, image.shape[0] / scale)
        ax.contour(mask, [0.5], extent=extent, colors="tab:green", linewidths=1)


def draw_spots(
    ax: Axes,
    adata: AnnData,
    section: Section,
    values: ArrayLike,
    label: str,
    *,
    limits: tuple[float, float] | None = None,
    cmap: str = "viridis",
    rings: bool = False,
) -> None:
    """Draw the image, the spots at their true size, filled or as rings, a colour bar and a scale bar."""
    image, scale = image_of(section)
    diameter = float(section[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    left, right, top, bottom = extent_of(adata, section)
    stroke = min(1.5, 40 * diameter / max(right - left, bottom - top)) if rings else 0  # points
    ax.imshow(image, extent=(0, image.shape[1] / scale, image.shape[0] / scale, 0))
    circles = EllipseCollection(
        [diameter], [diameter], [0], units="xy", offsets=np.asarray(adata.obsm[keys.SPATIAL]),
        offset_transform=ax.transData, cmap=cmap, alpha=None if rings else 0.85, linewidths=stroke, rasterized=True,
        facecolors="none" if rings else None,
        path_effects=[withStroke(linewidth=2 * stroke, foreground="0.15")] if stroke > 0.6 else None,
    )  # fmt: skip
    values = np.asarray(values, dtype=np.float64)
    circles.set_array(values)
    low, high = limits or (float(values.min()), float(values.max()))
    circles.set_clim(low, high if high > low else low + 1)
    ax.add_collection(circles)
    ax.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal")
    bar = ax.inset_axes((1.03, 0, 0.04 * max(1.0, (bottom - top) / (right - left)), 1))  # as high as the panel
    whole = bool((values == np.round(values)).all()) and limits is None
    colours = ax.figure.colorbar(circles, cax=bar, label=label, ticks=MaxNLocator(5, integer=whole))
    colours.outline.set_visible(False)
    if keys.MPP in section.get(keys.METADATA, {}):
        scale_bar(ax, float(section[keys.METADATA][keys.MPP]), left, right, bottom, top)


def scale_bar(ax: Axes, mpp: float, left: float, right: float, bottom: float, top: float) -> None:
    """Draw a bar of a round length, about a fifth of the width."""
    length = min(BAR_LENGTHS_UM, key=lambda um: abs(um / mpp - 0.22 * (right - left)))
    x, y = left + 0.03 * (right - left), bottom - 0.03 * (bottom - top)
    outline = [withStroke(linewidth=4, foreground="white")]
    ax.plot([x, x + length / mpp], [y, y], color="black", lw=2.5, solid_capstyle="butt", path_effects=outline)
    text = f"{length // 1000} mm" if length >= 1000 else f"{length} µm"
    ax.annotate(text, (x, y), (0, 3), textcoords="offset points", fontsize=8, va="bottom", path_effects=outline)
