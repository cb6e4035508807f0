"""Files that appear whole or not at all."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genar.errors import OutputError

ELSEWHERE = "choose another folder with -o"


def check_writable(target: Path, *, overwrite: bool) -> None:
    """Fail now, rather than after long work, if ``target`` could not be written.

    Raises
    ------
    OutputError
        If it exists and ``overwrite`` is not set, its name is too long, or its folder cannot be made or written to.
    """
    folder = target.parent
    try:
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as e:
        raise OutputError(target, f"its folder cannot be written to ({e.strerror})", ELSEWHERE) from e
    try:
        found = (folder / target.name).stat()
    except FileNotFoundError:
        return
    except OSError as e:  # a name that is too long, which the folder need not exist to tell
        raise OutputError(target, f"it cannot be written ({e.strerror})", "rename the slide") from e
    if folder != target.parent:
        return
    if stat.S_ISDIR(found.st_mode):
        raise OutputError(target, "a folder of that name is in the way", f"remove it, or {ELSEWHERE}")
    if not overwrite:
        raise OutputError(target, "it exists", f"add --overwrite to replace it, or {ELSEWHERE}")


@contextmanager
def atomic(*targets: Path, overwrite: bool, within: Path | None = None) -> Iterator[tuple[Path, ...]]:
    """Write files beside their targets and rename them all at the end; on any failure none appears.

    Only if a rename itself fails, files that were overwritten before it stay overwritten, each whole.

    Parameters
    ----------
    targets
        What is to be written, all in one folder, which is made if need be.
    overwrite
        Whether they may exist.
    within
        A folder on the same disk to write to before that, in place of the targets' own; who is killed leaves nothing
        outside it.

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
    with _workplace(targets[0], within) as own:
        temporary = tuple(own / target.name for target in targets)
        yield temporary
        for source in temporary:
            with source.open("rb") as file:
                os.fsync(file.fileno())  # else a power cut after the rename may leave a file without its content
        for target in targets:  # again, since the work may have taken long
            check_writable(target, overwrite=overwrite)
        appeared: list[Path] = []
        try:
            for source, target in zip(temporary, targets, strict=True):
                is_new = not target.exists()
                source.replace(target)
                if is_new:
                    appeared.append(target)
            appeared = []
        finally:
            for path in appeared:
                path.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path, *, replaces: bool) -> Iterator[Path]:
    """Write a folder beside its target and rename it at the end; on any failure it does not appear.

    Parameters
    ----------
    target
        The folder to be written; its parents are made if need be.
    replaces
        Whether to put it in the place of one that is there, which stays on failure.

    Yields
    ------
    The path to write the folder at, which does not exist yet.

    Raises
    ------
    OutputError
        If the target exists and is not to be replaced, or writing fails.
    """
    check_writable(target.with_name(f".{target.name}"), overwrite=True)
    with _workplace(target) as own:
        yield own / target.name
        old = own / f"{target.name}.old"
        if target.exists():
            if not replaces:
                raise OutputError(target, "it exists", f"add --overwrite to replace it, or {ELSEWHERE}")
            target.rename(old)
        try:
            (own / target.name).rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


@contextmanager
def _workplace(target: Path, within: Path | None = None) -> Iterator[Path]:
    """Make a hidden folder beside a target, or ``within`` another, which goes in the end, and the target's parents.

    Parents that were made go, too, if anything fails.

    Raises
    ------
    OutputError
        If writing fails.
    """
    made = [p for p in target.parents if not p.exists()]  # innermost first
    own: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(dir=within or target.parent, prefix="."))
        yield own
        made = []
    except OSError as e:
        raise OutputError(target, f"it cannot be written ({e.strerror or e})", f"free space, or {ELSEWHERE}") from e
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)
        for path in made:
            if path.exists() and not any(path.iterdir()):
                path.rmdir()


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Write a file beside its target, then rename it, so that no other process sees half of it.

    Parameters
    ----------
    path
        The target, replaced if it exists.

    Yields
    ------
    The path to write to.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)
