"""Models at the Hugging Face hub: fetched by revision, kept in the hub's own cache on this machine."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from huggingface_hub import CacheNotFound, HfApi, constants, scan_cache_dir, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from genar.encoders.hub import unreachable
from genar.errors import ModelError
from genar.shelf import COMMIT, FILES, NEEDED, HubName, is_model, source_of

logger: logging.Logger = logging.getLogger("genar")

# its HTTP library, which differs from release to release, has a base of its own for what is no answer
CLIENT_ERRORS: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, OSError, RuntimeError)
LOGIN = "run 'hf auth login', or set HF_TOKEN"


def fetch(name: HubName) -> Path:
    """Return the folder of a model in the hub's cache, downloaded unless that revision of it is there.

    A commit that is in the cache is taken without asking the hub. A branch is asked for once a process; where the hub
    cannot be reached, it is taken as the cache has it, which is said.

    Raises
    ------
    ModelError
        If the model is neither in the cache nor to be had, or is none of genar's.
    """
    with explained(name):
        return _fetched(name)


@lru_cache(maxsize=8)
def _fetched(name: HubName) -> Path:
    here = cached(name)
    if here is not None and name.revision is not None and COMMIT.fullmatch(name.revision):
        return here
    if why := unreachable():
        if here is None:
            download = f"hf download {name.repository}{f' --revision {name.revision}' if name.revision else ''}"
            remedy = f"run '{download} --local-dir FOLDER' where there is a network, and give FOLDER as the model"
            why = f"there is no such folder, and the hub's model is not in the cache here and cannot be had ({why})"
            raise ModelError(str(name), why, remedy)
        logger.warning("%s: %s; taken as it is in the cache here, %s", name, why, source_of(here))
        return here
    _check(name)
    folder = Path(snapshot_download(name.repository, revision=name.revision, allow_patterns=list(FILES)))
    logger.info("model %s is %s", name, source_of(folder))
    return folder


def cached(name: HubName) -> Path | None:
    """Return the folder of a model in the hub's cache; None where a file that is needed is not there."""
    found = [try_to_load_from_cache(name.repository, file, revision=name.revision) for file in NEEDED]
    paths = [Path(path) for path in found if isinstance(path, str)]
    return paths[0].parent if len(paths) == len(NEEDED) else None


def _check(name: HubName) -> None:
    """Raise unless the repository holds a model of genar's; its content is not downloaded."""
    siblings = HfApi().model_info(name.repository, revision=name.revision).siblings or []
    missing = [file for file in NEEDED if file not in {sibling.rfilename for sibling in siblings}]
    if missing:
        why = f"the repository has no {' and no '.join(missing)}, so it holds no model of genar's"
        raise ModelError(str(name), why, "check its name; 'genar push' makes such repositories")


def models() -> list[Path]:
    """List the folders of genar's models in the hub's cache, one a revision, by name."""
    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    folders = [r.snapshot_path for repo in repositories if repo.repo_type == "model" for r in repo.revisions]
    complete = [f for f in folders if is_model(f) and all((f / file).is_file() for file in NEEDED)]
    return sorted(complete, key=source_of)


@contextmanager
def explained(name: HubName) -> Iterator[None]:
    """Turn what the hub's client raises into one line that says what to do."""
    try:
        yield
    except HFValidationError as e:
        raise ModelError(str(name), f"the hub takes no such name ({_line(e)})", "give OWNER/NAME") from e
    except GatedRepoError as e:
        remedy = f"ask for access at {constants.ENDPOINT}/{name.repository}, then {LOGIN}"
        raise ModelError(str(name), "access to it has not been granted to you", remedy) from e
    except RevisionNotFoundError as e:
        remedy = f"see {constants.ENDPOINT}/{name.repository}/commits/main, or leave @{name.revision} out"
        raise ModelError(str(name), f"the repository has no revision {name.revision!r}", remedy) from e
    except RepositoryNotFoundError as e:
        why = "there is no such folder, and no such repository at the hub that you may read"
        raise ModelError(str(name), why, f"check the name; for a private one {LOGIN}") from e
    except HfHubHTTPError as e:
        status = getattr(e.response, "status_code", None)
        if status in (401, 403):
            raise ModelError(str(name), f"the hub refuses it ({status})", f"{LOGIN}, with rights to do this") from e
        raise ModelError(str(name), f"the hub does not give it ({_line(e)})", "try again later") from e
    except OfflineModeIsEnabled as e:
        raise ModelError(str(name), "HF_HUB_OFFLINE is set", "unset it") from e
    except CLIENT_ERRORS as e:  # of the network and the disk
        raise ModelError(
            str(name), f"it cannot be had ({_line(e)})", "try again; check the network and the disk"
        ) from e


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:150]
