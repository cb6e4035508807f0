"""The batch job that a YAML file asks for, by the script that would be submitted."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from genar.errors import ConfigError
from genar.jobs.cluster import check_cluster
from genar.jobs.jobqueue import configured, read, start

SETTINGS = {"cores": 8, "memory": "32GB", "processes": 2, "walltime": "08:00:00", "queue": "long"}
DOCS = Path(__file__).parents[2] / "docs" / "cohorts.md"
SLURM = next(block for block in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL))


def write(folder: Path, content: object) -> Path:
    path = folder / "cluster.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


def script(path: Path) -> str:
    with configured(path) as (kind, _):
        job = kind.job_cls(scheduler="tcp://scheduler:8786", name="genar")  # type: ignore[attr-defined]
        return str(job.job_script())


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    path = write(tmp_path, SLURM)
    check_cluster(str(path))
    lines = script(path).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    directives = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")}
    assert directives >= {"-p gpu", "-A pathology", "--cpus-per-task=8", "--mem=30G", "-t 12:00:00", "--gres=gpu:1"}
    assert "export DASK_DISTRIBUTED__WORKER__DAEMON=False" in lines
    assert "module load cuda" in lines
    assert lines[-1].startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://scheduler:8786 --name genar")
    assert "--nthreads 8" in lines[-1]
    assert lines[-1].endswith("--resources GPU=1 --lifetime 11h --lifetime-stagger 20m")


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("slurm", ["#SBATCH -p long", "#SBATCH --cpus-per-task=8", "#SBATCH -t 08:00:00"]),
        ("pbs", ["#PBS -q long", "#PBS -l select=1:ncpus=8:mem=30GB", "#PBS -l walltime=08:00:00"]),
        ("lsf", ["#BSUB -q long", "#BSUB -n 8", "#BSUB -W 08:00"]),
    ],
)
def test_other_systems(tmp_path: Path, system: str, expected: list[str]) -> None:
    wall = {"walltime": "08:00"} if system == "lsf" else {}
    path = write(tmp_path, {"jobs": 3, "jobqueue": {system: SETTINGS | wall}})
    said = read(path)
    assert (said.system, said.jobs) == (system, 3)
    lines = script(path).splitlines()
    assert set(expected) <= set(lines)
    assert "--nthreads 4" in lines[-1]
    assert "--nworkers 2" in lines[-1]


def test_underscores_are_hyphens_and_own_lines_are_kept(tmp_path: Path) -> None:
    own = SETTINGS | {"job_script_prologue": ["source venv/bin/activate"]}
    text = script(write(tmp_path, {"jobs": 1, "jobqueue": {"slurm": own}}))
    assert "\nsource venv/bin/activate\n" in text
    assert "\nexport DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False\n" in text


@pytest.mark.parametrize("key", ["env-extra", "env_extra", "job-script-prologue"])
@pytest.mark.parametrize("own", ["module load cuda", ["module load cuda"]])
def test_a_prologue_under_either_name_as_text_or_list(tmp_path: Path, key: str, own: str | list[str]) -> None:
    lines = script(write(tmp_path, {"jobs": 1, "jobqueue": {"slurm": SETTINGS | {key: own}}})).splitlines()
    assert "module load cuda" in lines
    assert "export DASK_DISTRIBUTED__WORKER__DAEMON=False" in lines


def test_jobs_are_kept_until_the_last_slide_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Batch:
        job_cls = type("Job", (), {"submit_command": sys.executable})
        _dummy_job = type("Dummy", (), {"worker_processes": 2})

        def __init__(self, **_: object) -> None: ...

        def adapt(self, minimum_jobs: int, maximum_jobs: int, **_: object) -> None:
            asked.append((minimum_jobs, maximum_jobs))

    monkeypatch.setattr("dask_jobqueue.SLURMCluster", Batch)
    path = write(tmp_path, {"jobs": 4, "jobqueue": {"slurm": SETTINGS}})
    with start(path, 50, 100) as (_, last_begun):
        last_begun()
    with start(path, 50, 5):
        pass
    assert asked == [(4, 4), (1, 4), (3, 3)]


def test_settings_do_not_outlive_the_cluster(tmp_path: Path) -> None:
    import dask

    path = write(
        tmp_path, {"jobs": 1, "jobqueue": {"slurm": SETTINGS}, "distributed": {"worker": {"profile": {"cycle": "7s"}}}}
    )
    with configured(path):
        assert dask.config.get("jobqueue.slurm.queue") == "long"
        assert dask.config.get("distributed.worker.profile.cycle") == "7s"
    assert dask.config.get("jobqueue.slurm.queue") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [1", "it cannot be read"),
        ("", "it does not hold the settings of one batch system; write them as jobqueue: {slurm: {...}}"),
        ({"jobs": 1, "jobqueue": {"slurm": {}, "pbs": {}}}, "it does not hold the settings of one batch system"),
        ({"jobs": 1, "jobqueue": {"slurm": None}}, "it does not hold the settings of one batch system"),
        ({"jobs": 1, "jobqueue": {"torque": {}}}, "jobqueue.torque is no batch system; give one of: slurm, pbs"),
        ({"jobqueue": {"slurm": {}}}, "it does not say how many jobs to have at once; add a line, for example jobs: 4"),
        ({"jobs": 0, "jobqueue": {"slurm": {}}}, "it does not say how many jobs"),
    ],
)
def test_a_file_with_a_mistake(tmp_path: Path, content: object, said: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConfigError) as e:
        check_cluster(str(path))
    assert str(e.value).startswith(f"{path}: ")
    assert said in str(e.value)


def test_a_misspelt_setting(tmp_path: Path) -> None:
    path = write(tmp_path, {"jobs": 1, "jobqueue": {"slurm": SETTINGS | {"walltme": "1:00"}}})
    with pytest.raises(ConfigError, match=r"there is no setting jobqueue.slurm.walltme; did you mean walltime\?"):
        script(path)


def test_where_jobs_cannot_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = write(tmp_path, {"jobs": 1, "jobqueue": {"slurm": SETTINGS}})
    with (
        pytest.raises(ConfigError, match="there is no command sbatch on this machine; run genar where SLURM jobs are"),
        start(path, 50, 1),
    ):
        pytest.fail("started")


@pytest.mark.parametrize(
    "given",
    ["local:0", "local:x", "slurm", "", "4", "host:8786", "tcp://host", "http://host:1", "foo://x", "tcp://host:x"],
)
def test_words_that_are_no_cluster(given: str) -> None:
    with pytest.raises(ConfigError, match=r"is no cluster; give local:N, local"):
        check_cluster(given)


@pytest.mark.parametrize("given", ["local", "local:auto", "local:4", "tcp://host:8786", "tls://host:8786"])
def test_words_that_are(given: str) -> None:
    check_cluster(given)


def test_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.jobs.cluster.find_spec", lambda name: None if name == "dask_jobqueue" else object())
    check_cluster("local:2")
    with pytest.raises(
        ConfigError, match=r"it needs dask-jobqueue, which is not installed; pip install 'genar\[cluster\]'"
    ):
        check_cluster(str(tmp_path / "c.yaml"))
