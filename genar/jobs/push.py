"""A model to the Hugging Face hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelInfo, constants
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from genar.encoders.hub import unreachable
from genar.errors import ConfigError, OutputError
from genar.hub import explained
from genar.shelf import CARD, FILES, GENES, HubName, find, parsed
from genar.store import load
from genar.write.header import with_header

OTHERS = {".gitattributes", ".gitignore", CARD, "LICENSE", "LICENSE.md", "LICENSE.txt"}  # of any new repository


class Pushed(NamedTuple):
    """What came of a push.

    Parameters
    ----------
    source
        ``owner/name@commit``, by which the model is loaded.
    url
        Its page.
    private
        Whether only those see it whom its owner lets.
    """

    source: str
    url: str
    private: bool


def push(
    model: str | Path,
    repository: str,
    *,
    public: bool = False,
    licence: str | None = None,
    datasets: Sequence[str] = (),
    message: str | None = None,
) -> Pushed:
    """Put a model into a repository of the hub, in one commit: its files alone, and the hub's metadata on its card.

    Parameters
    ----------
    model
        A bundled model's name, a model directory, or another model at the hub.
    repository
        ``owner/name``; made if need be. If it is there, it must hold a model of genar's, or nothing yet.
    public
        Make a new repository public. One that is there stays as it is.
    licence
        The hub's identifier of the weights' licence; by default the one that the card names.
    datasets
        The hub's identifiers of the training data, if they are there.
    message
        Message of the commit.

    Raises
    ------
    ConfigError
        If the repository's name cannot be.
    ModelError
        If the model cannot be loaded, or the hub refuses it.
    OutputError
        If the repository holds something else.
    """
    name = parsed(repository)
    if name is None or name.revision is not None:
        raise ConfigError(repository, "it is no name of a repository", "give OWNER/NAME, without a revision")
    directory = find(model)
    info = load(directory).info  # which tells whether it is whole
    if why := unreachable():
        raise OutputError(repository, f"nothing can be pushed ({why})", "push where there is a network")
    card = directory / CARD
    text = with_header(
        card.read_text(encoding="utf-8") if card.is_file() else f"# {info.name}\n",
        info.name, licence=licence, datasets=datasets,
    )  # fmt: skip
    with explained(name):
        return _commit(directory, name, text, public=public, message=message or f"{info.name}, by genar push")


def _commit(directory: Path, name: HubName, card: str, *, public: bool, message: str) -> Pushed:
    """Make the repository if need be, and commit the model's files to it."""
    api = HfApi()
    there = _there(api, name.repository)
    old = {sibling.rfilename for sibling in there.siblings or []} if there else set()
    if GENES not in old and old - OTHERS:
        why = f"the repository holds {min(old - OTHERS)} and no model of genar's"
        raise OutputError(name.repository, why, "push to another repository")
    if there is None:
        api.create_repo(name.repository, private=not public, exist_ok=True)
    new = {file: directory / file for file in FILES if file != CARD and (directory / file).is_file()}
    done = api.create_commit(
        name.repository,
        [
            CommitOperationAdd(CARD, card.encode()),
            *(CommitOperationAdd(file, path) for file, path in new.items()),
            *(CommitOperationDelete(file) for file in FILES if file in old - new.keys() - {CARD}),
        ],
        commit_message=message,
        parent_commit=there.sha if there else None,
    )
    private = bool(there.private) if there else not public
    return Pushed(f"{name.repository}@{done.oid}", f"{constants.ENDPOINT}/{name.repository}", private)


def _there(api: HfApi, repository: str) -> ModelInfo | None:
    """Return what the hub knows of a repository; None where there is none."""
    try:
        return api.model_info(repository)
    except GatedRepoError:
        raise
    except RepositoryNotFoundError:
        return None
