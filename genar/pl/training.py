"""What a training run looks like."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from genar.errors import DataError
from genar.pl.colours import BLUE, VERMILION
from genar.pl.figure import Picture

NAMED = 300  # a larger panel's genes are too many to read their names
ROW_PT, LARGEST_NAME_PT = 5.6, 8.0  # height of a gene's row in a large panel, and of its name in a small one
GREY = "0.6"
TITLES = {"loss": "training loss", "pcc": "held-out PCC", "nll": "held-out NLL"}


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
