"""Processes that want the same features: real ones, killed and alive."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import tifffile

from genar import pp
from genar.encoders import cache as cache_module
from genar.encoders import content as content_module
from genar.encoders import lock
from genar.encoders.cache import features
from genar.encoders.lock import held
from genar.errors import OutputError

OPTIONS = {"encoder": "efficientnet_lite0", "tile_um": 154.0, "batch_size": 2}

ENCODES = """
import sys, time
from pathlib import Path
import anndata
from genar.encoders import cache
from genar.encoders.run import batches

section, folder, at = anndata.read_h5ad(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def slow(*args, **options):
    for number, batch in enumerate(batches(*args, **options)):
        if number == at:
            print("encoding", flush=True)
            sys.stdin.readline()
        yield batch

cache.batches = slow
cache.features(section, encoder="efficientnet_lite0", tile_um=154.0, batch_size=2, cache=folder)
"""

HOLDS = """
import sys
from pathlib import Path
from genar.encoders.lock import held

with held(Path(sys.argv[1]), "encoding a.svs"):
    print("holds", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def process(code, *arguments):
    """Run Python until it has said something; kill it at the end."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline()
            yield running
        finally:
            running.kill()


def until(what, seconds=30.0):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def section(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slide")
    image = np.random.default_rng(0).integers(60, 220, (400, 400, 3), dtype=np.uint8)
    tifffile.imwrite(folder / "s.tif", image, tile=(256, 256), photometric="rgb", metadata=None)
    spots = pp.spots(folder / "s.tif", "st", mpp=2.0, min_tissue=0)[:5].copy()
    spots.write_h5ad(folder / "s.h5ad")
    spots.uns["file"] = str(folder / "s.h5ad")
    return spots


@pytest.fixture
def file(section):
    return section.uns["file"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.lock"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Look often whether a lock is free."""
    monkeypatch.setattr(lock, "POLL_S", 0.05)


@pytest.fixture
def _short(monkeypatch):
    """Make holders on other hosts stale after a second."""
    monkeypatch.setattr(lock, "LEASE_S", 1.0)
    monkeypatch.setattr(lock, "HEARTBEAT_S", 0.2)


@contextmanager
def waiting(path):
    """Want a lock in a thread; gives an event that is set once it is held."""
    got = threading.Event()

    def want():
        with held(path, "encoding a.svs"):
            got.set()

    thread = threading.Thread(target=want)
    thread.start()
    yield got
    thread.join(30)
    assert not thread.is_alive()


def record(path):
    """Return what a holder that was killed left in its lock file."""
    with process(HOLDS, path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert path.exists()
    return path.read_text()


def test_each_tile_is_encoded_once_by_two_processes(section, file, tmp_path, encoded, caplog):
    with process(ENCODES, file, tmp_path, 1) as first, caplog.at_level("INFO", "genar"):
        found = []
        thread = threading.Thread(target=lambda: found.append(features(section, cache=tmp_path, **OPTIONS)))
        thread.start()
        until(lambda: caplog.records)
        assert re.search(rf"process {first.pid} on \S+ is encoding s.tif; waiting", caplog.text)
        assert not found
        first.stdin.write("\n")
        first.stdin.flush()
        thread.join(60)
        assert first.wait() == 0
    assert found[0].plain.shape == (5, 1280)
    assert encoded.tiles == 0
    assert {p.suffix for p in tmp_path.iterdir()} == {".h5", ".json"}


def test_one_that_waits_takes_over_where_a_killed_one_stopped(section, file, tmp_path, encoded):
    with process(ENCODES, file, tmp_path, 1) as first:
        found = []
        thread = threading.Thread(target=lambda: found.append(features(section, cache=tmp_path, **OPTIONS)))
        thread.start()
        time.sleep(0.5)
        assert not found
        first.send_signal(signal.SIGKILL)
        first.wait()  # until then its process is still in the system's table
        thread.join(60)
    assert encoded.tiles == 3  # the first batch of two was done
    whole = features(section, cache=tmp_path / "whole", **OPTIONS)
    # not to the bit: a thread may compute with another number of threads of torch than the main one
    np.testing.assert_allclose(found[0].plain, whole.plain, atol=1e-4)
    assert {p.suffix for p in tmp_path.iterdir()} == {".h5", ".json", ""}


def test_threads_take_turns(path):
    with ExitStack() as stack:
        with held(path, "encoding a.svs"):
            second = stack.enter_context(waiting(path))
            time.sleep(0.3)
            assert not second.is_set()
        until(second.is_set)


def test_a_lock_is_gone_when_it_is_given_back(path):
    with held(path, "encoding a.svs"):
        assert f"pid={os.getpid()}\n" in path.read_text()
    assert not path.exists()


def test_a_lock_whose_process_id_is_reused_is_stale(path):
    text = record(path)
    living = re.sub(r"pid=\d+", f"pid={os.getpid()}", text)
    assert living != text
    path.write_text(living)  # this process lives, but was not started when the holder was
    with waiting(path) as got:
        until(got.is_set, 0.5)


def test_a_living_process_is_waited_for(path):
    with process(HOLDS, path) as holder, waiting(path) as got:
        time.sleep(0.5)
        assert not got.is_set()
        holder.stdin.write("\n")
        holder.stdin.flush()
        until(got.is_set)


@pytest.mark.usefixtures("_short")
def test_one_on_another_host_is_stale_when_it_gives_no_sign(path):
    with held(path, "encoding a.svs"):
        text = path.read_text()
    path.write_text(re.sub(r"host=\S+", "host=elsewhere", text))
    signs = threading.Thread(target=lambda: [(time.sleep(0.2), path.touch()) for _ in range(8)])
    signs.start()
    started = time.monotonic()
    with waiting(path) as got:
        until(got.is_set)
    signs.join()
    assert 2.4 < time.monotonic() - started < 10  # eight signs in 1.6 s, then none for one second


def test_reading_needs_no_lock_and_no_right_to_write(section, tmp_path, monkeypatch, encoded):
    first = features(section, cache=tmp_path, **OPTIONS)
    (tmp_path / "hashes.json").unlink()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache_module, "held", refuse)
    monkeypatch.setattr(content_module, "beside", refuse)
    assert features(section, cache=tmp_path, **OPTIONS).path == first.path
    assert encoded.tiles == 5
    with pytest.raises(OutputError, match="features cannot be kept there .Permission denied"):
        features(section, cache=tmp_path, encoder="efficientnet_lite0", tile_um=150.0)
