"""Predicted or measured counts over the slide."""

import textwrap
from pathlib import Path

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from scipy.sparse import issparse

from genar import keys
from genar.errors import DataError
from genar.genes.choice import named
from genar.pl.figure import Picture, new_axes
from genar.pl.section import Section, draw_outline, draw_spots, extent_of, one_section, provenance_of
from genar.pl.text import drawable, short

WARNING = "#B04A00"  # a colour that is read on white, and not told by its redness alone: the text says it
LETTERS = 16  # of the caption to an inch
LINE = 0.16  # of the caption, in inches


def gene(
    adata: AnnData,
    gene: str,
    *,
    layer: str | None = None,
    library_id: str | None = None,
    cmap: str = "viridis",
    ax: Axes | None = None,
) -> Axes:
    """Draw one gene over the slide: spots at their true size over its image, with a colour bar and a scale bar.

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
    cmap
        The colour map.
    ax
        Where to draw; by default a new pyplot figure, which a notebook shows below its cell.

    Returns
    -------
    The axes.

    Raises
    ------
    DataError
        If there is no such gene, layer or section.
    """
    adata, _, section = one_section(adata, library_id)
    values = _values(adata, gene, layer)
    ax = ax or new_axes((6, 5))
    whole = np.array_equal(values, np.rint(values))  # else X was normalised
    draw_spots(ax, adata, section, values, layer or ("counts" if whole else "X"), cmap=cmap)
    ax.set_title(gene, style="italic", parse_math=False)
    return ax


def overview(adata: AnnData, gene: str | None = None, *, library_id: str | None = None) -> Figure:
    """Draw the slide with its tissue spots, one gene, and the total counts, and below them what the result warns of.

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
    The figure. A notebook shows it as the result of its cell; pyplot does not keep it, so that none is to be closed.

    Raises
    ------
    DataError
        If there is no such gene or section.
    """
    adata, library, section = one_section(adata, library_id)
    gene = gene or marker(adata)
    left, right, top, bottom = extent_of(adata, section)
    aspect = (right - left) / (bottom - top)
    stacked = aspect > 2
    width, height = (8.0, 8.0 / aspect) if stacked else (min(4.2, 7.0 * aspect), min(4.2 / aspect, 7.0))
    size = (width + 1.2, 3 * max(height + 0.5, 1.5) + 0.8) if stacked else (max(3 * (width + 1.2), 8.0), height + 1.1)
    warned = _warned(adata, library, size[0])
    size = (size[0], size[1] + LINE * warned.count("\n"))
    figure = Picture(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06), dpi=150)
    tissue, counts, total = figure.subplots(3, 1) if stacked else figure.subplots(1, 3)
    share = adata.obs[keys.TISSUE_FRACTION if keys.TISSUE_FRACTION in adata.obs else keys.IN_TISSUE].to_numpy(float)
    draw_spots(tissue, adata, section, share, "share of tissue", limits=(0.0, 1.0), cmap="cividis", rings=True)
    draw_outline(tissue, section)
    tissue.set_title(f"{adata.n_obs:,} spot{'s' * (adata.n_obs > 1)} on tissue")
    draw_spots(counts, adata, section, _values(adata, gene, None), "counts")
    counts.set_title(gene, style="italic", parse_math=False)
    draw_spots(total, adata, section, adata.obs[keys.TOTAL_COUNTS].to_numpy(), "counts", cmap="magma")
    total.set_title(f"total of {adata.n_vars:,} genes")
    figure.suptitle(_headline(adata, library, section), fontsize=10, parse_math=False)
    caption = f"{warned}Predicted counts, for research use only."
    figure.supxlabel(caption, fontsize=8, color=WARNING if warned else "0.35", parse_math=False)
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
    """Return one gene's values."""
    named(adata, [gene])
    if layer and layer not in adata.layers:
        raise DataError(layer, "there is no such layer", f"choose among {', '.join(map(str, adata.layers)) or 'none'}")
    column = adata[:, gene].layers[layer] if layer else adata[:, gene].X
    return np.asarray(column.toarray() if issparse(column) else column, dtype=np.float64).ravel()


def _warned(adata: AnnData, library: str, width: float) -> str:
    """Return what a section's result warns of, in lines that a figure of ``width`` inches holds."""
    warnings = provenance_of(adata, library).get("warnings", ())
    lines = [line for text in warnings for line in textwrap.wrap(drawable(str(text)), int(LETTERS * width))]
    return "".join(f"{line}\n" for line in lines)


def _headline(adata: AnnData, library: str, section: Section) -> str:
    """Say which slide and which model."""
    metadata, provenance = section.get(keys.METADATA, {}), adata.uns.get(keys.GENAR, {})
    parts = [short(drawable(str(metadata.get(keys.SLIDE_NAME, library))), 60)]
    if keys.MPP in metadata:
        parts.append(f"{float(metadata[keys.MPP]):.3f} µm/px")
    if "model" in provenance:
        parts.append(f"model {short(drawable(str(provenance['model'])), 30)}")
    return "  ·  ".join(parts)
