"""One slide of a cohort, predicted in whatever process: what came of it is data, never an exception."""

import logging
import multiprocessing
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from genar.device import device_of
from genar.encoders.reuse import keeping
from genar.encoders.run import workers_for
from genar.errors import OUT_OF_MEMORY, ConfigError, GenarError
from genar.jobs.memory import forget_peak, peak_gb
from genar.jobs.options import Options
from genar.jobs.predict_file import predict_to_file
from genar.jobs.slides import Task

Status = Literal["done", "failed", "present"]

_one_at_a_time = threading.Lock()  # a worker may have several threads, of which torch uses all for one slide


@dataclass(frozen=True)
class Outcome:
    """What came of one slide.

    Parameters
    ----------
    task
        The slide.
    status
        ``"done"``; ``"present"``: the result was there; or ``"failed"``.
    error
        What went wrong, on one line.
    traceback
        Where, if it is a fault of genar and not of what the user gave.
    spots
        Number of spots.
    unlike
        Share of them that look unlike the training tissue; None where the model does not know.
    seconds
        How long it took.
    peak_memory_gb
        The most memory that the process held meanwhile, in GB; see :func:`genar.jobs.memory.peak_gb`.
    output
        The result's file.
    notes
        What a cluster's worker warned of.
    """

    task: Task
    status: Status
    error: str = ""
    traceback: str = ""
    spots: int | None = None
    unlike: float | None = None
    seconds: float | None = None
    peak_memory_gb: float | None = None
    output: Path | None = None
    notes: tuple[str, ...] = ()


def work(
    task: Task, output: Path, options: Options, *, overwrite: bool, progress: bool = False, threads: int | None = None
) -> Outcome:
    """Predict one slide.

    Parameters
    ----------
    task
        The slide.
    output
        Folder to write to.
    options
        What to predict, and how.
    overwrite
        Replace files that exist.
    progress
        Show progress bars.
    threads
        Cores that this process, a cluster's worker, may use; by default, here, all, as torch is set.

    Returns
    -------
    What came of it, whatever that is; only an interrupt is raised.
    """
    with _one_at_a_time, keeping(), _noted(threads is not None) as notes:
        forget_peak()
        start = time.perf_counter()
        try:
            own = _share(options.of(task), threads)
            made = predict_to_file(task.slide, output, own, name=task.name, overwrite=overwrite, progress=progress)
        except Exception as e:  # noqa: BLE001 - the slides that follow are another matter
            outcome = failed(task, e)
        else:
            status: Status = "done" if made.is_new else "present"
            outcome = Outcome(task, status, spots=made.spots, unlike=made.unlike, output=made.table)
        seconds = round(time.perf_counter() - start, 2)
        return replace(outcome, seconds=seconds, peak_memory_gb=round(peak_gb(), 3), notes=tuple(notes))


def failed(task: Task, error: Exception) -> Outcome:
    """Put an error on one line."""
    line = " ".join(str(error).split())
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return Outcome(task, "failed", f"{task.slide}: {OUT_OF_MEMORY}")
    if isinstance(error, GenarError):
        return Outcome(task, "failed", line if str(task.slide) in line else f"{task.slide}: {line}")
    trace = "".join(traceback.format_exception(error))
    return Outcome(task, "failed", f"{task.slide}: internal error: {type(error).__name__}: {line}", trace)


def _share(options: Options, threads: int | None) -> Options:
    """Take no more than the cores that are this process's, and no processes beside it if it may not have any."""
    if threads is None:
        return options
    torch.set_num_threads(threads)
    may_start = not multiprocessing.current_process().daemon
    if options.workers is None:
        default = workers_for(device_of(options.device))
        return replace(options, workers=min(default, threads) if may_start else 0)
    if options.workers and not may_start:
        why = "the cluster's workers may not start processes"
        remedy = "leave it out, or start them with DASK_DISTRIBUTED__WORKER__DAEMON=False in their environment"
        raise ConfigError("--workers", why, remedy)
    return options


@contextmanager
def _noted(is_far: bool) -> Iterator[list[str]]:
    """Collect genar's warnings in place of printing them, which a process far away cannot."""
    notes: list[str] = []
    if not is_far:
        yield notes
        return

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())

    logger = logging.getLogger("genar")
    handler, before, passed_on = Notes(logging.WARNING), logger.handlers[:], logger.propagate
    logger.handlers[:], logger.propagate = [handler], False
    try:
        yield notes
    finally:
        logger.handlers[:], logger.propagate = before, passed_on
