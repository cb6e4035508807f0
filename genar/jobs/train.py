"""Training: measured sections in, a model directory and what it is worth out."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch
from anndata import AnnData

from genar import reliability
from genar.data.splits import FINAL, Split, plan
from genar.device import device_of
from genar.errors import ConfigError
from genar.jobs.config import TrainConfig
from genar.jobs.evaluation import draw, picture_of, read_back
from genar.jobs.fit import MODEL, best_epoch, fit
from genar.jobs.judge import compared
from genar.jobs.pictures import draw_curves, draw_hierarchy
from genar.jobs.prepare import FEATURES, choose_panels, gather, survey
from genar.jobs.run import HELDOUT, HELDOUT_GENES, RunFolder, is_first_process
from genar.store import Model, describe
from genar.store import load as load_model
from genar.write.atomic import beside
from genar.write.card import means, model_card

__all__ = ["TrainConfig", "train"]

logger: logging.Logger = logging.getLogger("genar")

BASELINES = ("ridge", "gene mean")  # what a model has to beat
SELECTION = "selection"  # within a run's folder: the training that says for how many epochs to refit


@dataclass(frozen=True)
class Data:
    """The sections of a run, and how they are used.

    Parameters
    ----------
    sections
        Counts of the panels' genes and memory-mapped features, by name.
    runs
        The split of each training run, the last of which makes the model.
    panels, refits
        The genes of each run, and of its refit.
    unknown
        Sections whose patient is not known, so that each counts as one of its own.
    """

    sections: dict[str, AnnData]
    runs: dict[str, Split]
    panels: dict[str, pd.Index]
    refits: dict[str, pd.Index]
    unknown: tuple[str, ...] = ()

    def of(self, names: Sequence[str] | dict[str, str]) -> list[AnnData]:
        """Return some of the sections."""
        return [self.sections[name] for name in names]


def train(config: TrainConfig, *, resume: bool = False, overwrite: bool = False) -> pd.DataFrame:
    """Train a model and judge it on sections that it did not see.

    Writes the run folder that docs/training.md describes. Sections are read and checked first: nothing is written if
    one cannot be used.

    Parameters
    ----------
    config
        The run.
    resume
        Go on with the run that was interrupted there, if there is one.
    overwrite
        Replace a run that is there.

    Returns
    -------
    The held-out metrics of the model and of what it has to beat, a row a section and method; empty if nothing was
    held out.

    Raises
    ------
    ConfigError
        If the run cannot be done as it is configured, or is not the one to be resumed.
    OutputError
        If the run folder cannot be written to, or holds something already.
    DataError, SlideError
        If a section cannot be used.
    """
    if config.trainer.accelerator == "gpu" and not torch.cuda.is_available():
        raise ConfigError("trainer.accelerator", "there is no GPU with CUDA here", "set it to auto or cpu")
    if config.trainer.tensorboard and not find_spec("tensorboard"):
        raise ConfigError("trainer.tensorboard", "TensorBoard is not installed", 'run pip install "genar[tensorboard]"')
    folder = RunFolder(config.output)
    folder.check(config, resume=resume, overwrite=overwrite)
    with folder.log() as begin_log:
        data = load(config)
        with folder.working():
            folder.begin(config, data.runs, {name: s.uns[FEATURES] for name, s in data.sections.items()})
            begin_log()
            return _train(config, data, folder)


def load(config: TrainConfig) -> Data:
    """Read and check the sections, split them, choose the panels and gather what the runs need."""
    surveyed, known = survey(config)
    runs = plan(
        config.split,
        {s.source.name: s.patient for s in surveyed},
        {s.source.name: s.fingerprint for s in surveyed},
        config.seed,
    )
    panels = choose_panels(config, surveyed, runs, known)
    merged = {run: split.merged() for run, split in runs.items() if config.trainer.refit}
    refits = choose_panels(config, surveyed, merged, known)
    genes = pd.Index(sorted(set().union(*panels.values(), *refits.values())))
    unknown = tuple(s.source.name for s in surveyed if not s.patient_known)
    return Data(gather(config, surveyed, genes, known), runs, panels, refits, unknown)


def _train(config: TrainConfig, data: Data, folder: RunFolder) -> pd.DataFrame:
    """Do what :func:`train` says with sections that have been read."""
    alone = config.trainer.devices * config.trainer.num_nodes == 1
    for run, split in data.runs.items():
        whole = "all sections" if config.trainer.refit or not split.validation else "all sections but what stops it"
        where = f"without {', '.join(split.test)}" if split.test else f"on {whole}"
        logger.info("training %s (%d sections, %d to stop it)", where, len(split.train), len(split.validation))
        train_one(config, data, run, folder.of(run))
        if alone and split.test and run != FINAL:
            judge(config, data, run, folder.of(run))
    if not is_first_process():
        return pd.DataFrame()
    # several processes train on while one judges, and would wait for it too long: all is judged at the end
    judged = [judge(config, data, run, folder.of(run)) for run, split in data.runs.items() if split.test]
    model = load_model(folder.root / MODEL)
    heldout = pd.concat([table for table, _ in judged], ignore_index=True) if judged else pd.DataFrame()
    by_gene = pd.concat([pcc for _, pcc in judged], axis=1) if judged else pd.DataFrame(index=model.panel.index)
    heldout.to_csv(folder.root / HELDOUT, index=False)
    by_gene.to_csv(folder.root / HELDOUT_GENES, index_label="gene")
    reliability.add(model.panel, by_gene)
    shared = sorted({patient for split in data.runs.values() for patient in split.shared})
    describe(model, folder.root / MODEL, model_card(model.info, config.card, heldout, shared, data.unknown))
    _warn(heldout, model)
    final = data.runs[FINAL].merged() if config.trainer.refit else data.runs[FINAL]
    draw_hierarchy(model, data.of(final.train), folder.root)
    return heldout


def _warn(heldout: pd.DataFrame, model: Model) -> None:
    """Say so if the model, or most of its genes, are not worth having."""
    if (said := reliability.reliability_warning(model.panel)) is not None:
        logger.warning("%s", said)
    if heldout.empty:
        return
    error = means(heldout).set_index("method")["MSE"]
    if error["GenAR"] >= error["gene mean"]:
        logger.warning(
            "on held-out sections the model errs more (MSE %.3f) than each gene's mean does (%.3f): do not use it; "
            "train longer, on more sections, or a smaller network", error["GenAR"], error["gene mean"],
        )  # fmt: skip


def train_one(config: TrainConfig, data: Data, run: str, folder: Path) -> Model:
    """Train the model of one run, and again on all but its test sections if so configured."""
    split = data.runs[run]
    first = folder / SELECTION if config.trainer.refit else folder
    model = fit(config, data.of(split.train), data.of(split.validation), data.panels[run], split, first)
    if is_first_process():
        draw_curves(first, folder)
    if not config.trainer.refit:
        return model
    epochs, merged = best_epoch(first), split.merged()
    logger.info("training again with the sections that stopped it, for %d epochs", epochs)
    return fit(config, data.of(merged.train), [], data.refits[run], merged, folder, epochs=epochs)


def judge(config: TrainConfig, data: Data, run: str, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare a run's model with the baselines on its test sections, unless its folder tells of that already."""
    paths = folder / HELDOUT, folder / HELDOUT_GENES
    if run != FINAL and all(path.exists() for path in paths):
        table, by_gene = (read_back(path) for path in paths)
        return table, by_gene.set_index("gene")
    split, model = data.runs[run], load_model(folder / MODEL)
    tests = {name: data.sections[name] for name in split.test}
    found, predictions = compared(
        model, data.of(split.learnt), tests, BASELINES, seed=config.seed, device=device_of(config.trainer.device)
    )
    for (name, section), prediction in zip(tests.items(), predictions, strict=True):
        draw(found, name, section, prediction, model.panel.index).savefig(folder / picture_of(name))
    table, by_gene = found.short(), found.correlations(model.panel.index)
    logger.info("held out: %s\n%s", ", ".join(split.test), table.round(3).to_string(index=False))
    if run != FINAL:
        reliability.add(model.panel, by_gene)
        describe(model, folder / MODEL, model_card(model.info, config.card, table, split.shared, data.unknown))
        for path, frame in zip(paths, (table, by_gene.rename_axis("gene").reset_index()), strict=True):
            with beside(path) as temporary:
                frame.to_csv(temporary, index=False)
    return table, by_gene
