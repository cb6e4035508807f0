"""An index of the pages in a folder, made from what each says of itself at its head."""

import json
from pathlib import Path

from genar.errors import OutputError
from genar.write.atomic import ELSEWHERE, atomic, check_writable
from genar.write.report.page import render

INDEX = "index.html"
HEAD = 200_000  # bytes of a page that its summary lies within
BEGIN, END = '<script type="application/json" id="summary">', "</script>"
MARK = 'content="genar '  # of the generator that a page names
INDEX_MARK = f"<!-- genar {INDEX} -->"  # which no page of a slide has


def summary_of(page: Path) -> dict[str, object] | None:
    """Read what a page says of itself; None where it is no page of genar's."""
    try:
        with page.open("rb") as file:
            head = file.read(HEAD).decode(errors="replace")
        found = json.loads(head.partition(BEGIN)[2].partition(END)[0])
    except (OSError, ValueError):
        return None
    return found if MARK in head and isinstance(found, dict) else None


def is_current(page: Path, table: Path) -> bool:
    """Tell whether a page is there and not older than its result."""
    return page.exists() and page.stat().st_mtime_ns >= table.stat().st_mtime_ns


def check_index(folder: Path) -> None:
    """Raise now, rather than after long work, if the folder's index could not be written.

    Raises
    ------
    OutputError
        If it is something else than an index of genar's, or its folder cannot be written to.
    """
    path = folder / INDEX
    check_writable(path, overwrite=True)
    if path.exists() and INDEX_MARK not in path.read_bytes()[:1000].decode(errors="replace"):
        raise OutputError(path, "it exists and is no index of genar's", f"move it, or {ELSEWHERE}")


def write_index(folder: Path) -> Path:
    """Write ``index.html``, which shows all of genar's pages in a folder; an earlier one is replaced.

    Returns
    -------
    Its path.

    Raises
    ------
    OutputError
        As :func:`check_index`.
    """
    check_index(folder)
    found = [(page.name, summary_of(page)) for page in sorted(folder.glob("*.html"))]
    pages = [(name, summary) for name, summary in found if summary]
    with atomic(folder / INDEX, overwrite=True) as (temporary,):
        temporary.write_text(render("index.html.j2", pages=pages), encoding="utf-8", errors="replace")
    return folder / INDEX
