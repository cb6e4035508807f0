"""Sample sheets: a table of sections, one a line."""

from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import pandas as pd

from genar.errors import DataError

COLUMNS = ("path", "section", "image", "mpp", "patient", "format", "bin_um")
SUFFIXES = (".csv", ".tsv")

N = TypeVar("N", int, float)


def read_sheet(path: Path) -> list[dict[str, str]]:
    """Read a sample sheet: a dictionary a line, without its empty cells.

    Everything is text, so that a section called ``007`` keeps its zeros. Relative paths are made relative to the
    sheet.

    Raises
    ------
    DataError
        If the sheet cannot be read or is empty, a column is unknown, or a line has no path.
    """
    try:
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        table = pd.read_csv(path, sep=separator, dtype=str, encoding="utf-8-sig", keep_default_na=False)
    except (OSError, ValueError) as e:
        raise DataError(path, f"it cannot be read ({' '.join(str(e).split())})", "give a whole table") from e
    for column in (name for name in table.columns if name not in COLUMNS):
        near = get_close_matches(str(column), COLUMNS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"columns are {', '.join(COLUMNS)}"
        raise DataError(path, f"it has an unknown column {column!r}", remedy)
    if "path" not in table or table.empty:
        why = "it lists no section" if "path" in table else "it lacks the column path"
        raise DataError(path, why, "give a line a section, with its path")
    lines = [
        {str(key): str(value).strip() for key, value in line.items() if str(value).strip()}
        for line in table.to_dict("records")
    ]
    for number, line in enumerate(lines, start=2):
        if "path" not in line:
            raise DataError(path, f"line {number} has no path", "give every section's path")
        for column in ("path", "image"):
            if column in line:
                line[column] = str(path.parent / Path(line[column]).expanduser())
    return lines


def number(line: dict[str, str], column: str, kind: type[N], sheet: Path) -> N | None:
    """Read a number from a line of a sheet, None where the cell is empty.

    Raises
    ------
    DataError
        If it is not a positive number.
    """
    if column not in line:
        return None
    try:
        value = kind(line[column])
    except ValueError:
        value = kind(0)
    if not value > 0:
        raise DataError(sheet, f"{line[column]!r} in the column {column} is not a number above 0", "correct it")
    return value
