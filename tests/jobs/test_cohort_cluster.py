"""A cohort on two real workers, of which one is really killed; and one that is interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.soak_cohort import OPTIONS, compare, make_slides, run

CLUSTER = ("--cluster", "local:2")


@pytest.fixture
def slides(shared: Path, tmp_path: Path) -> list[Path]:
    return make_slides(tmp_path / "slides", shared / "data/wsi/CMU-1-Small-Region.svs", good=2, broken=1)


def left_of(session: int) -> list[str]:
    """List the processes of a session that still run some seconds later; dead ones are init's to bury."""
    for _ in range(50):
        command = ["ps", "-o", "stat=,args=", "-g", str(session)]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        alive = [line for line in listed.stdout.splitlines() if not line.startswith("Z")]
        if not alive:
            break
        time.sleep(0.1)
    return alive


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed as Unix does")
def test_a_killed_worker_and_a_broken_slide_change_nothing(slides: list[Path], tmp_path: Path) -> None:
    assert run(slides, tmp_path / "quiet")[0] == 1
    status, err, killed = run(slides, tmp_path / "disturbed", *CLUSTER, kills=1)
    assert len(killed) == 1
    assert compare(tmp_path, slides, status, err) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="processes are interrupted as a Unix terminal does")
def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(slides: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", "genar", "predict", *map(str, slides), "-o", str(output), *OPTIONS, *CLUSTER]
    # a shell that runs the tests in the background would have them ignore the signal
    heed = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"import os, signal; {heed}; os.execv({command[0]!r}, {command!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not list(output.glob("*.h5ad")):
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "genar: interrupted"
    assert "Traceback" not in err
    assert left_of(process.pid) == []
    assert [p.suffix for p in output.iterdir() if p.name.startswith(".") and p.name != ".genar"] == []
