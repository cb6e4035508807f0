"""One training run under Lightning: sections in, a model directory out."""

import csv
import json
import logging
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import lightning as L
import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO

from genar import __version__, keys
from genar.data.module import Batches, SpotsDataModule
from genar.data.splits import Split
from genar.data.spots import SpotTable, library_size
from genar.errors import ConfigError, ModelError
from genar.genes import grouping
from genar.genes.hierarchy import Blocks, Hierarchy
from genar.jobs.config import TrainConfig, TrainerConfig
from genar.jobs.module import GenARModule
from genar.jobs.run import is_first_process
from genar.slide.section import metadata
from genar.store import Model, ModelInfo, build, load, save
from genar.write.atomic import beside
from genar.write.card import model_card

logger = logging.getLogger("genar")

MODEL, METRICS, LAST, DONE = "model", "metrics.csv", "last.ckpt", "fit.json"
SHOWN = ("loss", "val_nll", "val_pcc")
LOGGED = 5  # steps between two lines of the log
MOST_CLUSTERED = 20_000  # spots that describe a gene when genes are clustered


class BesideIO(TorchCheckpointIO):
    """Checkpoints that appear whole or not at all: Lightning's own go through the temporary folder of the system."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write a checkpoint beside its target, and rename it."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with beside(Path(path)) as temporary:
            torch.save(checkpoint, temporary)


class Keep(L.Callback):
    """Writes the model directory whenever the model is the best yet, and stops the training when none comes.

    Where nothing is held out, the latest model is kept.

    Parameters
    ----------
    model
        What is written, with the weights of the moment.
    directory
        Where to.
    card
        The model card.
    settings
        Which epochs may be the best, and how long to wait for a better one.
    held_out
        Whether there are held-out spots.
    epochs
        Epochs after which training stops; None for no such end.
    """

    def __init__(
        self, model: Model, directory: Path, card: str, settings: TrainerConfig, *, held_out: bool, epochs: int | None
    ) -> None:
        self.model, self.directory, self.card, self.settings = model, directory, card, settings
        self.monitor, self.epochs = f"val_{settings.monitor}" if held_out else None, epochs
        self.best, self.epoch, self.finished = -np.inf, 0, False

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write the model if it is to be kept, and say whether this was the last epoch."""
        epoch = trainer.current_epoch + 1
        if self._is_best(trainer, epoch):
            self.epoch = epoch
            if trainer.is_global_zero:
                network = cast("GenARModule", pl_module).judged
                save(Model(self.model.info, self.model.panel, network), self.directory, self.card)
        figures = {name: float(trainer.callback_metrics[name]) for name in SHOWN if name in trainer.callback_metrics}
        line = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        kept = " (kept)" if self.epoch == epoch and self.monitor else ""
        logger.log(logging.DEBUG if sys.stderr.isatty() else logging.INFO, "epoch %d: %s%s", epoch, line, kept)
        waited = self.monitor is not None and epoch - self.epoch >= self.settings.patience
        self.finished = waited or epoch == self.epochs
        trainer.should_stop |= self.finished

    def _is_best(self, trainer: L.Trainer, epoch: int) -> bool:
        """Tell whether to keep this epoch: the best of those that may be, and until then the latest."""
        if self.monitor is None or epoch < self.settings.min_epochs:
            return True
        score = float(trainer.callback_metrics[self.monitor]) * (1 if self.monitor == "val_pcc" else -1)
        if epoch > self.settings.min_epochs and not score > self.best:
            return False
        self.best = score if np.isfinite(score) else -np.inf
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training must know."""
        return {"best": float(self.best), "epoch": self.epoch, "finished": self.finished}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what an interrupted training knew."""
        self.best, self.epoch = state_dict["best"], state_dict["epoch"]


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
    table = replace(table, counts=table.counts[:, order], measured=table.measured[:, order])
    seen = table.measured[table.section]
    mean = (table.counts * seen).sum(axis=0, dtype=np.float64) / np.maximum(seen.sum(axis=0), 1)
    panel = pd.DataFrame({keys.TRAIN_MEAN: mean}, index=genes).join(tree.columns().set_index(genes))
    ids = _gene_ids(train, genes)
    if ids is not None:
        panel.insert(0, keys.GENE_IDS, ids)
    info = _info(config, train, table, tree, split)
    network = build(info, panel)
    feature_mean, std = table.feature_moments()
    network.condition.feature_mean.copy_(torch.from_numpy(feature_mean))
    network.condition.feature_std.copy_(torch.from_numpy(np.where(std > 1e-6, std, np.float32(1))))
    if config.model.library_size:
        network.condition.log_library_mean.fill_(float(table.log_library_size.mean()))
    # as on a new slide, whose depth is not known
    held_out = SpotTable.of(validation, genes, encoder, config.model, info.library_size) if validation else None
    return Model(info, panel, network), (table, held_out)


def _hierarchy(config: TrainConfig, table: SpotTable, genes: pd.Index) -> tuple[np.ndarray, Hierarchy]:
    """Cluster the genes on some of the training spots."""
    rows = np.arange(len(table))
    if len(rows) > MOST_CLUSTERED:
        rows = np.sort(np.random.default_rng(config.seed).choice(rows, MOST_CLUSTERED, replace=False))
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
        trainer = _trainer(config, keep, folder, steps, 0 if state is None else state["global_step"])
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


def _trainer(config: TrainConfig, keep: Keep, folder: Path, steps: int, step: int) -> L.Trainer:
    """Set up Lightning's trainer for epochs of ``steps``, with the log up to ``step`` of an interrupted training."""
    settings = config.trainer
    cuda = torch.cuda.is_available() and settings.accelerator != "cpu"
    precision = settings.precision
    if precision == "auto":
        precision = "bf16-mixed" if cuda and torch.cuda.is_bf16_supported() else "32-true"
    last = ModelCheckpoint(folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False)
    callbacks: list[L.Callback] = [keep, last, LearningRateMonitor("step")]
    if sys.stderr.isatty():
        callbacks.append(RichProgressBar())
    loggers: list[Any] = [_log(folder, step)]
    if settings.tensorboard:
        loggers.append(TensorBoardLogger(folder, name="tensorboard", version=""))
    return L.Trainer(
        max_epochs=settings.max_epochs,
        accelerator="cuda" if cuda else "cpu",
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        strategy=settings.strategy,
        precision=precision,
        gradient_clip_val=settings.gradient_clip,
        logger=loggers,
        enable_progress_bar=sys.stderr.isatty(),
        callbacks=callbacks,
        plugins=[BesideIO()],
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=1.0 if keep.monitor else 0,
        use_distributed_sampler=False,
        log_every_n_steps=min(LOGGED, steps),
        deterministic="warn" if config.model.distribution == "ordinal" else True,  # its cumulative sum is not, on CUDA
    )


def _log(folder: Path, step: int) -> CSVLogger:
    """Open ``metrics.csv``, with what it held before ``step``: Lightning would begin it anew."""
    path, before = folder / METRICS, []
    if step and path.exists():
        with path.open(newline="") as file:
            before = [row for row in csv.DictReader(file) if int(row["step"]) < step]
    log = CSVLogger(folder.parent, name=folder.name, version="")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Experiment logs directory")  # that it is not empty, and begun anew
        for row in before:
            known: dict[str, Any] = {
                name: int(value) if name == "epoch" else float(value)
                for name, value in row.items()
                if name != "step" and value
            }
            log.log_metrics(known, int(row["step"]))
        if before:
            log.save()
        else:
            path.unlink(missing_ok=True)
            _ = log.experiment
    return log
