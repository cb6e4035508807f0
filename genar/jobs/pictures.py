"""The pictures of a run."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import pl
from genar.data.spots import counts_of
from genar.jobs.fit import best_epoch
from genar.jobs.trainer import METRICS
from genar.store import Model

CURVES, HIERARCHY = "curves.png", "hierarchy.png"
MOST_DRAWN = 20_000  # spots that genes are correlated over


def draw_curves(training: Path, folder: Path) -> None:
    """Draw the learning curves of a finished training, with the epoch that was kept, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.curves(pd.read_csv(training / METRICS), kept=best_epoch(training)).savefig(folder / CURVES)


def draw_hierarchy(model: Model, sections: Sequence[AnnData], folder: Path) -> None:
    """Draw a model's hierarchy over the correlations of its genes in its training sections."""
    each = max(1, MOST_DRAWN // len(sections))
    rows = [slice(None, None, max(1, -(-s.n_obs // each))) for s in sections]
    genes = model.panel.index
    counts = [
        np.where(genes.isin(s.var_names), counts_of(s[some], genes), np.nan)
        for s, some in zip(sections, rows, strict=True)
    ]
    pl.correlations(model, np.concatenate(counts)).savefig(folder / HIERARCHY)
