"""The Hugging Face hub: its cache on this machine first, then the hub itself, asked once and not for long."""

from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError

FILES = ("model.safetensors", "pytorch_model.bin")  # of weights, the better first
PATIENCE = 5  # seconds


class NotThereError(Exception):
    """A file of a repository cannot be had; the message says why."""


def cached(repository: str, names: Sequence[str], folder: Path | None = None) -> Path | None:
    """Return the first of some files of a repository that is in the hub's cache on this machine; None if none is.

    Parameters
    ----------
    repository
        ``owner/name``.
    names
        The files' names there.
    folder
        The cache; by default the hub's own, see ``HF_HUB_CACHE``.
    """
    for name in names:
        found = try_to_load_from_cache(repository, name, cache_dir=folder)
        if isinstance(found, str):
            return Path(found)
    return None


def fetch(repository: str, names: Sequence[str]) -> Path:
    """Return the first of some files that a repository has, downloaded to the hub's cache unless it is there.

    Raises
    ------
    NotThereError
        If none can be had.
    """
    found = cached(repository, names)
    if found is not None:
        return found
    if why := unreachable():
        raise NotThereError(why)
    for name in names:
        try:
            return Path(hf_hub_download(repository, name))
        except GatedRepoError as e:
            msg = "access has not been granted to you"
            raise NotThereError(msg) from e
        except LocalEntryNotFoundError as e:  # which is an EntryNotFoundError too
            msg = "the connection failed"
            raise NotThereError(msg) from e
        except EntryNotFoundError:
            continue
        except (OSError, HfHubHTTPError) as e:
            raise NotThereError(" ".join(str(e).split())[:150]) from e
    msg = f"the repository has no {' and no '.join(names)}"
    raise NotThereError(msg)


def unreachable() -> str:
    """Say why the hub cannot be asked, or nothing where it can: its own client would try for half a minute."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        with urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=PATIENCE):
            return ""
    except HTTPError:
        return ""  # it answers
    except OSError:
        return f"{constants.ENDPOINT} cannot be reached"
