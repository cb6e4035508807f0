"""Put a benchmark's table into the bundled model's card, and its main columns into the README.

``genar bench DIR --protocol her2st -o runs/bench`` first; then ``python scripts/readme_results.py runs/bench``.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CARD = ROOT / "genar/models/her2st-mini/README.md"
README = ROOT / "README.md"
MARKS = re.compile(r"(<!-- bench -->\n).*?(<!-- /bench -->)", re.DOTALL)
SHOWN = ("method", "PCC-10", "PCC-50", "PCC-200", "MSE")
SECTION = """
## Benchmark

`genar bench DIR --protocol her2st`: the same sections left out, every method trained on the same spots and features.

<!-- bench -->
<!-- /bench -->
"""


def rows(table: str) -> list[list[str]]:
    """Return the cells of the first Markdown table of a text, without its rule."""
    found: list[list[str]] = []
    for line in table.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
        elif found:
            break
    return [found[0], *found[2:]]


def main_columns(table: str) -> str:
    """Return the first table of a benchmark's ``table.md`` with the columns that the README shows."""
    head, *body = rows(table)
    at = [head.index(name) for name in SHOWN]
    lines = [[row[i] for i in at] for row in body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (SHOWN, ["---"] * len(SHOWN), *lines))


def put(text: str, table: str) -> str:
    """Return a text with the table between its marks."""
    return MARKS.sub(lambda marks: f"{marks[1]}{table.strip()}\n{marks[2]}", text)


if __name__ == "__main__":
    table = (Path(sys.argv[1]) / "table.md").read_text(encoding="utf-8")
    card = CARD.read_text(encoding="utf-8")
    CARD.write_text(put(card if MARKS.search(card) else card + SECTION, table), encoding="utf-8")
    README.write_text(put(README.read_text(encoding="utf-8"), main_columns(table)), encoding="utf-8")
