"""The command line as a process of its own, seen from outside."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "genar", *words], capture_output=True, text=True, cwd=cwd, check=False)


def test_help_is_quick(tmp_path: Path) -> None:
    def seconds() -> float:
        start = time.perf_counter()
        assert run("--help", cwd=tmp_path).returncode == 0
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.5  # the best of five: other work may share the machine


def test_a_real_failure_is_one_line(tmp_path: Path) -> None:
    done = run("predict", sys.executable, "--model", "no-such-model", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("genar: error: no-such-model: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_setting_is_one_line(tmp_path: Path) -> None:
    done = run("train", str(CONFIG), "--model.layesr", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("there is no setting model.layesr; did you mean model.layers?\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "genar", "train", str(CONFIG), "--print-config"]
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=closed, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_clears_up(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """\
import signal, sys, time, types
from pathlib import Path
from genar.cli import app
from genar.write.atomic import atomic

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs this in the background ignores it

def work(slide, output, options, **_):
    with atomic(Path("new/a.h5ad"), Path("new/a.png"), overwrite=False) as (table, _):
        table.write_text("half")
        print("working", flush=True)
        time.sleep(30)

sys.modules["genar.jobs.predict_file"] = types.SimpleNamespace(predict_to_file=work)
app.main(["predict", "script.py"])
""",
        encoding="utf-8",
    )
    with subprocess.Popen(
        [sys.executable, script.name], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "genar: interrupted\n"
    assert list(tmp_path.iterdir()) == [script]
