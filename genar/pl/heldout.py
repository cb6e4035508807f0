"""How well single genes of a held-out section are predicted."""

from collections.abc import Sequence

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from genar import keys
from genar.errors import DataError
from genar.pl.colours import BLUE, GREEN, VERMILION
from genar.pl.figure import Picture
from genar.pl.section import extent_of, one_section

COLOURS = {"best": GREEN, "median": BLUE, "worst": VERMILION}
LABEL = "log$_2$(count + 1)"


def genes(
    measured: ArrayLike, predicted: ArrayLike, genes: Sequence[str], pcc: ArrayLike, *, each: int = 4,
    section: AnnData | None = None, title: str = "",
) -> Figure:  # fmt: skip
    """Draw what was predicted against what was measured for the best, median and worst genes of a held-out section.

    Parameters
    ----------
    measured, predicted
        Counts, [N, G].
    genes
        Symbols of the G genes.
    pcc
        Each gene's correlation over the spots, [G]; NaN where undefined.
    each
        Number of best, of median and of worst genes.
    section
        The N spots, with centres and an image in ``uns["spatial"]``, to draw maps beside; by default none.
    title
        What stands above the figure, for example the name of the section.

    Returns
    -------
    The figure. A notebook shows it as the result of its cell.

    Raises
    ------
    DataError
        If the shapes do not fit, or no gene has a correlation.
    """
    counts = [np.asarray(a, dtype=np.float64) for a in (measured, predicted)]
    r = np.asarray(pcc, dtype=np.float64)
    n_spots = len(counts[0]) if section is None else section.n_obs
    if any(a.shape != (n_spots, len(genes)) for a in counts) or r.shape != (len(genes),):
        why = f"shapes {counts[0].shape}, {counts[1].shape} and {r.shape} do not fit {n_spots} x {len(genes)}"
        raise DataError("counts", why, "give counts of the same spots and genes, and a correlation a gene")
    ranked = np.argsort(-r, kind="stable")[: np.isfinite(r).sum()]  # NaN comes last
    if not ranked.size:
        raise DataError("pcc", "no gene has a correlation", "give a section in which counts vary")
    chosen = _chosen(len(ranked), each)
    rows = len(chosen["best"])
    shown = 3 if section is not None else 1
    figure = Picture(figsize=(3 * (0.4 + 1.75 * shown), 2.1 + 1.9 * rows), layout="constrained", dpi=150)
    grid = figure.add_gridspec(2, 3, height_ratios=(1.7, 1.9 * rows))
    _ranks(figure.add_subfigure(grid[0, :]).subplots(), r[ranked], chosen, len(genes))
    for column, (kind, places) in enumerate(chosen.items()):
        part = figure.add_subfigure(grid[1, column])
        part.suptitle(f"{kind} {len(places)}", color=COLOURS[kind], fontsize=9, weight="bold")
        axes = part.subplots(rows, shown, squeeze=False)
        for ax in axes[len(places) :].ravel():
            ax.set_axis_off()
        for row, gene in enumerate(ranked[places]):
            values = [np.log2(a[:, gene] + 1) for a in counts]
            _scatter(axes[row, -1], values[0], values[1], COLOURS[kind])
            axes[row, 0].set_title(genes[gene], style="italic", fontsize=8, pad=3, loc="left", parse_math=False)
            axes[row, -1].set_title(f"r = {r[gene]:.2f}", fontsize=8, pad=3, loc="right")
            if section is not None:
                _maps(part, axes[row, :2], section, values, heads=row == 0)
    figure.suptitle(title, fontsize=10, parse_math=False)
    figure.supxlabel(f"Counts are shown as {LABEL}.", fontsize=7, color="0.35")
    return figure


def _chosen(n_genes: int, each: int) -> dict[str, NDArray[np.int64]]:
    """Return ranks of the best, median and worst genes; a gene is shown once."""
    each = min(each, max(1, n_genes // 3))
    middle = (n_genes - each) // 2
    ranks = {"best": range(each), "median": range(middle, middle + each), "worst": range(n_genes - each, n_genes)}
    seen: set[int] = set()
    chosen = {}
    for kind, span in ranks.items():
        chosen[kind] = np.array([i for i in span if i not in seen], dtype=np.int64)
        seen.update(span)
    return chosen


def _ranks(ax: Axes, r: NDArray[np.float64], chosen: dict[str, NDArray[np.int64]], n_genes: int) -> None:
    """Draw all correlations from the best to the worst, and where the chosen genes are."""
    ax.plot(np.arange(1, r.size + 1), r, color="0.5", lw=1.2)
    for kind, places in chosen.items():
        ax.plot(places + 1, r[places], "o", ms=4, color=COLOURS[kind], label=kind)
    ax.axhline(0, color="0.8", lw=0.8, zorder=0)
    undefined = f"; undefined for {n_genes - r.size}" if n_genes > r.size else ""
    ax.set_title(f"{n_genes:,} genes: mean PCC {np.mean(r):.3f}, median {np.median(r):.3f}{undefined}", fontsize=8)
    ax.set_xlabel("genes by correlation", fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel("PCC", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)


def _scatter(ax: Axes, measured: NDArray[np.float64], predicted: NDArray[np.float64], colour: str) -> None:
    """Draw one gene's spots around the line where prediction equals measurement."""
    high = max(float(np.nanmax(measured)), float(np.nanmax(predicted)), 1.0) * 1.06
    ax.plot([0, high], [0, high], color="0.75", lw=0.8, zorder=0)
    ax.scatter(measured, predicted, s=5, color=colour, alpha=0.45, lw=0, rasterized=True)
    ax.set(xlim=(-0.04 * high, high), ylim=(-0.04 * high, high), aspect="equal")
    ax.set_xlabel("measured", fontsize=7, labelpad=1)
    ax.set_ylabel("predicted", fontsize=7, labelpad=1)
    ax.tick_params(labelsize=6, length=2, pad=1.5)
    ax.spines[["top", "right"]].set_visible(False)


def _maps(
    part: SubFigure, axes: NDArray[np.object_], section: AnnData, pair: Sequence[NDArray[np.float64]], *, heads: bool
) -> None:
    """Draw measured and predicted values over the section on one scale of colours."""
    section, _, entry = one_section(section, None)
    left, right, top, bottom = extent_of(section, entry)
    diameter = 1.7 * float(entry[keys.SCALEFACTORS][keys.SPOT_DIAMETER])  # larger than true, for small maps
    limits = Normalize(0, max(1.0, *(float(np.nanmax(values)) for values in pair)))
    for ax, values, head in zip(axes, pair, ("measured", "predicted"), strict=True):
        spots = EllipseCollection(
            [diameter], [diameter], [0], units="xy", offsets=np.asarray(section.obsm[keys.SPATIAL]),
            offset_transform=ax.transData, cmap="viridis", norm=limits, linewidths=0, rasterized=True,
        )  # fmt: skip
        spots.set_array(values)
        ax.add_collection(spots)
        ax.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[], aspect="equal")
        ax.spines[:].set_visible(False)
        if heads:
            ax.set_xlabel(head, fontsize=7)
            ax.xaxis.set_label_position("top")
    bar = part.colorbar(spots, ax=list(axes), shrink=0.7, aspect=14, pad=0.02)
    bar.set_label(LABEL, fontsize=6)
    bar.ax.tick_params(labelsize=6, length=2)
    bar.outline.set_visible(False)
