"""Plots, in scanpy's sense."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from genar import keys
from genar.errors import DataError

__all__ = ["gene", "overview", "save_overview"]

BAR_LENGTHS_UM = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
Section = Mapping[str, Any]  # an entry of uns["spatial"]: images, scalefactors, metadata
MARGIN = 0.06  # around the spots, as a share of their extent


def gene(
    adata: AnnData, gene: str, *, layer: str | None = None, library_id: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one gene over the slide.

    Parameters
    ----------
    adata
        A result of :func:`genar.predict`, or any spots with an image in ``uns["spatial"]``.
    gene
        Its symbol.
    layer
        A layer instead of the counts in ``X``.
    library_id
        The section to draw, where ``adata`` holds several.
    ax
        Where to draw; by default a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    DataError
        If there is no such gene, layer or section.
    """
    adata, _, section = _section(adata, library_id)
    values = _values(adata, gene, layer)
    ax = ax or Figure(figsize=(6, 5), layout="constrained").add_subplot()
    _spots(ax, adata, section, values, layer or "counts")
    ax.set_title(gene, style="italic", parse_math=False)
    return ax


def overview(adata: AnnData, gene: str | None = None, *, library_id: str | None = None) -> Figure:
    """Draw the slide with its tissue spots, one gene, and the total counts.

    Parameters
    ----------
    adata
        A result of :func:`genar.predict`.
    gene
        The gene to show; by default the one with the best ``var["heldout_pcc"]`` among those that vary here, or the
        one that varies most where the model was not evaluated; the first of equals.
    library_id
        The section to draw, where ``adata`` holds several.

    Returns
    -------
    The figure, which no window shows until it is saved or displayed.

    Raises
    ------
    DataError
        If there is no such gene or section.
    """
    adata, library, section = _section(adata, library_id)
    gene = gene or marker(adata)
    left, right, top, bottom = _extent(adata, section)
    aspect = (right - left) / (bottom - top)
    stacked = aspect > 2
    width, height = (8.0, 8.0 / aspect) if stacked else (min(4.2, 7.0 * aspect), min(4.2 / aspect, 7.0))
    size = (width + 1.2, 3 * max(height + 0.5, 1.5) + 0.8) if stacked else (max(3 * (width + 1.2), 8.0), height + 1.1)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06), dpi=150)
    tissue, counts, total = figure.subplots(3, 1) if stacked else figure.subplots(1, 3)
    share = adata.obs[keys.TISSUE_FRACTION if keys.TISSUE_FRACTION in adata.obs else keys.IN_TISSUE].to_numpy(float)
    _spots(tissue, adata, section, share, "share of tissue", limits=(0.0, 1.0), cmap="cividis", rings=True)
    _outline(tissue, section)
    tissue.set_title(f"{adata.n_obs:,} spot{'s' * (adata.n_obs > 1)} on tissue")
    _spots(counts, adata, section, _values(adata, gene, None), "counts")
    counts.set_title(gene, style="italic", parse_math=False)
    _spots(total, adata, section, adata.obs[keys.TOTAL_COUNTS].to_numpy(), "counts", cmap="magma")
    total.set_title(f"total of {adata.n_vars:,} genes")
    figure.suptitle(_headline(adata, library, section), fontsize=10, parse_math=False)
    figure.supxlabel("Predicted counts, for research use only.", fontsize=8, color="0.35")
    return figure


def save_overview(adata: AnnData, path: Path, gene: str | None = None) -> None:
    """Write the picture of :func:`overview` as a PNG."""
    overview(adata, gene).savefig(path, dpi=150)


def marker(adata: AnnData) -> str:
    """Return the gene that :func:`overview` shows."""
    x = adata.X.toarray() if issparse(adata.X) else np.asarray(adata.X)
    variance = np.log1p(x).var(axis=0)
    score = (
        adata.var[keys.HELDOUT_PCC].to_numpy(float) if keys.HELDOUT_PCC in adata.var else np.full(x.shape[1], np.nan)
    )
    score = np.where(x.max(axis=0) > x.min(axis=0), score, np.nan)  # rounding gives a constant some variance
    return str(adata.var_names[int(np.nanargmax(score) if np.isfinite(score).any() else variance.argmax())])


def _values(adata: AnnData, gene: str, layer: str | None) -> NDArray[np.float64]:
    """Return one gene's values, or say which genes come close."""
    if gene not in adata.var_names:
        near = difflib.get_close_matches(gene, adata.var_names, n=3) or list(adata.var_names[:3])
        raise DataError(gene, "this gene is not in the panel", f"try {', '.join(near)}; adata.var_names lists all")
    if layer and layer not in adata.layers:
        raise DataError(layer, "there is no such layer", f"choose among {', '.join(map(str, adata.layers)) or 'none'}")
    column = adata[:, gene].layers[layer] if layer else adata[:, gene].X
    return np.asarray(column.toarray() if issparse(column) else column, dtype=np.float64).ravel()


def _section(adata: AnnData, library_id: str | None) -> tuple[AnnData, str, Section]:
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


def _extent(adata: AnnData, section: Section) -> tuple[float, float, float, float]:
    """Return left, right, top and bottom of the spots with a margin, in level-0 pixels.

    The margin ends where the slide does, but for the one below, which holds the scale bar.
    """
    diameter = float(section[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    image, scale = _image(section)
    xy = np.asarray(adata.obsm[keys.SPATIAL], dtype=np.float64)
    low, high = xy.min(axis=0) - 0.6 * diameter, xy.max(axis=0) + 0.6 * diameter
    pad = 0.4 * diameter + MARGIN * float((high - low).max())
    left, top = np.minimum(low, np.maximum(low - pad, 0))
    right = max(high[0], min(high[0] + pad, image.shape[1] / scale))
    return float(left), float(right), float(top), float(high[1] + pad)


def _image(section: Section) -> tuple[NDArray[np.uint8], float]:
    """Return the section's image, the sharpest that has a usual name, and its px per level-0 px."""
    images = section[keys.IMAGES]
    kind = keys.HIRES if keys.HIRES in images else next(iter(images))
    return np.asarray(images[kind]), float(section[keys.SCALEFACTORS][f"tissue_{kind}_scalef"])


def _outline(ax: Axes, section: Section) -> None:
    """Draw the border of the tissue mask, if the section has one."""
    mask = np.asarray(section.get(keys.TISSUE_MASK, False))
    if mask.any() and not mask.all():
        image, scale = _image(section)
        extent = (0, image.shape[1] / scale, 0, image.shape[0] / scale)
        ax.contour(mask, [0.5], extent=extent, colors="tab:green", linewidths=1)


def _spots(
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
    image, scale = _image(section)
    diameter = float(section[keys.SCALEFACTORS][keys.SPOT_DIAMETER])
    left, right, top, bottom = _extent(adata, section)
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
        _scale_bar(ax, float(section[keys.METADATA][keys.MPP]), left, right, bottom, top)


def _scale_bar(ax: Axes, mpp: float, left: float, right: float, bottom: float, top: float) -> None:
    """Draw a bar of a round length, about a fifth of the width."""
    length = min(BAR_LENGTHS_UM, key=lambda um: abs(um / mpp - 0.22 * (right - left)))
    x, y = left + 0.03 * (right - left), bottom - 0.03 * (bottom - top)
    outline = [withStroke(linewidth=4, foreground="white")]
    ax.plot([x, x + length / mpp], [y, y], color="black", lw=2.5, solid_capstyle="butt", path_effects=outline)
    text = f"{length // 1000} mm" if length >= 1000 else f"{length} µm"
    ax.annotate(text, (x, y), (0, 3), textcoords="offset points", fontsize=8, va="bottom", path_effects=outline)


def _headline(adata: AnnData, library: str, section: Section) -> str:
    """Say which slide and which model."""
    metadata, provenance = section.get(keys.METADATA, {}), adata.uns.get(keys.GENAR, {})
    parts = [_short(_drawable(str(metadata.get(keys.SLIDE_NAME, library))), 60)]
    if keys.MPP in metadata:
        parts.append(f"{float(metadata[keys.MPP]):.3f} µm/px")
    if "model" in provenance:
        parts.append(f"model {_short(_drawable(str(provenance['model'])), 30)}")
    return "  ·  ".join(parts)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _drawable(text: str) -> str:
    """Put "?" for what the font lacks, for example Chinese in matplotlib's default one, instead of a warning."""
    font = get_font(findfont(FontProperties()))
    return "".join(c if c.isprintable() and font.get_char_index(ord(c)) else "?" for c in text)
