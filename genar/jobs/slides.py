"""Which slides to predict: paths, or a table of them. Nothing here takes time or imports what does."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from genar.errors import ConfigError, DataError, SlideError

COLUMNS = ("slide", "mpp", "name")


@dataclass(frozen=True)
class Task:
    """One slide to predict.

    Parameters
    ----------
    slide
        Its file.
    name
        Name of the result, ``<name>.h5ad``.
    mpp
        Its resolution in µm per pixel, where the table of slides gives it.
    """

    slide: Path
    name: str
    mpp: float | None = None


def named(slide: Path) -> Path:
    """Return a slide's path with a name in it, which that of this folder or of the one above lacks."""
    return slide.resolve() if slide.name in ("", "..") else slide


def is_name(name: str) -> bool:
    """Tell whether a result can be called so: a file's name in UTF-8, and no hidden one."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\\0") and is_text(name)


def is_text(path: str | Path) -> bool:
    """Tell whether a path can be written to a file or a terminal; one that is no UTF-8 cannot."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_table(given: Sequence[Path]) -> bool:
    """Tell whether what was given is a table of slides."""
    return len(given) == 1 and given[0].suffix.lower() == ".csv"


def tasks_of(given: Sequence[Path], reserved: Sequence[str] = ()) -> list[Task]:
    """List the slides to predict.

    Parameters
    ----------
    given
        Slides, or one CSV with the column ``slide``, relative to the CSV, and perhaps ``mpp`` and ``name``.
    reserved
        Files that genar writes beside the results, whose names none of them may have.

    Raises
    ------
    DataError
        If the CSV cannot be read or a cell in it cannot be used.
    SlideError
        If a slide is not there, or its result cannot have its name.
    ConfigError
        If two results would have one name, or one a name that is reserved.
    """
    for path in given:
        if path.suffix.lower() == ".csv" and len(given) > 1:
            raise ConfigError(path, "a table of slides stands among slides", "give the table alone")
    tasks = _read(given[0]) if is_table(given) else [Task(named(slide), named(slide).stem) for slide in given]
    remedy = "call them otherwise in the column name of a CSV, or predict them into different folders with -o"
    names: dict[str, Task] = {}
    for task in tasks:
        if task.name in names:
            why = f"it and {names[task.name].slide} would both be called {task.name}"
            raise ConfigError(task.slide, why, remedy)
        for file in reserved:
            if task.name == Path(file).stem:
                raise ConfigError(task.slide, f"genar writes another file called {file}", remedy)
        _check_slide(task)
        names[task.name] = task
    return tasks


def _check_slide(task: Task) -> None:
    """Raise unless the slide is there and its result can have the name."""
    if not is_text(task.slide):
        raise SlideError(task.slide, "its path is not UTF-8", "rename the file or the folder")
    if not is_name(task.name):
        why = f"a result cannot be called {task.name!r}"
        raise SlideError(task.slide, why, "name it otherwise, in the column name of a CSV")
    try:
        is_there = task.slide.exists()
    except (OSError, ValueError) as e:
        raise SlideError(
            task.slide, f"it cannot be read ({getattr(e, 'strerror', None) or e})", "check the path"
        ) from e
    if not is_there:
        raise SlideError(task.slide, "there is no such file", "check the path")


def _read(table: Path) -> list[Task]:
    """Read a table of slides."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="", restval="", strict=True)
            columns = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, ValueError, csv.Error) as e:
        raise DataError(table, f"it cannot be read ({getattr(e, 'strerror', None) or e})", "give a CSV") from e
    for column in columns:
        if column not in COLUMNS:
            near = get_close_matches(column, COLUMNS, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"columns are {', '.join(COLUMNS)}"
            raise DataError(table, f"it has an unknown column {column!r}", remedy)
    if "slide" not in columns or not rows:
        why = "it lists no slide" if "slide" in columns else "it lacks the column slide"
        raise DataError(table, why, "give a line a slide, with its path")
    return [_task(table, number, row) for number, row in rows]


def _task(table: Path, number: int, row: dict[str, str]) -> Task:
    """Read one line of the table."""
    if "" in row:
        raise DataError(table, f"line {number} has more cells than there are columns", "quote cells that hold commas")
    slide, name, mpp = (row.get(column, "").strip() for column in ("slide", "name", "mpp"))
    if not slide:
        raise DataError(table, f"line {number} has no slide", "give its path")
    if name and not is_name(name):
        raise DataError(table, f"line {number}: {name!r} cannot be a file's name", "leave / and a leading dot out")
    try:
        value = float(mpp) if mpp else None
    except ValueError:
        value = 0.0
    if value is not None and not value > 0:
        raise DataError(table, f"line {number}: {mpp!r} in the column mpp is not a number above 0", "correct it")
    try:
        path = named(table.parent / Path(slide).expanduser())
    except (OSError, ValueError, RuntimeError) as e:  # the last: no such user
        raise SlideError(slide, f"line {number} of {table.name}: {e}", "correct the path") from e
    return Task(path, name or path.stem, value)
