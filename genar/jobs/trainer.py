"""Lightning's trainer as genar uses it: what is kept, where it is logged, and when it stops."""

import csv
import logging
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO

from genar.device import device_of
from genar.jobs.config import TrainConfig, TrainerConfig
from genar.store import Model, save
from genar.write.atomic import beside

if TYPE_CHECKING:
    from genar.jobs.module import GenARModule

logger: logging.Logger = logging.getLogger("genar")

METRICS = "metrics.csv"
SHOWN = ("loss", "val_nll", "val_pcc")
LOGGED = 5  # steps between two lines of the log


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
                save(replace(self.model, network=network), self.directory, self.card)
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


def trainer_of(config: TrainConfig, keep: Keep, folder: Path, steps: int, step: int) -> L.Trainer:
    """Set up Lightning's trainer for epochs of ``steps``, with the log up to ``step`` of an interrupted training."""
    settings = config.trainer
    cuda = device_of(settings.device).type == "cuda"
    precision = settings.precision
    if precision == "auto":
        precision = "bf16-mixed" if cuda and torch.cuda.is_bf16_supported() else "32-true"
    last = ModelCheckpoint(folder, filename="last", save_on_train_epoch_end=True, enable_version_counter=False)
    callbacks: list[L.Callback] = [keep, last, LearningRateMonitor("step")]
    if sys.stderr.isatty():
        callbacks.append(RichProgressBar())
    loggers: list[Any] = [log_of(folder, step)]
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


def log_of(folder: Path, step: int) -> CSVLogger:
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
            _ = log.experiment  # which removes an older log, in the first process alone
    return log
