"""What a training run looks like: its groups of genes and its curves."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from genar import keys
from genar.errors import DataError
from genar.pl.colours import BLUE, VERMILION
from genar.pl.figure import Picture

if TYPE_CHECKING:
    from genar.store import Model

NAMED = 300  # a larger panel's genes are too many to read their names
ROW_PT, LARGEST_NAME_PT = 5.6, 8.0  # height of a gene's row in a large panel, and of its name in a small one
GREY = "0.6"
TITLES = {"loss": "training loss", "pcc": "held-out PCC", "nll": "held-out NLL"}


def hierarchy(model: "Model | pd.DataFrame", counts: AnnData | ArrayLike) -> Figure:
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
    groups = _groups(panel)
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
    bar.set_label("correlation of log(count + 1)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    heat.set_title(f"{len(panel):,} genes in decoding order, {len(table):,} spots", fontsize=9)
    return figure


def _names(ax: Axes, genes: Sequence[str] | pd.Index, height: float) -> None:
    """Write gene names beside the rows of an axes that is ``height`` points high."""
    ax.set(xticks=[])
    ax.set_yticks(range(len(genes)), [str(gene) for gene in genes])
    ax.tick_params(left=False, labelleft=False, right=True, labelright=True, length=0, pad=2)
    for label in ax.get_yticklabels():
        label.set(fontsize=min(LARGEST_NAME_PT, 0.9 * height / len(genes)), style="italic", parse_math=False)


def _groups(panel: pd.DataFrame) -> dict[int, NDArray[np.int64]]:
    """Return the groups at each scale between one and the genes, coarse to fine."""
    found = {int(m[1]): str(name) for name in panel if (m := re.fullmatch(keys.group(0)[:-1] + r"(\d+)", str(name)))}
    if not found:
        why = f"it has no column {keys.group(0)[:-1]}<number>"
        raise DataError("the panel", why, "give a model, its panel, or a result's var")
    return {s: panel[found[s]].to_numpy(np.int64) for s in sorted(found) if 1 < s < len(panel)}


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
        starts = np.flatnonzero(np.diff(labels, prepend=-1))
        width = max(1.4 * 0.6**rank, 0.3)
        for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
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


def curves(metrics: pd.DataFrame, monitor: str | None = None, *, kept: int | None = None) -> Figure:
    """Draw the training loss, the held-out metrics and the learning rate over the epochs, and mark the best epoch.

    Parameters
    ----------
    metrics
        The ``metrics.csv`` of Lightning's logger: ``step``, ``epoch``, ``loss``, ``val_...`` and ``lr-...``, where any
        but the step may be missing, and rows fill some columns each.
    monitor
        The metric that chooses the best epoch, by its column: highest for a name that ends in ``pcc``, lowest for
        others. By default ``val_pcc``, or the first ``val_...`` there is.

    kept
        The epoch to mark, where it is known which was kept; by default the best by ``monitor``.

    Returns
    -------
    The figure. A notebook shows it as the result of its cell.

    Raises
    ------
    DataError
        If there is no such metric, or nothing to draw.
    """
    held_out = [str(c) for c in metrics if str(c).startswith("val_") and metrics[c].notna().any()]
    losses = [c for c in ("loss",) if c in metrics and metrics[c].notna().any()]
    rates = [str(c) for c in metrics if str(c).startswith("lr") and metrics[c].notna().any()][:1]
    if not losses + held_out:
        raise DataError("metrics", "they hold neither loss nor val_ columns", "give Lightning's metrics.csv")
    if monitor is not None and monitor not in held_out:
        raise DataError(monitor, "there is no such metric", f"choose among {', '.join(held_out) or 'none'}")
    monitor = monitor or next(iter(sorted(held_out, key=lambda name: name != "val_pcc")), None)
    columns = losses + held_out + rates
    time = _epochs(metrics)
    figure = Picture(figsize=(6.5, 0.7 + 1.6 * len(columns)), layout="constrained", dpi=150)
    panels = dict(zip(columns, figure.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0], strict=True))
    for column, ax in panels.items():
        _curve(ax, time, metrics[column], column)
    if monitor is not None:
        _mark(panels, time, metrics[monitor], monitor, kept)
    panels[columns[-1]].set_xlabel("epochs")
    panels[columns[-1]].xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.align_ylabels()
    return figure


def _epochs(metrics: pd.DataFrame) -> NDArray[np.float64]:
    """Return how many epochs had passed at each row, with fractions."""
    step = metrics["step"].to_numpy(np.float64) + 1
    if "epoch" not in metrics or metrics["epoch"].isna().all():
        return step
    known = metrics["epoch"].notna().to_numpy()
    epochs = metrics["epoch"].to_numpy(np.float64)[known] + 1
    return step * float(epochs.max() / step[known].max())


def _curve(ax: Axes, time: NDArray[np.float64], values: pd.Series, name: str) -> None:
    """Draw one column: a loss a step thinly, its mean of each epoch boldly; others as they are."""
    known = values.notna().to_numpy()
    x, y = time[known], values.to_numpy(np.float64)[known]
    if name == "loss":
        epoch = np.ceil(x - 1e-9)
        mean = pd.Series(y).groupby(epoch).mean()
        ax.plot(x, y, color=GREY, lw=0.6, alpha=0.7)
        x, y = mean.index.to_numpy(), mean.to_numpy()
    dots = "o" if len(x) <= (60 if name.startswith("val_") else 3) else ""
    ax.plot(x, y, color=VERMILION if name.startswith("val_") else BLUE, lw=1.6, marker=dots, ms=3)
    title = "learning rate" if name.startswith("lr") else TITLES.get(name.removeprefix("val_"), name)
    ax.set_ylabel(title, fontsize=8)
    if name == "loss" and y.min() > 0 and np.max(values) > 20 * y.min():
        ax.set_yscale("log")
    ax.tick_params(labelsize=7)
    ax.grid(axis="y", color="0.92", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _mark(
    panels: dict[str, Axes], time: NDArray[np.float64], values: pd.Series, monitor: str, kept: int | None
) -> None:
    """Mark the kept epoch, or the best, in every panel, with the monitored value in its own."""
    known = values.notna().to_numpy()
    x, y = time[known], values.to_numpy(np.float64)[known]
    if kept is not None:
        best = int(np.abs(x - kept).argmin())
    else:
        best = int(np.argmax(y) if monitor.endswith("pcc") else np.argmin(y))
    for ax in panels.values():
        ax.axvline(x[best], color="black", lw=0.8, ls=(0, (4, 3)), zorder=0)
    ax = panels[monitor]
    ax.plot(x[best], y[best], marker="*", ms=11, color="black", mec="white", mew=0.8, zorder=5)
    what, plural = "best" if kept is None else "kept", "s" if round(x[best]) != 1 else ""
    text = f"{what}: {y[best]:.3f} after {x[best]:.0f} epoch{plural}"
    ax.set_title(text, fontsize=8, loc="right", pad=3)
