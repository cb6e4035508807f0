"""A cohort on Dask: one slide a task, one task a worker at a time."""

import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from genar import __version__
from genar.errors import ConfigError
from genar.jobs.slides import Task

if TYPE_CHECKING:
    from distributed import Client, Future

    from genar.jobs.options import Options
    from genar.jobs.work import Outcome

logger: logging.Logger = logging.getLogger("genar")

GPU = {"GPU": 1}  # the resource that a worker with a GPU declares
KINDS = "give local:N, local (one worker a GPU), tcp://HOST:PORT, or a dask-jobqueue YAML"
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")  # of Dask's addresses
CONNECT = "30s"  # how long to try, at first and when the scheduler is lost
POLL_S = 5
SEEN_S = 60  # a network file system may show a new file that late
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # a terminal's Ctrl-C is for this process to heed
CORES_A_WORKER = 4  # where a machine without GPU is shared out; more speed one slide up little
LOCAL = {
    "distributed.worker.daemon": False,  # it may start processes that read tiles
    "distributed.comm.timeouts.connect": "60s",  # workers that import torch answer late on a loaded machine
}


def check_cluster(given: str) -> None:
    """Raise now, rather than after long work, if there is no such kind of cluster, or what it needs is not installed.

    Raises
    ------
    ConfigError
        If so.
    """
    is_file = Path(given).suffix.lower() in (".yaml", ".yml")
    local, _, number = given.partition(":")
    is_local = local == "local" and (number in ("", "auto") or (number.isdecimal() and int(number) > 0))
    if not (is_file or is_local or _is_address(given)):
        raise ConfigError("--cluster", f"{given!r} is no cluster", KINDS)
    for package in ("distributed", *(["dask_jobqueue"] if is_file else [])):
        if find_spec(package) is None:
            why = f"it needs {package.replace('_', '-')}, which is not installed"
            raise ConfigError("--cluster", why, "pip install 'genar[cluster]'")
    if is_file:
        from genar.jobs.jobqueue import read

        read(Path(given))


def _is_address(given: str) -> bool:
    try:
        url = urlsplit(given)
        return url.scheme in SCHEMES and bool(url.hostname and url.port)
    except ValueError:  # a port that is no number
        return False


def on_cluster(
    given: str, tasks: Sequence[Task], output: Path, options: "Options", *, overwrite: bool
) -> Iterator["Outcome"]:
    """Predict slides on a cluster.

    A slide whose worker is killed is begun again on another, where it goes on from its features; one that has taken
    several workers down is given up.

    Parameters
    ----------
    given
        ``local:N``, ``local``, an address, or a YAML file.
    tasks
        The slides.
    output
        Folder to write to, which every worker must see under this path.
    options
        What to predict, and how.
    overwrite
        Replace files that exist.

    Yields
    ------
    What came of each slide, as they are finished.

    Raises
    ------
    ConfigError
        If the cluster cannot be reached, is lost, or its workers lack this version of genar.
    """
    if options.device.startswith("cuda:"):
        raise ConfigError("--device", "a worker has one GPU", "give --device cuda with --cluster")
    logger.info("%d slides for the cluster %s, which is being started or asked", len(tasks), given)
    by_name = {task.name: task for task in tasks}
    waiting = deque(replace(task, slide=task.slide.absolute()) for task in tasks)
    arguments = {"output": output.absolute(), "options": options.absolute(), "overwrite": overwrite}
    running: dict[Future[Outcome], Task] = {}
    with _client(given, options, len(tasks)) as (client, last_begun):
        resources = _first_worker(given, client)
        try:
            while waiting or running:
                # no more than workers that are up: Dask does not move a slide that waits in a thread of a worker to one
                # that comes later, and all slides at a worker count as suspect when it is killed
                room = max(1, _slots(given, client, resources)) - len(running) if waiting else 0
                for _ in range(min(room, len(waiting))):
                    task = waiting.popleft()
                    future = client.submit(_work, task, **arguments, resources=resources, pure=False)
                    running[future] = task
                    if not waiting:
                        last_begun()
                for future in _finished(running):
                    task = running.pop(future)
                    yield _as_given(_outcome(given, future, task), by_name[task.name], output)
        finally:
            with suppress(Exception):
                client.cancel(list(running))


def _as_given(outcome: "Outcome", task: Task, output: Path) -> "Outcome":
    """Name files as the user did."""
    error = outcome.error.replace(str(task.slide.absolute()), str(task.slide))
    return replace(outcome, task=task, error=error, output=outcome.output and output / outcome.output.name)


def _work(task: Task, output: Path, options: "Options", overwrite: bool) -> "Outcome":
    """Predict a slide in a worker, with its share of the machine's cores."""
    from distributed import get_worker

    from genar.jobs.work import work

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the command line does in its own process
        return work(task, output, options, overwrite=overwrite, threads=get_worker().state.nthreads)


def _finished(running: dict["Future[Outcome]", Task]) -> list["Future[Outcome]"]:
    """Wait until a slide is finished or some seconds have passed."""
    from distributed import CancelledError, wait

    with suppress(TimeoutError, CancelledError):  # cancelled: the cluster was lost, which the futures say
        wait(list(running), timeout=POLL_S, return_when="FIRST_COMPLETED")
    return [future for future in running if future.status != "pending"]


def _outcome(given: str, future: "Future[Outcome]", task: Task) -> "Outcome":
    """Return what a worker has said, or what is to be said of its death."""
    from distributed import KilledWorker

    from genar.jobs.work import Outcome, failed

    if future.status in ("cancelled", "lost"):
        raise _lost(given)
    try:
        outcome: Outcome = future.result()
    except KilledWorker as e:
        why = f"its worker was killed, {e.allowed_failures + 1} times in a row; give workers more memory"
        return Outcome(task, "failed", f"{task.slide}: {why}")
    except Exception as e:  # noqa: BLE001 - of the worker, or of the way there; the other slides go on
        return failed(task, e)
    if outcome.output is not None and not _is_seen(outcome.output):
        why = "a worker wrote it where this machine does not see it; give an output folder that all of them share"
        return Outcome(task, "failed", f"{outcome.output}: {why}")
    return outcome


def _is_seen(path: Path) -> bool:
    """Wait until a file that another machine wrote can be seen here."""
    end = time.monotonic() + SEEN_S
    while True:
        with suppress(OSError):
            next(path.parent.iterdir(), None)  # has a network file system look again
        if path.exists():
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(min(1, SEEN_S))


def _lost(given: str) -> ConfigError:
    return ConfigError(given, "the cluster was lost", "start it, and repeat the command: what is done is kept")


def _first_worker(given: str, client: "Client") -> dict[str, int] | None:
    """Wait for a worker, check that it has this genar, and return the resource to ask for, if it has a GPU."""
    if not client.nthreads():
        logger.info("waiting for a worker of %s", given)
    client.wait_for_workers(1)
    try:
        versions = set(client.run(_version).values())
    except Exception as e:
        raise ConfigError(given, f"its workers cannot run genar ({e})", f"install genar {__version__} there") from e
    if versions - {__version__}:
        why = f"its workers have genar {', '.join(sorted(versions))}, and this is {__version__}"
        raise ConfigError(given, why, "install the same everywhere")
    return GPU if _count(client, GPU) else None


def _slots(given: str, client: "Client", resources: dict[str, int] | None) -> int:
    """Count the workers that are up and may take a slide.

    Raises
    ------
    ConfigError
        If the cluster is lost.
    """
    from distributed import CancelledError

    try:
        return _count(client, resources or {})
    except (OSError, CancelledError) as e:
        raise _lost(given) from e


def _count(client: "Client", resources: dict[str, int]) -> int:
    workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]  # by default it tells of five
    have = [worker["resources"] for worker in workers.values()]
    return sum(all(own.get(name, 0) >= number for name, number in resources.items()) for own in have)


def _version() -> str:
    return __version__


@contextmanager
def _client(given: str, options: "Options", slides: int) -> Iterator[tuple["Client", Callable[[], None]]]:
    """Connect to a cluster, or start one; with what is to be called when the last slide is begun."""
    import dask
    from distributed import Client

    quiet = logging.WARNING if logger.isEnabledFor(logging.DEBUG) else logging.CRITICAL
    logging.getLogger("distributed").setLevel(quiet)
    with ExitStack() as stack:
        if "://" in given:
            try:
                client = stack.enter_context(Client(given, timeout=CONNECT))
            except (OSError, ValueError) as e:
                why = f"it cannot be reached ({' '.join(str(e).split())})"
                raise ConfigError(given, why, "start its scheduler, or correct the address") from e
            yield client, lambda: None
            return
        stack.enter_context(dask.config.set(LOCAL))
        if given.partition(":")[0] == "local":
            cluster, last_begun = _local(given.partition(":")[2], options, quiet), lambda: None
        else:
            from genar.jobs.jobqueue import start

            cluster, last_begun = stack.enter_context(start(Path(given), quiet, slides))
        stack.enter_context(cluster)
        yield stack.enter_context(Client(cluster)), last_begun


def _local(number: str, options: "Options", quiet: int) -> Any:
    """Start workers on this machine, which share its cores and its GPUs."""
    from distributed import Nanny, Scheduler, SpecCluster

    from genar.device import cores

    gpus = _gpus(options.device)
    count = int(number) if number.isdecimal() else len(gpus) or max(1, cores() // CORES_A_WORKER)
    threads = max(1, cores() // count)
    workers = {}
    for i in range(count):
        environment = {"OMP_NUM_THREADS": str(threads)} | (
            {"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} if gpus else {}
        )
        workers[i] = {
            "cls": Nanny,
            "options": {
                "nthreads": threads, "env": environment, "resources": GPU if gpus else {}, "silence_logs": quiet,
                "memory_limit": 0,  # torch does not give memory back, for which Dask would pause the worker for good
                "dashboard": False, "preload": [DEAF],
            },
        }  # fmt: skip
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
    return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=quiet, name="genar")


def _gpus(device: str) -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES knows this machine's GPUs by."""
    if device == "cpu":
        return []
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return names or [str(i) for i in range(torch.cuda.device_count())]
