"""How methods compare on held-out sections."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from genar.pl.colours import PALETTE
from genar.pl.figure import Picture

SHOWN = ("PCC-10", "PCC-50", "PCC-200", "PCC", "MSE", "MAE")


def scores(table: pd.DataFrame, figures: Sequence[str] = SHOWN) -> Figure:
    """Draw each figure of each method: a point a section, and a bar at their mean.

    Parameters
    ----------
    table
        A row a section and method, with the columns ``section``, ``method`` and the figures.
    figures
        Which.

    Returns
    -------
    The figure. A notebook shows it as the result of its cell.
    """
    methods = list(table["method"].unique())
    figure = Picture(figsize=(2.1 * len(figures), 1.2 + 0.35 * len(methods)), layout="constrained", dpi=150)
    for ax, name in zip(figure.subplots(1, len(figures), sharey=True, squeeze=False)[0], figures, strict=True):
        for row, method in enumerate(methods):
            values, colour = table.loc[table["method"] == method, name], PALETTE[row % len(PALETTE)]
            ax.plot(values, [row] * len(values), "o", ms=4, color=colour, alpha=0.6, mew=0)
            ax.plot([values.mean()] * 2, [row - 0.3, row + 0.3], color=colour, lw=2)
        ax.set_title(name, fontsize=8)
        ax.tick_params(labelsize=7)
        ax.grid(axis="x", lw=0.4, color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    ax.set_yticks(range(len(methods)), methods)
    ax.invert_yaxis()
    figure.supxlabel("a point a section, a bar their mean; on log2(count + 1)", fontsize=7, color="0.35")
    return figure
