"""``summary.csv``: a line a slide, kept current while a cohort runs."""

import csv
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from genar.encoders.lock import held
from genar.errors import OutputError
from genar.jobs.work import Outcome
from genar.write.atomic import ELSEWHERE, beside

SUMMARY = "summary.csv"
COLUMNS = ("slide", "name", "status", "error", "spots", "unlike", "seconds", "peak_memory_gb", "output")
MEASURED = ("spots", "seconds", "peak_memory_gb")
MADE = ("done", "present")  # whose lines say what making the result took
LOCK = ".summary.lock"
SHARE = 20  # of the time at most one in so many goes into writing


class Summary:
    """The table of a folder's results. Lines of slides that are not predicted now stay as they are.

    Parameters
    ----------
    folder
        The output folder.
    names
        Names of the slides that are predicted now, in their order.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.path = folder / SUMMARY
        self.place = {name: number for number, name in enumerate(names)}
        self.lines: dict[str, dict[str, str]] = {}
        self.due = 0.0

    def add(self, outcome: Outcome) -> None:
        """Add what came of a slide, and write the table unless that was done a moment ago."""
        values = asdict(outcome) | {"slide": outcome.task.slide, "name": outcome.task.name}
        if outcome.unlike is not None:
            values["unlike"] = round(outcome.unlike, 3)
        self.lines[outcome.task.name] = {key: "" if values[key] is None else str(values[key]) for key in COLUMNS}
        if time.monotonic() >= self.due:
            self.write()

    def write(self) -> None:
        """Write the table, whole or not at all.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        start = time.monotonic()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with held(self.path.parent / LOCK, f"writing {SUMMARY}"):  # else lines of another process would be lost
                self._write(self._merged(self._read()))
        except OSError as e:
            raise OutputError(self.path, f"it cannot be written ({e.strerror or e})", ELSEWHERE) from e
        self.due = time.monotonic() + SHARE * (time.monotonic() - start)

    def _merged(self, old: dict[str, dict[str, str]]) -> list[dict[str, str]]:
        """Return the lines that are there and the new ones, in order."""
        lines = old | self.lines
        for name, line in self.lines.items():
            if line["status"] == "present" and old.get(name, {}).get("status") in MADE:
                lines[name] = line | {key: old[name][key] for key in MEASURED}
        return [lines[name] for name in sorted(lines, key=lambda name: self.place.get(name, len(self.place)))]

    def _write(self, lines: list[dict[str, str]]) -> None:
        # of an output folder whose name is no UTF-8
        with (
            beside(self.path) as temporary,
            temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
        ):
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(lines)

    def _read(self) -> dict[str, dict[str, str]]:
        """Read the lines that are there, by name; a file that is no such table is replaced."""
        with suppress(OSError, ValueError, csv.Error), self.path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) == COLUMNS:
                return {line["name"]: {key: line[key] or "" for key in COLUMNS} for line in reader}
        return {}
