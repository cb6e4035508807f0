"""What a trained model is worth on sections that it did not see, beside what it has to beat."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys, metrics, tl
from genar.baselines.mean import gene_mean
from genar.baselines.ridge import pca_ridge
from genar.data.spots import SpotTable, counts_of
from genar.pl import genes as draw_genes
from genar.store import Model

PICTURE = "genes-{section}.png"


def evaluate(
    model: Model,
    train: Sequence[AnnData],
    test: Sequence[AnnData],
    folder: Path | None = None,
    device: str = "cpu",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge a model on sections that it did not see, beside baselines with the same sections and features.

    Parameters
    ----------
    model
        The model.
    train
        Sections that the baselines learn from: those that the model learnt from, or was stopped by.
    test
        Held-out sections with features. A gene that one did not measure does not count there.
    device
        Where the model predicts.
    folder
        Where to draw, for each of them, some genes as predicted and measured; None for no pictures.

    Returns
    -------
    metrics
        A row a section and method: PCC-10/50/200 and MSE on log2(count + 1) of the counts in ``X``.
    pcc
        Each gene's correlation in each section: 0 where it is undefined, NaN where the gene was not measured.
    """
    genes, encoder = model.panel.index, model.info.encoder
    known, unknown = SpotTable.of(train, genes, encoder), [SpotTable.of([s], None, encoder) for s in test]
    baselines = {"PCA+ridge": pca_ridge(known, unknown, 0), "gene mean": gene_mean(known, unknown, 0)}
    tables, correlations = [], {}
    for number, one in enumerate(test):
        name = str(one.obs[keys.LIBRARY_ID].iloc[0])
        seen = genes.isin(one.var_names)
        measured = counts_of(one, genes)
        predicted = metrics.log_counts(tl.predict(one, model, device=device).X.toarray())
        methods = {"GenAR": predicted} | {m: found[number].log for m, found in baselines.items()}
        table = pd.DataFrame({m: metrics.summary(p[:, seen], measured[:, seen]) for m, p in methods.items()}).T
        table = table.rename_axis("method").reset_index()
        table.insert(0, "section", name)
        tables.append(table)
        pcc = np.nan_to_num(metrics.pearson(predicted, metrics.log_counts(measured)), nan=0.0)
        correlations[name] = pd.Series(np.where(seen, pcc, np.nan), index=genes)
        if folder is not None:
            shown = list(genes[seen])
            figure = draw_genes(measured[:, seen], np.exp2(predicted[:, seen]) - 1, shown, pcc[seen], title=name)
            figure.savefig(folder / PICTURE.format(section=name))
    return pd.concat(tables, ignore_index=True), pd.DataFrame(correlations)
