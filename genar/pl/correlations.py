"""How the genes of a model go together in measured spots, beside the groups that it puts them in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from genar.errors import DataError
from genar.pl.figure import Picture, label_bar
from genar.pl.hierarchy import LARGEST_NAME_PT, NAMED, ROW_PT, groups_of, runs_of

if TYPE_CHECKING:
    from genar.store import Model


def correlations(model: "Model | pd.DataFrame", counts: AnnData | ArrayLike) -> Figure:
    """Draw how genes correlate, in decoding order, with the borders of their groups.

    Left of the heat map a column a scale shows the groups in turns of light and dark; in it, boxes lie around them.

    Parameters
    ----------
    model
        A model, or its panel: one row a gene in decoding order, with a column ``group_<s>`` a scale.
    counts
        Raw counts of measured spots: an AnnData, or [N, G] in the order of the panel. NaN where not measured.

    Returns
    -------
    The figure. A notebook shows it as the result of its cell.

    Raises
    ------
    DataError
        If the panel has no groups, or the counts are not of its genes.
    """
    panel = model if isinstance(model, pd.DataFrame) else model.panel
    groups = {s: labels for s, labels in groups_of(panel).items() if 1 < s < len(panel)}
    table = _counts_of(panel.index, counts)
    correlation = _correlation(np.log1p(table))
    named = len(panel) <= NAMED
    side = float(np.clip(len(panel) * ROW_PT / 72, 4.5, NAMED * ROW_PT / 72)) if named else 10.0
    strip = max(0.22 * len(groups), 0.55)
    figure = Picture(figsize=(side + strip + 1.0, side + 1.2), layout="constrained", dpi=150)
    tree, heat = figure.subplots(1, 2, width_ratios=(strip, side), sharey=True)
    others = correlation[~np.eye(len(panel), dtype=bool) & np.isfinite(correlation)]
    low, high = np.quantile(others, (0.01, 0.99)) if others.size else (0.0, 1.0)  # depth alone correlates most genes
    image = heat.imshow(np.ma.masked_invalid(correlation), cmap="viridis", vmin=low, vmax=high, aspect="auto")
    _boxes(heat, groups)
    _strips(tree, groups)
    _names(heat, panel.index if named else [], side * 72)
    bar = figure.colorbar(
        image, ax=heat, location="bottom", shrink=min(1.0, 3.0 / side), aspect=24, pad=0.1 / side, extend="both"
    )
    label_bar(bar, "correlation of log(count + 1)")
    heat.set_title(f"{len(panel):,} genes in decoding order, {len(table):,} spots", fontsize=9)
    return figure


def _names(ax: Axes, genes: Sequence[str] | pd.Index, height: float) -> None:
    """Write gene names beside the rows of an axes that is ``height`` points high."""
    ax.set(xticks=[])
    ax.set_yticks(range(len(genes)), [str(gene) for gene in genes])
    ax.tick_params(left=False, labelleft=False, right=True, labelright=True, length=0, pad=2)
    for label in ax.get_yticklabels():
        label.set(fontsize=min(LARGEST_NAME_PT, 0.9 * height / len(genes)), style="italic", parse_math=False)


def _counts_of(genes: pd.Index, counts: AnnData | ArrayLike) -> NDArray[np.float64]:
    """Return the counts of a panel, float64 [N, G], NaN where not measured."""
    if isinstance(counts, AnnData):
        known = genes[genes.isin(counts.var_names)]
        if known.empty:
            raise DataError("counts", "no gene of the panel is measured in them", "give a measured section or a result")
        return np.asarray(counts[:, known].to_df().reindex(columns=genes), dtype=np.float64)
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(genes):
        raise DataError("counts", f"their shape is {table.shape}", f"give spots x {len(genes)} genes of the panel")
    return table


def _correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlate columns over the rows that both measure: [G, G], NaN for what does not vary."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = np.where(known, values - np.nansum(values, axis=0) / known.sum(axis=0), 0.0)
        z = centred / np.sqrt(np.square(centred).sum(axis=0) / known.sum(axis=0))
        z[:, np.ptp(centred, axis=0) < 1e-12] = np.nan
        return np.asarray(z.T @ z / (known.T.astype(float) @ known))


def _boxes(ax: Axes, groups: dict[int, NDArray[np.int64]]) -> None:
    """Draw boxes around the groups, thinner from scale to scale."""
    for rank, labels in enumerate(groups.values()):
        width = max(1.4 * 0.6**rank, 0.3)
        for start, end in runs_of(labels):
            box = Rectangle((start - 0.5, start - 0.5), end - start, end - start, fill=False, ec="black", lw=width)
            ax.add_patch(box)


def _strips(ax: Axes, groups: dict[int, NDArray[np.int64]]) -> None:
    """Draw the groups as columns of light and dark, headed by their number."""
    shades = np.column_stack([labels % 2 for labels in groups.values()]) if groups else np.zeros((1, 1))
    ax.imshow(shades, cmap="Greys", vmin=-0.25, vmax=1.6, aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(groups)), [str(s) for s in groups], fontsize=7, rotation=90)
    ax.set_xlabel("groups", fontsize=8)
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False, left=False, labelleft=False)
    ax.spines[:].set_visible(False)
    for edge in np.arange(1, len(groups)) - 0.5:
        ax.axvline(edge, color="white", lw=2)
