"""How a model is judged on measured sections: free-running, with what its distributions are worth, beside baselines."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from torch import Tensor

from genar import keys
from genar.baselines import BASELINES
from genar.data.spots import SpotTable, counts_of
from genar.estimate import log_mean, moments
from genar.jobs.evaluation import GENAR, Evaluation
from genar.metrics import Prediction, Spread, Training, by_gene, log_counts, score
from genar.metrics.bootstrap import intervals
from genar.metrics.distribution import spread_of
from genar.metrics.spatial import adjacent
from genar.progress import bar
from genar.slide.section import metadata
from genar.store import Model

BATCH = 64  # spots decoded at once


def compared(
    model: Model,
    known: Sequence[AnnData],
    tests: Mapping[str, AnnData],
    baselines: Sequence[str],
    *,
    seed: int = 0,
    draws: int = 0,
    device: str | torch.device = "cpu",
) -> tuple[Evaluation, list[Prediction]]:
    """Judge a model on sections, by name, beside baselines with the same features and genes.

    Parameters
    ----------
    model
        The model.
    known
        Sections that the baselines learn from, those that the model learnt from or was stopped by, with features if
        there are baselines; none for no baselines, and no figures that take the training counts.
    tests
        The sections, with features. A gene that one did not measure does not count there.
    baselines
        Names of :data:`genar.baselines.BASELINES`.
    seed
        Of the baselines that draw.
    draws
        Of the bootstrap over spots; 0 for no intervals.
    device
        Where the model predicts.

    Returns
    -------
    What was found, and what the model predicted of each section.
    """
    sections, genes, encoder = list(tests.values()), model.panel.index, model.info.encoder
    own = [predicted(model, section, device) for section in bar(sections, "Predicting", shown=True)]
    predictions, training = {GENAR: own}, training_of(known, genes)
    if known and baselines:
        table = SpotTable.of(known, genes, encoder)
        unknown = [SpotTable.of([section], None, encoder) for section in sections]
        predictions |= {n: BASELINES[n](table, unknown, seed) for n in bar(baselines, "Baselines", shown=True)}
    rows, tables, spots = [], [], []
    for method, of_sections in predictions.items():
        figures, of_genes = judged_on(tests, of_sections, genes, training, method=method)
        rows += figures
        tables.append(of_genes)
        if draws:
            spots += [
                spot_intervals(prediction, section, genes, draws).assign(section=name, method=method)
                for (name, section), prediction in zip(tests.items(), of_sections, strict=True)
            ]
    found = pd.concat(tables, ignore_index=True)
    return Evaluation(model.info.name, pd.DataFrame(rows), found, spots=pd.concat(spots) if spots else None), own


def training_of(known: Sequence[AnnData], genes: pd.Index) -> Training | None:
    """Return what judging takes from the counts of training sections; None if there are none."""
    if not known:
        return None
    measured = np.stack([genes.isin(section.var_names) for section in known])
    counts = np.concatenate([counts_of(section, genes) for section in known])
    return Training.of(counts, np.repeat(measured, [section.n_obs for section in known], axis=0))


def spot_intervals(prediction: Prediction, section: AnnData, genes: pd.Index, draws: int) -> pd.DataFrame:
    """Return bootstrap intervals over a section's spots, of the genes that it measured.

    Returns
    -------
    A row a figure of :func:`genar.metrics.bootstrap.intervals`: ``figure``, ``low``, ``high``.
    """
    seen = np.flatnonzero(genes.isin(section.var_names))
    measured = log_counts(counts_of(section, genes[seen]))
    found = intervals(prediction.log[:, seen], measured, np.zeros(section.n_obs, dtype=np.int8), draws)
    return pd.DataFrame([{"figure": name, "low": low, "high": high} for name, (low, high) in found.items()])


def predicted(model: Model, section: AnnData, device: str | torch.device = "cpu") -> Prediction:
    """Predict a measured section's counts of the model's genes, [N, G], from its features.

    The depth, of a model that is conditioned on it, is that of its training sections, as on a new slide. What the
    distributions are worth at a gene that the section did not measure means nothing.
    """
    genes, info = model.panel.index, model.info
    table = SpotTable.of([section], None, info.encoder, info.network, info.library_size or 1.0)
    counts = torch.from_numpy(counts_of(section, genes))
    network, parts = model.network.to(device).eval(), []
    for start in range(0, section.n_obs, BATCH):
        rows = slice(start, min(start + BATCH, section.n_obs))
        measured = counts[rows].to(device)

        def read(p: Tensor, genes: slice, measured: Tensor = measured) -> tuple[Tensor, Tensor, Spread]:
            return log_mean(p), moments(p)[0], spread_of(p, measured[:, genes])

        parts.append(_joined(network.generate(table.spots(rows, device), read)))
    spread = Spread.joined([part.spread for part in parts if part.spread is not None], axis=0)
    return Prediction(np.concatenate([p.log for p in parts]), np.concatenate([p.counts for p in parts]), spread)


def _joined(chunks: list[tuple[Tensor, Tensor, Spread]]) -> Prediction:
    """Join the chunks of genes of one batch."""
    logs, means, spreads = zip(*chunks, strict=True)
    log, mean = (torch.cat(part, dim=1).cpu().numpy() for part in (logs, means))
    return Prediction(log, mean, Spread.joined(spreads))


def judged_on(
    tests: Mapping[str, AnnData],
    predictions: Sequence[Prediction],
    genes: pd.Index,
    training: Training | None,
    **labels: str,
) -> tuple[list[dict[str, str | float]], pd.DataFrame]:
    """Judge predictions of ``genes`` on sections, by name.

    Returns
    -------
    A row a section, its name, the ``labels`` and the figures of :func:`genar.metrics.score`; and a table with a row a
    section and gene: these, ``gene``, and the columns of :func:`genar.metrics.by_gene`.
    """
    rows: list[dict[str, str | float]] = []
    tables = []
    for (name, section), prediction in zip(tests.items(), predictions, strict=True):
        figures, table = judged(prediction, section, genes, training)
        where = {"section": name} | labels
        rows.append({**where, **figures})
        table = table.rename_axis("gene").reset_index()
        for place, (label, value) in enumerate(where.items()):
            table.insert(place, label, value)
        tables.append(table)
    return rows, pd.concat(tables, ignore_index=True)


def judged(
    prediction: Prediction, section: AnnData, genes: pd.Index, training: Training | None
) -> tuple[dict[str, float], pd.DataFrame]:
    """Judge a prediction of ``genes`` on the genes that a section measured.

    Returns
    -------
    Its figures, as :func:`genar.metrics.score` names them, and a row a gene, as :func:`genar.metrics.by_gene`.
    """
    seen = np.flatnonzero(genes.isin(section.var_names))
    some, counts = prediction.genes(seen), counts_of(section, genes[seen])
    known = None if training is None else training.genes(seen)
    place = metadata(section)
    xy = np.asarray(section.obsm[keys.SPATIAL]) * float(place[keys.MPP]) / float(place[keys.PITCH_UM])
    table = by_gene(some, counts, genes=genes[seen], training=known, neighbours=adjacent(xy))
    return score(some, counts, training=known, table=table), table
