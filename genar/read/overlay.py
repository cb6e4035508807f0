"""A picture of a section's spots on its image, to see whether they belong together."""

from pathlib import Path

import numpy as np
from anndata import AnnData
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure

from genar import keys
from genar.read.fit import image_size, on_mask, picture, spatial, tissue
from genar.read.geometry import pitch_px
from genar.slide.section import centres, metadata
from genar.write.atomic import atomic

SIDE_IN, DPI = 8.0, 150
TITLE_IN = (7.0, 0.4)  # room that the title takes
ON, OFF, BORDER = "#ffe600", "#ff2d00", "#00c853"


def save_overlay(section: AnnData, path: Path) -> None:
    """Draw a section's image, the border of its tissue, and its spots at true size, those off tissue in red.

    Parameters
    ----------
    section
        A measured section with its image in ``uns["spatial"]``.
    path
        The PNG to write; one that exists is replaced.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    figure = overlay(section)
    with atomic(path, overwrite=True) as (file,):
        figure.savefig(file, dpi=DPI)


def overlay(section: AnnData) -> Figure:
    """Return the figure that :func:`save_overlay` writes."""
    image, _ = picture(section)
    width, height = image_size(section)
    mask, xy = tissue(section), centres(section)
    xy = xy[np.isfinite(xy).all(axis=1)]
    on = on_mask(mask, xy)
    diameter = float(spatial(section)[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    seen = np.vstack([xy - diameter / 2, xy + diameter / 2, [(0, 0), (width, height)]])
    (left, top), (right, bottom) = seen.min(axis=0), seen.max(axis=0)
    inches = SIDE_IN / max(right - left, bottom - top)
    figure = Figure(figsize=(max((right - left) * inches, TITLE_IN[0]), (bottom - top) * inches + TITLE_IN[1]))
    ax = figure.add_axes((0, 0, 1, 1 - TITLE_IN[1] / figure.get_figheight()))  # a layout engine would draw it twice
    ax.imshow(image, extent=(0, width, height, 0))
    if mask.mask.any() and not mask.mask.all():
        ax.contour(mask.mask, [0.5], extent=(0, width, 0, height), colors=BORDER, linewidths=0.8)
    for where, colour in ((on, ON), (~on, OFF)):
        sizes = np.full(int(where.sum()), diameter)
        circles = EllipseCollection(
            sizes, sizes, np.zeros(len(sizes)), units="xy", offsets=xy[where], offset_transform=ax.transData,
            facecolors="none", edgecolors=colour, linewidths=1.0,
        )  # fmt: skip
        ax.add_collection(circles)
    ax.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal")
    ax.set_title(_title(section, float(on.mean()) if len(on) else 0.0), fontsize=10, parse_math=False)
    return figure


def _title(section: AnnData, share: float) -> str:
    """Give the figures that the picture is to be judged by."""
    known = metadata(section)
    xy = centres(section)
    pitch = pitch_px(xy[np.isfinite(xy).all(axis=1)])
    measured = "" if pitch is None else f"{pitch * float(known[keys.MPP]):.0f} µm apart, "
    name = str(section.obs[keys.LIBRARY_ID].iloc[0])  # plain letters, which any font can draw
    parts = (name, f"{section.n_obs:,} spots", f"{measured}declared {float(known[keys.PITCH_UM]):g} µm",
             f"{float(known[keys.MPP]):.4g} µm/px", f"{share:.0%} on tissue (red: off)")  # fmt: skip
    return "  ·  ".join(parts)
