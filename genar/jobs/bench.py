"""A benchmark: GenAR and what it has to beat, trained and judged on the same sections, fold by fold."""

import logging
from pathlib import Path

import pandas as pd

from genar.data.splits import Split
from genar.errors import ConfigError
from genar.jobs import cells
from genar.jobs.bench_files import write
from genar.jobs.benchmark import Benchmark
from genar.jobs.cells import Cell
from genar.jobs.config import TrainConfig
from genar.jobs.contenders import METHODS, Fold
from genar.jobs.judge import judged_on
from genar.jobs.prepare import FEATURES
from genar.jobs.run import RunFolder
from genar.jobs.train import Data, load

logger = logging.getLogger("genar")


def bench(
    config: TrainConfig,
    *,
    seeds: int = 3,
    methods: tuple[str, ...] = METHODS,
    resume: bool = False,
    overwrite: bool = False,
) -> Benchmark:
    """Train methods on each fold of a split, and judge them on the sections left out.

    All learn from the same spots, features and genes, which are chosen on a fold's training sections alone. The split
    and the features are those of ``config.seed``, whichever seed a method has. What does not depend on the seed is run
    once. Writes the folder that docs/bench.md describes.

    Parameters
    ----------
    config
        The data, the split, and how the networks are trained.
    seeds
        How many, from ``config.seed``.
    methods
        Names of :data:`genar.jobs.contenders.METHODS`.
    resume
        Go on with what is in the output folder, if there is anything. It may be of other methods and seeds.
    overwrite
        Replace it.

    Raises
    ------
    ConfigError
        If there is no such method, the split leaves nothing out, or what is to be resumed had other settings or data.
    OutputError
        If the folder cannot be written to, or holds something already.
    DataError, SlideError
        If a section cannot be used.
    """
    cells.check(config, methods, seeds)
    if config.split.method == "none":
        raise ConfigError("split.method", "none leaves no section to judge on", "choose another with --split")
    folder = RunFolder(config.output)
    folder.check(config, resume=resume, overwrite=overwrite)
    with folder.log(cells.LOG) as begin_log:
        data = load(config)
        with folder.working():
            folder.begin(config, data.runs, {name: s.uns[FEATURES] for name, s in data.sections.items()})
            begin_log()
            result = _compared(config, data, methods, seeds)
        write(result, config.output)
    return result


def _compared(config: TrainConfig, data: Data, methods: tuple[str, ...], seeds: int) -> Benchmark:
    """Do every cell."""
    folds = {run: Fold(config, data, run) for run, split in data.runs.items() if split.test}

    def work(cell: Cell, folder: Path) -> cells.Tables:
        return measured(folds[cell.fold], cell, folder)

    scores, genes = cells.kept(cells.of_folds(list(folds), methods, seeds, config.seed), config.output, work)
    return Benchmark(scores, genes, _warnings([fold.split for fold in folds.values()], data.unknown))


def measured(fold: Fold, cell: Cell, folder: Path) -> cells.Tables:
    """Train a method on a fold and judge it on each section left out."""
    predictions = fold.predictions(cell.method, cell.seed, folder)
    tests = dict(zip(fold.split.test, fold.tests, strict=True))
    rows, genes = judged_on(tests, predictions, fold.genes, fold.training)
    return pd.DataFrame(rows), genes


def _warnings(splits: list[Split], unknown: tuple[str, ...]) -> tuple[str, ...]:
    """List what a reader of the figures should know."""
    said = []
    if shared := sorted({patient for split in splits for patient in split.shared}):
        said.append(f"Optimistic: sections of patient {', '.join(shared)} were learnt from, too.")
    if unknown:
        said.append(
            f"Perhaps optimistic: the patients of sections {', '.join(unknown)} were not known, and each counts as one "
            "of its own."
        )
    return tuple(said)
