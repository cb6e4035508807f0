"""The cells of a benchmark, one a fold, method and seed: each is done once, and its tables are kept."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from genar.errors import ConfigError
from genar.jobs.config import TrainConfig
from genar.jobs.contenders import check_methods, seeds_of
from genar.jobs.evaluation import GENES, SCORES, read_back
from genar.slide.section import library_name
from genar.write.atomic import atomic

logger = logging.getLogger("genar")

CELLS, LOG = "cells", "bench.log"
Tables = tuple[pd.DataFrame, pd.DataFrame]


class Cell(NamedTuple):
    """One training of one method."""

    fold: str
    method: str
    seed: int

    def folder(self, root: Path) -> Path:
        """Return where it is done."""
        return root / CELLS / library_name(self.fold) / library_name(self.method) / str(self.seed)


def check(config: TrainConfig, methods: tuple[str, ...], seeds: int) -> None:
    """Raise ConfigError unless this can be compared."""
    check_methods(methods)
    if seeds < 1:
        raise ConfigError("--seeds", f"{seeds} is too few", "give 1 or more")
    if config.trainer.devices * config.trainer.num_nodes > 1:
        raise ConfigError("trainer.devices", "a benchmark runs on one device", "set it, and num_nodes, to 1")


def of_folds(folds: list[str], methods: tuple[str, ...], seeds: int, first: int) -> list[Cell]:
    """List the cells of some folds, fold by fold."""
    return [Cell(f, m, s) for f in folds for m in methods for s in seeds_of(m, first, seeds)]


def kept(cells: list[Cell], root: Path, work: Callable[[Cell, Path], Tables]) -> Tables:
    """Do the cells that were not done before, and return the tables of all, each below the other.

    Parameters
    ----------
    cells
        The cells.
    root
        The output folder.
    work
        Does a cell in its folder, and returns its scores, and those of its genes.
    """
    found = []
    for number, cell in enumerate(cells, 1):
        folder, begun = cell.folder(root), time.monotonic()
        paths = folder / GENES, folder / SCORES  # the last says that it is done
        said = f"cell {number} of {len(cells)}: {cell.fold}, {cell.method}, seed {cell.seed}"
        if paths[1].exists():
            logger.info("%s: done before", said)
        else:
            logger.info("%s", said)
            scores, genes = work(cell, folder)
            with atomic(*paths, overwrite=True) as temporary:
                for frame, path in zip((genes, scores), temporary, strict=True):
                    frame.to_csv(path, index=False)
            pcc = scores["PCC"].mean()
            logger.info("done: PCC %.3f, %.0f s", pcc, time.monotonic() - begun)
        genes, scores = (read_back(path) for path in paths)
        found.append(tuple(_labelled(frame, cell) for frame in (scores, genes)))
    scores, genes = (pd.concat(parts, ignore_index=True) for parts in zip(*found, strict=True))
    return scores, genes


def _labelled(frame: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Put method and seed after the section."""
    frame.insert(1, "method", cell.method)
    frame.insert(2, "seed", cell.seed)
    return frame
