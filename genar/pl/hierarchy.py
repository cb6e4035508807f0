"""The groups of genes that a model decodes, coarse to fine."""

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from genar import keys
from genar.errors import DataError
from genar.pl.figure import label_bar, new_axes

if TYPE_CHECKING:
    from genar.store import Model

NAMED = 300  # a larger panel's genes are too many to read their names
ROW_PT, LARGEST_NAME_PT, SMALLEST_NAME_PT = 5.6, 8.0, 4.0  # height of a gene's row in a large panel, and of a name
NUMBER_PT = 9.0  # height of a box that holds the number of its genes
LABELS = {keys.HELDOUT_PCC: "mean PCC on sections left out", keys.TRAIN_MEAN: "mean count in training"}


def hierarchy(
    model_or_adata: "Model | AnnData | pd.DataFrame",
    *,
    color: str | None = None,
    cmap: str = "viridis",
    ax: Axes | None = None,
) -> Axes:
    """Draw the groups of genes at each scale, coarse to fine from left to right, as an icicle.

    A box is a group, as high as the number of its genes, which it tells where there is room; right of it stand the
    groups that it is divided into, and at the end the genes in decoding order.

    Parameters
    ----------
    model_or_adata
        A model, its panel, or a result of :func:`genar.predict`.
    color
        What the boxes show, the mean over their genes: a column of numbers of the panel or of ``var``. By default
        ``"heldout_pcc"`` where the model was judged, else ``"train_mean"``.
    cmap
        The colour map.
    ax
        Where to draw; by default a new pyplot figure, high enough for the names of up to 300 genes.

    Returns
    -------
    The axes.

    Raises
    ------
    DataError
        If there are no groups, or no such column of numbers.
    """
    panel = panel_of(model_or_adata)
    groups = groups_of(panel)
    column, values = _colours(panel, color)
    ax = ax or new_axes((1.6 + 0.9 * len(groups), float(np.clip(len(panel), 50, NAMED)) * ROW_PT / 72 + 0.8))
    boxes = [(k, start, end - start) for k, labels in enumerate(groups.values()) for start, end in runs_of(labels)]
    shown = np.array([_mean(values[start : start + n]) for _, start, n in boxes])
    known = shown[np.isfinite(shown)]
    norm = Normalize(*(np.quantile(known, (0.02, 0.98)) if known.size else (0.0, 1.0)))  # a few genes are far off
    row = ax.get_window_extent().height * 72 / ax.figure.dpi / len(panel)  # points
    patches = PatchCollection(
        [Rectangle((k, start), 1, n) for k, start, n in boxes],
        cmap=cmap,
        norm=norm,
        edgecolor="white",
        linewidth=min(0.5, 0.1 * row),
    )
    patches.set_array(np.ma.masked_invalid(shown))
    ax.add_collection(patches)
    ax.set(xlim=(0, len(groups)), ylim=(len(panel), 0))
    ax.set_xticks(np.arange(len(groups)) + 0.5, [f"{s:,}" for s in groups])
    ax.set_xlabel("groups at each scale", fontsize=9)
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0, top=False, labeltop=True, labelbottom=False, bottom=False, labelsize=8)
    ax.spines[:].set_visible(False)
    _names(ax, panel.index, row)
    _numbers(ax, boxes, row, ScalarMappable(norm, colormaps[cmap]), shown)
    bar = ax.figure.colorbar(patches, ax=ax, location="bottom", aspect=30, pad=0.01, fraction=0.03, extend="both")
    label_bar(bar, LABELS.get(column, column))
    return ax


def panel_of(model_or_adata: "Model | AnnData | pd.DataFrame") -> pd.DataFrame:
    """Return the genes, a row each."""
    if isinstance(model_or_adata, pd.DataFrame):
        return model_or_adata
    found: pd.DataFrame = model_or_adata.var if isinstance(model_or_adata, AnnData) else model_or_adata.panel
    return found


def groups_of(panel: pd.DataFrame) -> dict[int, NDArray[np.int64]]:
    """Return each gene's group at each scale, coarse to fine.

    Raises
    ------
    DataError
        If the panel has no groups.
    """
    found = {int(m[1]): str(name) for name in panel if (m := re.fullmatch(keys.group(0)[:-1] + r"(\d+)", str(name)))}
    if not found:
        why = f"it has no column {keys.group(0)[:-1]}<number>"
        raise DataError("the panel", why, "give a model, its panel, or a result's var")
    return {s: panel[found[s]].to_numpy(np.int64) for s in sorted(found)}


def _colours(panel: pd.DataFrame, color: str | None) -> tuple[str, NDArray[np.float64]]:
    """Return a column's name and its numbers, a gene each."""
    name = color or next((key for key in LABELS if key in panel), "")
    if name not in panel or not pd.api.types.is_numeric_dtype(panel[name]):
        numbers = [str(column) for column in panel.select_dtypes("number")]
        remedy = f"choose among {', '.join(numbers) or 'none'}"
        raise DataError(name or "color", "the panel has no such column of numbers", remedy)
    return name, panel[name].to_numpy(np.float64)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def runs_of(labels: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return where each group begins and ends: genes of a group stand together."""
    starts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(labels)], strict=True))


def _names(ax: Axes, genes: pd.Index, row: float) -> None:
    """Write the genes' names right of their boxes, where a row is high enough, in points."""
    size = min(LARGEST_NAME_PT, 0.9 * row)
    ax.yaxis.tick_right()
    named = genes if size >= SMALLEST_NAME_PT else genes[:0]
    ax.set_yticks(np.arange(len(named)) + 0.5, [str(gene) for gene in named])
    ax.tick_params(axis="y", length=0, pad=2)
    for label in ax.get_yticklabels():
        label.set(fontsize=size, style="italic", parse_math=False)


def _numbers(
    ax: Axes, boxes: list[tuple[int, int, int]], row: float, colours: ScalarMappable, shown: NDArray[np.float64]
) -> None:
    """Write how many genes a group has into boxes that are high enough, in black or white as can be read."""
    for (k, start, n), (r, g, b, _) in zip(boxes, colours.to_rgba(shown), strict=True):
        if n > 1 and n * row >= NUMBER_PT:
            ink = "black" if 0.3 * r + 0.59 * g + 0.11 * b > 0.5 else "white"
            ax.text(k + 0.5, start + n / 2, f"{n:,}", ha="center", va="center", fontsize=7, color=ink)
