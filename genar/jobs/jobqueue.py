"""Workers as jobs of a batch system: SLURM, PBS, LSF and what else dask-jobqueue knows."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from genar.errors import ConfigError

SYSTEMS = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster", "oar": "OARCluster",
    "moab": "MoabCluster", "htcondor": "HTCondorCluster",
}  # fmt: skip
PROLOGUE = (
    "export DASK_DISTRIBUTED__WORKER__DAEMON=False",  # a worker may start processes that read tiles
    "export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False",  # torch does not give memory back: it would be for good
)


@dataclass(frozen=True)
class Jobs:
    """What the YAML says.

    Parameters
    ----------
    system
        A key of :data:`SYSTEMS`.
    settings
        dask-jobqueue's settings of it.
    jobs
        How many jobs to have at once.
    dask
        Other settings of Dask.
    """

    system: str
    settings: dict[str, Any]
    jobs: int
    dask: dict[str, Any]


def read(path: Path) -> Jobs:
    """Read dask-jobqueue's configuration file, with a line ``jobs: N`` added.

    Raises
    ------
    ConfigError
        If it cannot be read, or says something else.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as e:
        why = getattr(e, "strerror", None) or " ".join(str(e).split())
        raise ConfigError(path, f"it cannot be read ({why})", "give a dask-jobqueue YAML; see docs/cohorts.md") from e
    found = content.get("jobqueue") if isinstance(content, dict) else None
    if not isinstance(found, dict) or len(found) != 1 or not isinstance(next(iter(found.values())), dict):
        why = "it does not hold the settings of one batch system"
        raise ConfigError(path, why, "write them as jobqueue: {slurm: {...}}; see docs/cohorts.md")
    (system, settings), jobs = next(iter(found.items())), content.get("jobs")
    if system not in SYSTEMS:
        raise ConfigError(path, f"jobqueue.{system} is no batch system", f"give one of: {', '.join(SYSTEMS)}")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigError(path, "it does not say how many jobs to have at once", "add a line, for example jobs: 4")
    others = {key: value for key, value in content.items() if key not in ("jobs", "jobqueue")}
    return Jobs(system, {_hyphens(key): value for key, value in settings.items()}, jobs, others)


@contextmanager
def configured(path: Path) -> Iterator[tuple[type, Jobs]]:
    """Put the file's settings over dask-jobqueue's own.

    Yields
    ------
    The class of the cluster, to be made with no more arguments; and what the file says.

    Raises
    ------
    ConfigError
        If a setting is not one of dask-jobqueue's.
    """
    import dask
    import dask_jobqueue

    said = read(path)
    before = {_hyphens(key): value for key, value in dask.config.get(f"jobqueue.{said.system}").items()}
    for key in said.settings:
        if key not in before:
            near = get_close_matches(key, before, n=1)
            remedy = f"did you mean {near[0]}?" if near else "see dask-jobqueue's documentation"
            raise ConfigError(path, f"there is no setting jobqueue.{said.system}.{key}", remedy)
    settings = before | said.settings
    own = settings.get("job-script-prologue") or settings.get("env-extra") or []  # the latter is its old name
    prologue = [*PROLOGUE, *([own] if isinstance(own, str) else own)]
    settings = said.settings | {"job-script-prologue": prologue, "env-extra": None}
    with (
        dask.config.set(said.dask),
        dask.config.set({f"jobqueue.{said.system}.{key}": value for key, value in settings.items()}),
    ):
        yield getattr(dask_jobqueue, SYSTEMS[said.system]), said


@contextmanager
def start(path: Path, quiet: int, slides: int) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Have jobs submitted, also in place of those whose time is over.

    Parameters
    ----------
    path
        The YAML file.
    quiet
        Level of logging from which Dask may speak.
    slides
        Number of slides, above which there are no workers.

    Yields
    ------
    The cluster, and what is to be called when the last slide is begun: jobs without one are then ended.

    Raises
    ------
    ConfigError
        If the settings are not valid, or this machine cannot submit jobs.
    """
    with configured(path) as (kind, said):
        command = str(kind.job_cls.submit_command).split()[0]  # type: ignore[attr-defined]
        if shutil.which(command) is None:
            why = f"there is no command {command} on this machine"
            raise ConfigError(path, why, f"run genar where {said.system.upper()} jobs are submitted")
        try:
            cluster = kind(silence_logs=quiet, scheduler_options={"dashboard": False})
        except (ValueError, TypeError, OSError) as e:
            raise ConfigError(path, " ".join(str(e).split()), "correct it") from e
        jobs = min(said.jobs, ceil(slides / int(cluster._dummy_job.worker_processes)))

        def keep(fewest: int) -> None:
            # one task is worth a worker, however short Dask believes it to be
            cluster.adapt(minimum_jobs=fewest, maximum_jobs=jobs, target_duration="1ms")

        keep(jobs)
        yield cluster, lambda: keep(1)


def _hyphens(name: str) -> str:
    """Spell a setting as dask-jobqueue's own file does."""
    return str(name).replace("_", "-")
