"""The pictures of a run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import pl
from genar.data.spots import counts_of
from genar.jobs.fit import METRICS
from genar.store import Model

CURVES, HIERARCHY = "curves.png", "hierarchy.png"
MOST_DRAWN = 20_000  # spots that genes are correlated over


def draw(model: Model, sections: Sequence[AnnData], folder: Path) -> None:
    """Draw a run's learning curves, and its hierarchy over the correlations of its genes in the training sections."""
    pl.curves(pd.read_csv(folder / METRICS)).savefig(folder / CURVES)
    each = max(1, MOST_DRAWN // len(sections))
    rows = [slice(None, None, max(1, -(-s.n_obs // each))) for s in sections]
    genes = model.panel.index
    counts = [
        np.where(genes.isin(s.var_names), counts_of(s[some], genes), np.nan)
        for s, some in zip(sections, rows, strict=True)
    ]
    pl.hierarchy(model, np.concatenate(counts)).savefig(folder / HIERARCHY)
