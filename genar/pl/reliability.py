"""Which genes of a model are to be believed."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from genar import keys
from genar.errors import DataError
from genar.pl.colours import BLUE, VERMILION
from genar.pl.figure import new_axes
from genar.pl.hierarchy import panel_of
from genar.reliability import MEAN_PCC, WORST_PCC

if TYPE_CHECKING:
    import pandas as pd
    from anndata import AnnData

    from genar.store import Model

RELIABLE, UNRELIABLE = BLUE, VERMILION
NEEDED = (keys.HELDOUT_PCC, keys.HELDOUT_PCC_MIN, keys.RELIABLE)


def reliability(model_or_adata: "Model | AnnData | pd.DataFrame", *, ax: Axes | None = None) -> Axes:
    """Draw how well each gene was predicted on sections left out, from the best to the worst.

    A dot is a gene's mean correlation over the sections, the line below it ends at its worst section. Lines across show
    what a reliable gene has to reach with each.

    Parameters
    ----------
    model_or_adata
        A model, its panel, or a result of :func:`genar.predict`.
    ax
        Where to draw; by default a new pyplot figure, which a notebook shows below its cell.

    Returns
    -------
    The axes.

    Raises
    ------
    DataError
        If the model was not judged on sections left out.
    """
    panel = panel_of(model_or_adata)
    missing = [name for name in NEEDED if name not in panel]
    if missing:
        why = f"they have no {missing[0]}: the model was not judged on sections left out"
        raise DataError("the genes", why, "train a model with another split than none")
    panel = panel.sort_values(keys.HELDOUT_PCC, ascending=False, kind="stable")
    pcc, worst = (panel[name].to_numpy(float) for name in NEEDED[:2])
    known, reliable = np.isfinite(pcc), panel[keys.RELIABLE].to_numpy(bool)
    rank = np.arange(1, len(panel) + 1)
    ax = ax or new_axes((6, 4))
    for which, colour, label in ((reliable, RELIABLE, "reliable"), (known & ~reliable, UNRELIABLE, "not reliable")):
        ax.vlines(rank[which], worst[which], pcc[which], color=colour, alpha=0.35, lw=0.8)
        marker = "o" if label == "reliable" else "x"
        ax.plot(rank[which], pcc[which], marker, ms=3.5, color=colour, label=f"{label}: {which.sum():,}")
    for height, style, what in ((MEAN_PCC, "--", "mean"), (WORST_PCC, ":", "worst section")):
        ax.axhline(height, color="0.35", lw=1, ls=style, zorder=0, label=f"{what}: {height:g} needed")
    undefined = f", {(~known).sum():,} not judged" if not known.all() else ""
    ax.set_title(f"{reliable.sum():,} of {len(panel):,} genes are reliable{undefined}", fontsize=10)
    ax.set(xlabel="genes by mean correlation", ylabel="PCC on sections left out")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, frameon=False)
    return ax
