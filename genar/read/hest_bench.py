"""The folders of HEST-Bench (Jaume et al., NeurIPS 2024): its tasks, and who learns and who is judged in each fold."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from genar.errors import DataError

GENES = "var_50genes.json"
SPLITS = "splits"
COLUMNS = ["sample_id", "patches_path", "expr_path"]
LAYOUT = (
    f"give a folder laid out as HEST-Bench: <task>/{GENES}, <task>/splits/train_0.csv and test_0.csv with the columns "
    f"{', '.join(COLUMNS)}, <task>/patches/<id>.h5 and <task>/adata/<id>.h5ad"
)


@dataclass(frozen=True)
class Sample:
    """One section: its name, its file of patches, and the AnnData of its counts."""

    name: str
    patches: Path
    expression: Path


@dataclass(frozen=True)
class Fold:
    """Which samples a method learns from, and on which it is judged, in the order of the task's tables."""

    number: int
    train: tuple[Sample, ...]
    test: tuple[Sample, ...]


@dataclass(frozen=True)
class Task:
    """One of the benchmark's data sets.

    Parameters
    ----------
    name
        Name of its folder, for example ``"IDC"``.
    genes
        The genes to predict, 50 in the published tasks.
    folds
        Its folds, by number.
    """

    name: str
    genes: pd.Index
    folds: tuple[Fold, ...]


def tasks(root: Path | str, names: Sequence[str] | None = None) -> list[Task]:
    """Find the tasks in a folder of HEST-Bench.

    Parameters
    ----------
    root
        The folder of the benchmark.
    names
        Which tasks; by default all folders with a folder of splits.

    Raises
    ------
    DataError
        If there is none, or one is not laid out as the benchmark is; it names the file at fault.
    """
    root = Path(root)
    found = [root / n for n in names] if names is not None else sorted(p.parent for p in root.glob(f"*/{SPLITS}"))
    if not found:
        raise DataError(root, "it holds no task", LAYOUT)
    return [_task(folder) for folder in found]


def _task(folder: Path) -> Task:
    splits = {side: _numbered(folder / SPLITS, side) for side in ("train", "test")}
    if not splits["train"]:
        raise DataError(folder / SPLITS, "there is no train_0.csv", LAYOUT)
    for number in sorted(splits["train"].keys() ^ splits["test"].keys()):
        side = "test" if number in splits["train"] else "train"
        raise DataError(folder / SPLITS / f"{side}_{number}.csv", "there is no such file", LAYOUT)
    folds = []
    for number, path in sorted(splits["train"].items()):
        fold = Fold(number, _samples(path, folder), _samples(splits["test"][number], folder))
        both = {sample.name for sample in fold.train} & {sample.name for sample in fold.test}
        if both:
            raise DataError(splits["test"][number], f"{min(both)} is among its training samples", "split them anew")
        folds.append(fold)
    return Task(folder.name, _genes(folder / GENES), tuple(folds))


def _numbered(folder: Path, side: str) -> dict[int, Path]:
    """Find the tables of one side, by the number of their fold."""
    paths = [(re.fullmatch(rf"{side}_(\d+)", path.stem), path) for path in folder.glob("*.csv")]
    return {int(found[1]): path for found, path in paths if found}


def _samples(path: Path, folder: Path) -> tuple[Sample, ...]:
    """Read a table of samples, whose paths are relative to the task's folder."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as e:
        raise DataError(path, f"it cannot be read ({' '.join(str(e).split())[:160]})", LAYOUT) from e
    missing = [column for column in COLUMNS if column not in table]
    if missing or table.empty:
        why = f"it has no column {missing[0]}" if missing else "it names no sample"
        raise DataError(path, why, LAYOUT)
    rows = table[COLUMNS].itertuples(index=False, name=None)
    return tuple(Sample(name, folder / patches, folder / expression) for name, patches, expression in rows)


def _genes(path: Path) -> pd.Index:
    """Read the genes of a task."""
    try:
        genes = json.loads(path.read_text())["genes"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise DataError(path, f"its genes cannot be read ({' '.join(str(e).split())[:160]})", LAYOUT) from e
    known = isinstance(genes, list) and genes and all(isinstance(gene, str) for gene in genes)
    if not known or len(set(genes)) < len(genes):
        raise DataError(path, "its genes are no list of different names", LAYOUT)
    index: pd.Index = pd.Index(genes, dtype=object)
    return index
