"""Where models are: in the package, on disk, or at the Hugging Face hub. Nothing here imports what takes time."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from genar.errors import ModelError

CONFIG, WEIGHTS, GENES, CARD = "config.json", "model.safetensors", "genes.tsv", "README.md"
REFERENCE = "reference.safetensors"  # what the training tissue looks like; some models have none
NEEDED = (CONFIG, WEIGHTS, GENES)
FILES = (*NEEDED, CARD, REFERENCE)  # all of a model, and all that is fetched from the hub or pushed there
BUNDLED = Path(str(files("genar"))) / "models"

_NAME = re.compile(r"(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[^@\s]+))?", re.ASCII)
_SNAPSHOT = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)")
COMMIT = re.compile(r"[0-9a-f]{40}")


class HubName(NamedTuple):
    """A model at the hub.

    Parameters
    ----------
    repository
        ``owner/name``.
    revision
        A branch, a tag or a commit; None for the main branch.
    """

    repository: str
    revision: str | None

    def __str__(self) -> str:
        return self.repository if self.revision is None else f"{self.repository}@{self.revision}"


def parsed(name: str) -> HubName | None:
    """Read ``owner/name`` or ``owner/name@revision``; None where it is neither."""
    found = _NAME.fullmatch(name)
    return None if found is None or ".." in name else HubName(found["repository"], found["revision"])


def hub_name(name: str | Path) -> HubName | None:
    """Read a name at the hub; None of what cannot be one, or is a path that is there."""
    return None if isinstance(name, Path) or Path(name).exists() else parsed(name)


def bundled() -> list[str]:
    """Return the names of the models that come with genar."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{CONFIG}"))


def find(name: str | Path) -> Path:
    """Return the directory of a model: on disk (by path), bundled (by name), or at the hub, fetched if need be.

    Parameters
    ----------
    name
        A path, a bundled name, or ``owner/name[@revision]``. A path that is there comes first.

    Raises
    ------
    ModelError
        If there is none of them, or the hub's cannot be had.
    """
    for directory in (Path(name), BUNDLED / str(name)):
        try:
            if (directory / CONFIG).is_file():
                return directory
        except OSError as e:  # a name that is too long
            raise ModelError(str(name), f"it cannot be looked up ({e.strerror})", "give a model directory") from e
    if (Path(name) / "model" / CONFIG).is_file():
        raise ModelError(str(name), "it is a run folder", f"give the model in it, {Path(name) / 'model'}")
    if (at_hub := hub_name(name)) is not None:
        from genar.hub import fetch  # not at the top: most models are not at the hub, whose client takes time

        return fetch(at_hub)
    remedy = f"give a model directory, a bundled name ({', '.join(bundled())}), or OWNER/NAME of the Hugging Face hub"
    raise ModelError(str(name), "there is no such model", remedy)


def source_of(directory: Path) -> str:
    """Return ``owner/name@commit`` of a directory that lies in a cache of the hub, and nothing of another."""
    path = directory.absolute()
    if path.parent.name != "snapshots" or not COMMIT.fullmatch(path.name):
        return ""
    found = _SNAPSHOT.fullmatch(path.parents[1].name)
    return f"{found['owner']}/{found['name']}@{path.name}" if found else ""


def pinned(name: str) -> str:
    """Return a model's name as a process in another folder, or at another time, is to be told it.

    A path becomes absolute, a branch of a repository at the hub its commit; other names stay.

    Raises
    ------
    ModelError
        As :func:`find`.
    """
    if (Path(name) / CONFIG).is_file():  # first: a bundled name may also be that of some folder here
        return str(Path(name).absolute())
    return at_commit(name)


def at_commit(name: str) -> str:
    """Find a model, and return its name: of a branch at the hub its commit, so that the hub need not be asked again.

    Raises
    ------
    ModelError
        As :func:`find`.
    """
    directory = find(name)
    return source_of(directory) if hub_name(name) else name


def card_of(directory: Path) -> str:
    """Return a model's card, Markdown, empty where it has none."""
    path = directory / CARD
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def is_model(directory: Path) -> bool:
    """Tell whether genar wrote the directory, in this version or another."""
    try:
        return "genar_version" in json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):  # the last: a file that holds a lone number
        return False
