"""Which genes a model predicts."""

import numpy as np
import pandas as pd
from anndata import AnnData

from genar.errors import DataError


def top_mean(sections: list[AnnData], n_genes: int) -> pd.Index:
    """Choose the genes with the highest mean raw count over the spots of the training sections.

    Parameters
    ----------
    sections
        Training sections with raw counts in ``X``.
    n_genes
        Size of the panel.

    Returns
    -------
    Gene symbols measured in every section, highest mean first (ties by name).

    Raises
    ------
    DataError
        If the sections share fewer than ``n_genes`` genes.
    """
    shared = sections[0].var_names
    for section in sections[1:]:
        shared = shared.intersection(section.var_names)
    if len(shared) < n_genes:
        raise DataError(
            "the training sections",
            f"they share only {len(shared)} genes",
            "ask for at most that many (panel.n_genes)",
        )
    totals = sum(np.asarray(s[:, shared].X.sum(axis=0)).ravel() for s in sections)
    return pd.Series(totals, index=shared).sort_index().sort_values(ascending=False, kind="stable").index[:n_genes]
