"""The hidden folder in which a slide's features and half-written files lie while it is in work."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from genar.errors import OutputError
from genar.write.atomic import ELSEWHERE

HIDDEN = ".genar"
TRIES = 100


@contextmanager
def scratch(output: Path, name: str) -> Iterator[Path]:
    """Give one slide a folder, ``<output>/.genar/<name>``, that goes when its result is written.

    Parameters
    ----------
    output
        The output folder.
    name
        Name of the result.

    Yields
    ------
    The folder. On failure it stays if it holds features, for the next try.

    Raises
    ------
    OutputError
        If it cannot be made, or the name is none of a file.
    """
    if Path(name).name != name or name in ("", ".."):  # else what is removed below would be another folder
        raise OutputError(output, f"a result cannot be called {name!r}", "give it another name")
    folder = output / HIDDEN / name
    made = [p for p in (folder, *folder.parents) if not p.exists()]  # innermost first
    _make(folder)
    try:
        yield folder
    except BaseException:
        if not any(path.suffix in (".h5", ".partial") for path in folder.glob("*")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
        made = []
    finally:
        for path in (folder.parent, *made):
            with suppress(OSError):
                path.rmdir()  # of what is empty


def _make(folder: Path) -> None:
    """Make the folder, though other processes may be removing its parent, which theirs was the last in."""
    for left in reversed(range(TRIES)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return
        except OSError as e:
            if left == 0 or not isinstance(e, FileNotFoundError):
                raise OutputError(folder, f"it cannot be made ({e.strerror})", ELSEWHERE) from e
