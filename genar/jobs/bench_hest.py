"""HEST-Bench with any encoder and with GenAR: the benchmark's folds and figure, cell by cell."""

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd

from genar.data.splits import FINAL, Split, SplitConfig, plan
from genar.jobs import cells
from genar.jobs.bench_files import SUMMARY, TABLE, markdown, report, summarised
from genar.jobs.benchmark import Benchmark
from genar.jobs.cells import Cell
from genar.jobs.config import TrainConfig
from genar.jobs.contenders import CONTINUOUS, Fold
from genar.jobs.evaluation import GENAR, GENES, number
from genar.jobs.hest_bench import Score, fold_score, read_task, run_fold
from genar.jobs.prepare import fingerprint
from genar.jobs.run import RunFolder
from genar.jobs.train import Data
from genar.read import hest_bench as layout
from genar.read.hest_bench import Task
from genar.read.hest_sample import log1p, side_um
from genar.write.atomic import atomic

OFFICIAL = "HEST-Bench ridge"
FOLDS = "folds.csv"
METHODS = (OFFICIAL, GENAR)

logger = logging.getLogger("genar")


def bench_hest(
    config: TrainConfig,
    *,
    seeds: int = 3,
    methods: tuple[str, ...] = METHODS,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Benchmark]:
    """Run HEST-Bench: on each fold of each task, methods learn its genes, and are judged as the benchmark judges.

    A gene's Pearson correlation on log1p of the raw counts is over the spots of all test samples of a fold together; a
    fold's figure is the mean over genes, a task's that over folds. ``HEST-Bench ridge`` is the benchmark's own
    regression, :func:`genar.baselines.hest.hest_ridge`. Of the others E[log(count + 1)] is judged; GenAR keeps some of
    a fold's training samples to stop its training, as ``config.split.validation`` says. The encoder runs in float32,
    where the published figures are of half precision for some. A gene without a correlation counts as 0 (the published
    code makes such a fold's mean NaN).

    Parameters
    ----------
    config
        The benchmark's folder in ``data.root``, the tasks in ``data.sections`` (all by default), the encoder, and how
        the networks are trained. Panel, tile and split are the benchmark's.
    seeds, methods, resume, overwrite
        As of :func:`genar.jobs.bench.bench`.

    Returns
    -------
    By task, what was found: the fold stands for the section, and ``PCC`` is the one figure.

    Raises
    ------
    DataError
        If the folder is not laid out as the benchmark is.
    ConfigError, OutputError, SlideError
        As :func:`genar.jobs.bench.bench`.
    """
    cells.check(config, methods, seeds)
    tasks = layout.tasks(config.data.root, config.data.sections)
    folder = RunFolder(config.output)
    folder.check(config, resume=resume, overwrite=overwrite)
    with folder.log(cells.LOG) as begin_log:
        networks = not {GENAR, CONTINUOUS}.isdisjoint(methods)
        folds = {task.name: _folds(config, task, networks=networks) for task in tasks}
        every = {run: fold for of_task in folds.values() for run, fold in of_task.items()}
        folder.begin(config, {run: fold.split for run, fold in every.items()}, {})  # views are of networks alone
        begin_log()
        with folder.working():
            result = {task.name: _of_task(task, folds[task.name], methods, seeds, config) for task in tasks}
        _write(result, config.output)
    return result


def _folds(config: TrainConfig, task: Task, *, networks: bool) -> dict[str, Fold]:
    """Read a task's samples, with features, and name its folds."""
    tiles = config.tiles
    samples = read_task(
        task, tiles.encoder, weights=tiles.weights, cache=config.data.cache, device=config.trainer.device,
        views=tiles.views if networks else 0, seed=config.seed,
    )  # fmt: skip
    sections = {f"{task.name}/{sample.name}": section for sample, section in samples.items()}
    prints = {name: fingerprint(section) for name, section in sections.items()}
    tiles = tiles.model_copy(update={"tile_um": side_um(task.folds[0].train[0])})
    folds = {}
    for fold in task.folds:
        run = f"{task.name}-{fold.number}"
        train, test = ([f"{task.name}/{s.name}" for s in side] for side in (fold.train, fold.test))
        split = _split(config, {name: prints[name] for name in (*train, *test)}, test)
        if networks and not split.validation:
            logger.info("%s: no sample is left to stop GenAR's training: it takes all its epochs", run)
        trainer = config.trainer.model_copy(update={"refit": config.trainer.refit and bool(split.validation)})
        own, panels = {name: sections[name] for name in (*train, *test)}, {run: task.genes}
        data = Data(own, {run: split}, panels, panels)
        folds[run] = Fold(config.model_copy(update={"tiles": tiles, "trainer": trainer}), data, run)
    return folds


def _split(config: TrainConfig, prints: dict[str, str], test: list[str]) -> Split:
    """Hold out some training samples, each for a patient, to stop GenAR's training; none of a single one."""
    alone = len(prints) - len(test) == 1 or config.split.validation == "none"
    settings = SplitConfig(
        method="holdout", test=tuple(test), validation="none" if alone else "section",
        validation_share=config.split.validation_share,
    )  # fmt: skip
    return plan(settings, {name: name for name in prints}, prints, config.seed)[FINAL]


def _of_task(
    task: Task, folds: dict[str, Fold], methods: tuple[str, ...], seeds: int, config: TrainConfig
) -> Benchmark:
    """Do every cell of a task."""
    numbers = {f"{task.name}-{fold.number}": fold for fold in task.folds}

    def work(cell: Cell, folder: Path) -> cells.Tables:
        fold, official = folds[cell.fold], numbers[cell.fold]
        if cell.method == OFFICIAL:
            sections = {s: fold.data.sections[f"{task.name}/{s.name}"] for s in (*official.train, *official.test)}
            score = run_fold(official, sections, config.tiles.encoder)[0]
        else:
            score = _judged(fold, cell, folder)
        spots = {"n_train": len(fold.known), "n_test": sum(test.n_obs for test in fold.tests)}
        row = {"section": official.number, "PCC": score.pcc, "undefined": score.undefined} | spots
        genes = pd.DataFrame({"section": official.number, "gene": task.genes, "pcc": score.by_gene})
        return pd.DataFrame([row]), genes

    scores, genes = cells.kept(cells.of_folds(list(folds), methods, seeds, config.seed), config.output, work)
    return Benchmark(scores, genes)


def _judged(fold: Fold, cell: Cell, folder: Path) -> Score:
    """Train and judge a method: its estimate of log1p counts, the spots of all test samples together."""
    predictions = fold.predictions(cell.method, cell.seed, folder)
    predicted = np.concatenate([p.log for p in predictions]) * np.log(2)
    return fold_score(predicted, np.concatenate([log1p(test) for test in fold.tests]))


def means(result: dict[str, Benchmark]) -> pd.DataFrame:
    """Return the mean correlation over folds and seeds, a row a method and a column a task; ``mean`` is over tasks."""
    table = pd.DataFrame({task: found.means()["PCC"] for task, found in result.items()})
    return table.assign(mean=table.mean(axis=1))


def table_of_tasks(result: dict[str, Benchmark]) -> str:
    """Return the benchmark's Markdown table, the tasks beside each other."""
    found = means(result)
    rows = [
        [str(method), *(f"{value:.4f}" for value in row)]
        for method, row in zip(found.index, found.to_numpy(), strict=True)
    ]
    return markdown(["PCC", *map(str, found)], rows)


def _write(result: dict[str, Benchmark], folder: Path) -> None:
    """Write what was found, all files or none."""
    with atomic(*(folder / name for name in (FOLDS, GENES, SUMMARY, TABLE)), overwrite=True) as targets:
        for path, which in zip(targets, ("scores", "genes"), strict=False):
            parts = [getattr(found, which).rename(columns={"section": "fold"}) for found in result.values()]
            parts = [part.assign(task=name)[["task", *part]] for name, part in zip(result, parts, strict=True)]
            pd.concat(parts, ignore_index=True).to_csv(path, index=False)
        said = {"tasks": {name: summarised(found) for name, found in result.items()}}
        overall = {str(method): number(value) for method, value in means(result)["mean"].items()}
        targets[2].write_text(json.dumps(said | {"mean": overall}, indent=1), encoding="utf-8")
        of_tasks = [f"## {name}\n\n{report(found, 'fold')}" for name, found in result.items()]
        targets[3].write_text("\n".join([table_of_tasks(result) + "\n", *of_tasks]), encoding="utf-8")
