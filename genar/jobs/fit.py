"""One training run under Lightning: sections in, a model directory out."""

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch
from anndata import AnnData

from genar import __version__, keys, ood
from genar.data.module import Batches, SpotsDataModule
from genar.data.splits import Split
from genar.data.spots import SpotTable, library_size
from genar.errors import ConfigError, ModelError
from genar.genes import grouping
from genar.genes.hierarchy import Blocks, Hierarchy
from genar.jobs.config import TrainConfig
from genar.jobs.linear import fit_linear
from genar.jobs.module import GenARModule
from genar.jobs.run import is_first_process
from genar.jobs.trainer import Keep, trainer_of
from genar.slide.section import metadata
from genar.store import Model, ModelInfo, build, load
from genar.write.atomic import beside
from genar.write.card import model_card

logger: logging.Logger = logging.getLogger("genar")

MODEL, LAST, DONE = "model", "last.ckpt", "fit.json"
MOST_CLUSTERED = 20_000  # spots that describe a gene when genes are clustered


def fit(
    config: TrainConfig,
    train: Sequence[AnnData],
    validation: Sequence[AnnData],
    genes: pd.Index,
    split: Split,
    folder: Path,
    *,
    epochs: int | None = None,
) -> Model:
    """Cluster a panel and train the decoder, all on the training sections alone.

    Goes on where an earlier call with the same arguments was interrupted. Writes ``model/``, the best model so far;
    ``metrics.csv``; ``last.ckpt``, what a resumption needs; and, at the end, ``fit.json``.

    Parameters
    ----------
    config
        The run.
    train, validation
        Sections with features; validation sections, which may be none, choose the epoch.
    genes
        The panel.
    split
        What the model says of its sections.
    folder
        Where to write.
    epochs
        Epochs to train for, where they are known already; the learning rate still follows ``trainer.max_epochs``.

    Returns
    -------
    The model, loaded from its directory.
    """
    if (folder / DONE).exists():
        logger.info("this training was finished before")
    else:
        L.seed_everything(config.seed, workers=True, verbose=False)
        if is_first_process():
            for left in folder.glob(f".{MODEL}.*"):  # what a killed process had begun to write
                shutil.rmtree(left)
        model, tables = prepare(config, train, validation, genes, split)
        _run(config, model, tables, folder, epochs)
    return load(folder / MODEL)


def best_epoch(folder: Path) -> int:
    """Return the epoch, from 1, that a finished :func:`fit` kept."""
    return int(json.loads((folder / DONE).read_text())["epoch"])


def prepare(
    config: TrainConfig, train: Sequence[AnnData], validation: Sequence[AnnData], genes: pd.Index, split: Split
) -> tuple[Model, tuple[SpotTable, SpotTable | None]]:
    """Build the untrained model, and the tables of its training and validation spots."""
    encoder = config.tiles.encoder
    table = SpotTable.of(train, genes, encoder, config.model)
    for name, seen in zip(table.names, table.measured, strict=True):
        if not seen.all():
            logger.info("section %s did not measure %d of the %d genes", name, (~seen).sum(), len(genes))
    order, tree = _hierarchy(config, table, genes)
    genes = genes[order]
    table = table.ordered(order)
    panel = pd.DataFrame({keys.TRAIN_MEAN: table.mean_counts()}, index=genes).join(tree.columns().set_index(genes))
    ids = _gene_ids(train, genes)
    if ids is not None:
        panel.insert(0, keys.GENE_IDS, ids)
    info = _info(config, train, table, tree, split)
    network = build(info, panel)
    feature_mean, std = table.feature_moments()
    network.condition.feature_mean.copy_(torch.from_numpy(feature_mean))
    network.condition.feature_std.copy_(torch.from_numpy(std))
    if config.model.library_size:
        network.condition.log_library_mean.fill_(float(table.log_library_size.mean()))
    if config.model.linear:
        alpha, fold = fit_linear(network, table, config.tiles.views, config.seed)
        table = replace(table, fold=fold)
        logger.info("the linear path has penalty %.3g", alpha)
    # as on a new slide, whose depth is not known
    held_out = SpotTable.of(validation, genes, encoder, config.model, info.library_size) if validation else None
    reference = ood.fit(table, np.concatenate([s.obsm[keys.SPATIAL] for s in train]))
    return Model(info, panel, network, reference=reference), (table, held_out)


def _hierarchy(config: TrainConfig, table: SpotTable, genes: pd.Index) -> tuple[np.ndarray, Hierarchy]:
    """Cluster the genes on some of the training spots."""
    rows = table.sample(MOST_CLUSTERED, config.seed)
    counts = np.where(table.measured[table.section[rows]], table.counts[rows].astype(np.float32), np.nan)
    settings = config.hierarchy
    return grouping.build(counts, genes, settings.method, settings.scales, config.seed, settings.file)


def _gene_ids(sections: Sequence[AnnData], genes: pd.Index) -> pd.Series | None:
    """Return the genes' Ensembl ids as far as a section knows them; None if none does."""
    known = [s.var[keys.GENE_IDS].astype(str) for s in sections if keys.GENE_IDS in s.var]
    if not known:
        return None
    ids: pd.Series = pd.concat(known)
    found: pd.Series = ids[~ids.index.duplicated()].reindex(genes).fillna("")
    return found


def _info(
    config: TrainConfig, sections: Sequence[AnnData], table: SpotTable, tree: Hierarchy, split: Split
) -> ModelInfo:
    """Describe the model, with the spots' geometry as the sections state it."""
    known = metadata(sections[0])
    return ModelInfo(
        name=config.name,
        encoder=config.tiles.encoder,
        feature_dim=table.features[0].shape[1],
        encoder_fingerprint=_fingerprint(known.get(keys.fingerprint(config.tiles.encoder))),
        tile_um=config.tiles.tile_um,
        lattice=known[keys.LATTICE],
        spot_um=known[keys.SPOT_UM],
        pitch_um=known[keys.PITCH_UM],
        scales=tree.scales,
        grouping="blocks" if isinstance(tree, Blocks) else "clusters",
        max_count=config.panel.max_count or max(1, int(table.counts.max())),
        network=config.model,
        library_size=float(np.median([library_size(s) for s in sections])),
        genar_version=__version__,
        sections=table.names,
        split=split.for_model(),
    )


def _fingerprint(values: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the encoder's fingerprint to six digits; None where the features came without."""
    return None if values is None else tuple(float(f"{value:.6g}") for value in values)


def _run(
    config: TrainConfig, model: Model, tables: tuple[SpotTable, SpotTable | None], folder: Path, epochs: int | None
) -> None:
    """Train ``model``, from the start or where it was interrupted."""
    settings, (table, held_out) = config.trainer, tables
    network, last = model.network, folder / LAST
    network.recompute = settings.recompute
    card = model_card(model.info, config.card, pd.DataFrame())
    keep = Keep(model, folder / MODEL, card, settings, held_out=held_out is not None, epochs=epochs)
    state = _interrupted(last, model, folder / MODEL) if last.exists() else None
    module = GenARModule(
        network, config.optimizer, settings, 0 if held_out is None else len(held_out.names), config.seed
    )
    if settings.compile:
        network.loss = torch.compile(network.loss)  # type: ignore[method-assign]
    data = SpotsDataModule(
        table, held_out, settings.batch_size, seed=config.seed, workers=settings.workers,
        first_epoch=0 if state is None else state["epoch"] + 1,
    )  # fmt: skip
    if state is not None:
        keep.load_state_dict(state["callbacks"]["Keep"])
        logger.info("going on after epoch %d", state["epoch"] + 1)
    if state is None or not state["callbacks"]["Keep"]["finished"]:
        steps = len(Batches(table, settings.batch_size, config.seed))
        trainer = trainer_of(config, keep, folder, steps, 0 if state is None else state["global_step"])
        try:
            trainer.fit(module, data, ckpt_path=None if state is None else last, weights_only=True)
        except SystemExit as e:  # what Lightning makes of an interrupt
            raise KeyboardInterrupt from e
        if trainer.is_global_zero:
            _done(folder, keep)
        trainer.strategy.barrier()  # the others read what the first has written
    else:
        _done(folder, keep)


def _interrupted(last: Path, model: Model, directory: Path) -> dict[str, Any]:
    """Read the checkpoint of an interrupted training, and make sure that it was of this panel."""
    try:
        state: dict[str, Any] = torch.load(last, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, UnpicklingError) as e:
        remedy = "remove it: this training then begins anew"
        raise ModelError(last, f"it is damaged ({' '.join(str(e).split())[:100]})", remedy) from e
    before, now = load(directory).panel, model.panel
    groups = [c for c in now if str(c).startswith(keys.group(0)[:-1])]
    if not before.index.equals(now.index) or not before[groups].equals(now[groups]):
        why = "the panel or its groups are not those that the run was begun with"
        raise ConfigError(directory, why, "restore the files that name them, or add --overwrite to begin anew")
    return state


def _done(folder: Path, keep: Keep) -> None:
    """Note that the training is finished, and what it kept; there is nothing to resume then."""
    best = keep.best if np.isfinite(keep.best) else None
    with beside(folder / DONE) as path:
        path.write_text(json.dumps({"epoch": keep.epoch, "monitor": keep.monitor, "best": best}))
    (folder / LAST).unlink(missing_ok=True)
