"""Training: measured sections in, a model directory and what it is worth out."""

import logging
from collections.abc import Sequence
from pathlib import Path

import lightning as L
import numpy as np
import pandas as pd
import torch
import yaml
from anndata import AnnData
from lightning.pytorch.accelerators import CUDAAccelerator, MPSAccelerator
from lightning.pytorch.callbacks import RichProgressBar
from lightning.pytorch.loggers import CSVLogger

from genar import __version__, keys, metrics, pp, read, tl
from genar.baselines import gene_mean, pca_ridge
from genar.data.spots import SpotsDataModule, SpotTable, library_size
from genar.errors import ConfigError, OutputError
from genar.genes import hierarchy, panel
from genar.jobs.config import TrainConfig
from genar.jobs.module import GenARModule
from genar.slide.section import metadata
from genar.store import Model, ModelInfo, build, check_free, save
from genar.write.atomic import ELSEWHERE, check_writable
from genar.write.card import model_card

__all__ = ["TrainConfig", "evaluate", "fit", "load_sections", "train"]

logger = logging.getLogger("genar")


def train(config: TrainConfig) -> Path:
    """Train a model and judge it on sections that it did not see.

    Writes to ``config.output``: ``model/``, the model trained on all sections; ``folds/<section>/``, a model trained
    without that section; ``heldout.csv``, each fold's metrics beside the baselines'; ``heldout_genes.csv``, each
    gene's correlation; ``config.yaml``.

    Parameters
    ----------
    config
        The run.

    Returns
    -------
    The model directory.

    Raises
    ------
    ConfigError
        If the run cannot be done as it is configured.
    OutputError
        If the run folder cannot be written to, or holds something else where a model is to go.
    DataError, SlideError
        If a section cannot be read.
    """
    _check(config)
    sections = load_sections(config)
    try:
        return _train(config, sections)
    except OSError as e:  # nothing is read from here on
        why = f"it cannot be written to ({e.strerror or e})"
        raise OutputError(e.filename or config.output, why, f"free space, or {ELSEWHERE}") from e


def _check(config: TrainConfig) -> None:
    """Raise now, rather than after long work, if the run could not be done or written."""
    folds = config.data.sections if config.evaluation.split == "leave_one_section_out" else ()
    if len(folds) == 1:
        why = "leaving one section out needs two"
        raise ConfigError("data.sections", why, "name more or set evaluation.split: none")
    if config.trainer.accelerator == "gpu" and not (CUDAAccelerator.is_available() or MPSAccelerator.is_available()):
        raise ConfigError("trainer.accelerator", "there is no GPU here", "set it to auto or cpu")
    for name in ("config.yaml", "heldout.csv", "heldout_genes.csv", "logs/final/metrics.csv"):
        check_writable(config.output / name, overwrite=True)
    for directory in (config.output / "model", *(config.output / "folds" / name for name in folds)):
        check_free(directory)


def _train(config: TrainConfig, sections: Sequence[AnnData]) -> Path:
    """Do what :func:`train` says with sections that have been read."""
    config.output.mkdir(parents=True, exist_ok=True)
    (config.output / "config.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    table, pcc = pd.DataFrame(), pd.Series(dtype=np.float64)
    if config.evaluation.split == "leave_one_section_out":
        table, pcc = _leave_one_section_out(config, sections)
    logger.info("training %s on %s", config.name, ", ".join(config.data.sections))
    model = fit(config, sections, config.output / "logs" / "final")
    model.panel[keys.HELDOUT_PCC] = pcc.reindex(model.panel.index)
    directory = config.output / "model"
    save(model, directory, model_card(model.info, config.card, table))
    return directory


def load_sections(config: TrainConfig) -> list[AnnData]:
    """Read the sections and embed their spots."""
    sections = [read.st(config.data.root, name, mpp=config.data.mpp) for name in config.data.sections]
    for section in sections:
        pp.embed(section, encoder=config.tiles.encoder, tile_um=config.tiles.tile_um, progress=True)
    return sections


def fit(config: TrainConfig, sections: Sequence[AnnData], logs: Path) -> Model:
    """Choose the panel, cluster it and train the decoder, all on ``sections`` alone.

    Parameters
    ----------
    config
        The run.
    sections
        Training sections with features.
    logs
        Folder of the loss curve.

    Returns
    -------
    The trained model.
    """
    L.seed_everything(config.seed, workers=True, verbose=False)
    genes = panel.top_mean(list(sections), config.panel.n_genes)
    counts = np.concatenate([s[:, genes].X.toarray() for s in sections])
    order, tree = hierarchy.kmeans(counts, config.hierarchy.scales, config.seed)
    table = SpotTable.of(sections, genes[order], config.tiles.encoder, config.model)
    frame = pd.DataFrame({keys.TRAIN_MEAN: table.counts.mean(axis=0)}, index=genes[order])
    frame = frame.join(tree.columns().set_index(frame.index))
    if keys.GENE_IDS in sections[0].var:
        frame.insert(0, keys.GENE_IDS, sections[0].var.loc[frame.index, keys.GENE_IDS].astype(str))
    info = _info(config, sections, table, tree.scales)
    network = build(info, frame)
    network.condition.feature_mean.copy_(torch.from_numpy(table.features.mean(axis=0)))
    std = table.features.std(axis=0)
    network.condition.feature_std.copy_(torch.from_numpy(np.where(std > 1e-6, std, 1.0).astype(np.float32)))
    if config.model.library_size:
        network.condition.log_library_mean.fill_(float(table.log_library_size.mean()))
    network.recompute = config.trainer.recompute
    trainer = L.Trainer(
        max_epochs=config.trainer.max_epochs,
        accelerator=config.trainer.accelerator,
        devices=1,
        precision=config.trainer.precision,
        gradient_clip_val=config.trainer.gradient_clip,
        logger=CSVLogger(logs.parent, name=logs.name, version=""),
        callbacks=[RichProgressBar()],
        enable_checkpointing=False,
        enable_model_summary=False,
        log_every_n_steps=5,
        deterministic="warn" if config.model.distribution == "ordinal" else True,  # its cumulative sum is not, on CUDA
    )
    try:
        module = GenARModule(network, config.optimizer, config.trainer.thin_to)
        if config.trainer.compile:
            network.loss = torch.compile(network.loss)  # type: ignore[method-assign]
        trainer.fit(module, SpotsDataModule(table, config.trainer.batch_size))
    except SystemExit as e:  # what Lightning makes of an interrupt
        raise KeyboardInterrupt from e
    return Model(info, frame, network.cpu().eval())


def evaluate(model: Model, train_sections: Sequence[AnnData], test: AnnData) -> tuple[pd.DataFrame, pd.Series]:
    """Judge a model on a section that it did not see, beside baselines trained on the same sections and features.

    Parameters
    ----------
    model
        The model, trained on ``train_sections``.
    train_sections
        What the baselines learn from.
    test
        The held-out section. A panel gene that it lacks was not observed there and counts as 0.

    Returns
    -------
    metrics
        A row a method: PCC-10/50/200 and MSE on log2(count + 1) of the counts in ``X``.
    pcc
        Each gene's correlation, indexed by symbol; NaN where undefined.
    """
    genes, encoder = model.panel.index, model.info.encoder
    known = SpotTable.of(train_sections, genes, encoder)
    measured = test.to_df().reindex(columns=genes, fill_value=0).to_numpy()
    predicted = metrics.log_counts(tl.predict(test, model).X.toarray())
    ridge = pca_ridge(known.features, known.counts, known.section, np.asarray(test.obsm[keys.features(encoder)]))
    methods = {"GenAR": predicted, "PCA+ridge": ridge, "gene mean": gene_mean(known.counts, test.n_obs)}
    table = pd.DataFrame({name: metrics.summary(p, measured) for name, p in methods.items()}).T
    pcc = pd.Series(metrics.pearson(predicted, metrics.log_counts(measured)), index=genes)
    return table.rename_axis("method").reset_index(), pcc


def _leave_one_section_out(config: TrainConfig, sections: Sequence[AnnData]) -> tuple[pd.DataFrame, pd.Series]:
    """Train without each section in turn; write the folds' models and tables, return metrics and mean correlations."""
    tables, correlations = [], {}
    for name, test in zip(config.data.sections, sections, strict=True):
        logger.info("training without section %s", name)
        others = [s for s in sections if s is not test]
        model = fit(config, others, config.output / "logs" / name)
        table, pcc = evaluate(model, others, test)
        pcc = pcc.fillna(0.0)  # before sections are averaged: undefined is no correlation, not one left out
        model.panel[keys.HELDOUT_PCC] = pcc
        table.insert(0, "section", name)
        save(model, config.output / "folds" / name, model_card(model.info, config.card, table))
        tables.append(table)
        correlations[name] = pcc
        logger.info("held-out section %s\n%s", name, table.round(3).to_string(index=False))
    metrics_table, by_gene = pd.concat(tables, ignore_index=True), pd.DataFrame(correlations)
    metrics_table.to_csv(config.output / "heldout.csv", index=False)
    by_gene.to_csv(config.output / "heldout_genes.csv", index_label="gene")
    return metrics_table, by_gene.mean(axis=1)


def _info(config: TrainConfig, sections: Sequence[AnnData], table: SpotTable, scales: tuple[int, ...]) -> ModelInfo:
    """Describe the model, with the spots' geometry as the sections state it."""
    known = metadata(sections[0])
    return ModelInfo(
        name=config.name,
        encoder=config.tiles.encoder,
        feature_dim=table.features.shape[1],
        tile_um=config.tiles.tile_um,
        lattice=known[keys.LATTICE],
        spot_um=known[keys.SPOT_UM],
        pitch_um=known[keys.PITCH_UM],
        scales=scales,
        max_count=int(table.counts.max()),
        network=config.model,
        library_size=float(np.median([library_size(s) for s in sections])),
        genar_version=__version__,
        sections=tuple(str(s.obs[keys.LIBRARY_ID].iloc[0]) for s in sections),
    )
