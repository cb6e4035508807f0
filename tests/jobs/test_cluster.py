"""What a Dask cluster is asked to do, with workers in this process and work that only waits."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import KilledWorker, LocalCluster, Scheduler, SpecCluster, Worker

from genar.errors import ConfigError
from genar.jobs import cluster
from genar.jobs.options import Options
from genar.jobs.slides import Task
from genar.jobs.work import Outcome

TASKS = [Task(Path(f"s{i}.svs"), f"s{i}") for i in range(6)]


def start(*resources: dict[str, int]) -> SpecCluster:
    """Start a worker of four threads for each."""
    own = {"nthreads": 4, "dashboard": False}
    workers = {i: {"cls": Worker, "options": own | {"resources": given}} for i, given in enumerate(resources)}
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
    return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=50)


class Recorder:
    """Stands for the work; remembers which worker did what, and how many slides a worker had at once."""

    def __init__(self) -> None:
        self.done: dict[str, list[str]] = {}
        self.most = 0
        self.at: dict[str, int] = {}
        self.lock = threading.Lock()
        self.hold = threading.Event()

    def work(self, task: Task, output: Path, options: Options, overwrite: bool) -> Outcome:
        from distributed import get_worker

        worker = get_worker().address
        with self.lock:
            self.at[worker] = self.at.get(worker, 0) + 1
            self.most = max(self.most, self.at[worker])
        self.hold.wait(0.2)
        with self.lock:
            self.at[worker] -= 1
            self.done.setdefault(worker, []).append(task.name)
        return Outcome(task, "done")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()

    def work(task: Task, output: Path, options: Options, overwrite: bool) -> Outcome:
        return made.work(task, output, options, overwrite)

    monkeypatch.setattr(cluster, "_work", by_reference)
    monkeypatch.setattr(by_reference, "work", work, raising=False)
    monkeypatch.setattr(cluster, "POLL_S", 0.1)
    return made


def by_reference(task: Task, output: Path, options: Options, overwrite: bool) -> Outcome:
    """Reach the recorder, which cannot be pickled."""
    outcome: Outcome = by_reference.work(task, output, options, overwrite)  # type: ignore[attr-defined]
    return outcome


def predicted(address: str, tmp_path: Path) -> Iterator[Outcome]:
    return cluster.on_cluster(address, TASKS, tmp_path, Options(), overwrite=False)


@pytest.mark.parametrize("resources", [({}, {}), ({"GPU": 1}, {"GPU": 1}), ({"GPU": 1}, {})])
def test_a_worker_has_one_slide_at_a_time(
    tmp_path: Path, recorder: Recorder, resources: tuple[dict[str, int], ...]
) -> None:
    with start(*resources) as running:
        outcomes = list(predicted(running.scheduler_address, tmp_path))
    assert sorted(outcome.task.name for outcome in outcomes) == [task.name for task in TASKS]
    assert recorder.most == 1
    able = sum(given == {"GPU": 1} for given in resources) or 2
    assert len(recorder.done) == able


def test_a_worker_that_comes_late_takes_slides(tmp_path: Path, recorder: Recorder) -> None:
    with start({}) as running:
        outcomes = predicted(running.scheduler_address, tmp_path)
        next(outcomes)
        running.worker_spec[1] = running.worker_spec[0]
        running.sync(running._correct_state)
        assert len(list(outcomes)) == len(TASKS) - 1
    assert len(recorder.done) == 2
    assert recorder.most == 1


def test_a_cluster_that_is_lost(tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT", "2s")
    with start({}) as running:
        outcomes = predicted(running.scheduler_address, tmp_path)
        next(outcomes)
        running.close()
        with pytest.raises(ConfigError, match="the cluster was lost; start it, and repeat the command"):
            list(outcomes)


def test_all_workers_are_counted() -> None:
    with LocalCluster(n_workers=7, threads_per_worker=1, processes=False, dashboard_address=None) as running:
        with running.get_client() as client:
            assert cluster._count(client, {}) == 7
            assert cluster._count(client, {"GPU": 1}) == 0


class Future:
    """A future of which the outcome is known."""

    status = "finished"

    def __init__(self, result: Outcome | Exception) -> None:
        self.known = result

    def result(self) -> Outcome:
        if isinstance(self.known, Exception):
            raise self.known
        return self.known


def test_a_slide_that_kills_workers() -> None:
    killed = KilledWorker("task", None, 3)  # type: ignore[arg-type]
    outcome = cluster._outcome("local", Future(killed), TASKS[0])  # type: ignore[arg-type]
    assert outcome.status == "failed"
    assert outcome.error == "s0.svs: its worker was killed, 4 times in a row; give workers more memory"


def test_a_result_that_shows_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s0.h5ad"
    future = Future(replace(Outcome(TASKS[0], "done"), output=path))
    monkeypatch.setattr(cluster, "SEEN_S", 0)
    outcome = cluster._outcome("tcp://h:1", future, TASKS[0])  # type: ignore[arg-type]
    assert (outcome.status, "does not see it" in outcome.error) == ("failed", True)
    monkeypatch.setattr(cluster, "SEEN_S", 60)
    monkeypatch.setattr(time, "sleep", lambda _: path.touch())
    assert cluster._outcome("tcp://h:1", future, TASKS[0]).status == "done"  # type: ignore[arg-type]
