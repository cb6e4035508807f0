"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genar.errors import OutputError


def check_writable(target: Path, *, overwrite: bool) -> None:
    """Fail now, rather than after long work, if ``target`` could not be written.

    Raises
    ------
    OutputError
        If it exists and ``overwrite`` is not set, or its folder cannot be made or written to.
    """
    if target.is_dir():
        raise OutputError(target, "a folder of that name is in the way", "remove it, or choose another folder with -o")
    if target.exists() and not overwrite:
        raise OutputError(target, "it exists", "add --overwrite to replace it, or choose another folder with -o")
    folder = target.parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as e:
        why = f"its folder cannot be written to ({e.strerror})"
        raise OutputError(target, why, "choose another folder with -o") from e


@contextmanager
def atomic(*targets: Path, overwrite: bool) -> Iterator[tuple[Path, ...]]:
    """Write files beside their targets and rename them all at the end; on any failure none appears.

    Parameters
    ----------
    targets
        What is to be written, all in one folder, which is made if need be.
    overwrite
        Whether they may exist.

    Yields
    ------
    Temporary paths to write to, with the targets' suffixes.

    Raises
    ------
    OutputError
        As :func:`check_writable`, or if writing fails.
    """
    for target in targets:
        check_writable(target, overwrite=overwrite)
    folder = targets[0].parent
    made = [p for p in (folder, *folder.parents) if not p.exists()]  # innermost first
    temporary = tuple(t.with_name(f".{t.stem}.{os.getpid()}{t.suffix}") for t in targets)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield temporary
        for target in targets:  # again, since the work may have taken long
            check_writable(target, overwrite=overwrite)
        for source, target in zip(temporary, targets, strict=True):
            source.replace(target)
        made = []
    except OSError as e:
        raise OutputError(targets[0], f"it cannot be written ({e.strerror or e})", "free space or choose -o") from e
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
        for path in made:
            if path.exists() and not any(path.iterdir()):
                path.rmdir()
