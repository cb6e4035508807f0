import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from huggingface_hub import constants

from genar import record
from genar.errors import ModelError
from genar.jobs import doctor

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The model's own check is tested with it; the cache and the disk are of no concern."""
    monkeypatch.setattr(record, "fault", lambda _: None)
    monkeypatch.setenv("GENAR_CACHE", str(tmp_path / "new" / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, 10**11))


def found(*, offline: bool = True) -> dict[str, doctor.Finding]:
    return {finding.check: finding for finding in doctor.examine(offline=offline)}


def test_where_nothing_is_wrong() -> None:
    known = found()
    assert {"versions", "packages", "device", "OpenSlide", "codecs", "genar's cache", "model her2st-mini"} <= set(known)
    assert "hub" not in known
    assert {f for f in known.values() if f.status == "FIX"} == set()
    assert known["codecs"].said == "JPEG, JPEG in TIFF, JPEG 2000, LZW, deflate"


def test_a_hub_that_cannot_be_reached_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert found(offline=False)["hub"].status == "note"


def test_packages_that_are_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["numpy>=9999", "nosuch-thing>=1", "squidpy>=9999; extra == 'panel'"]
    monkeypatch.setattr(doctor, "requires", lambda _: needed)
    known = {f.check: f for f in doctor.packages()}
    assert set(known) == {"versions", "numpy", "nosuch-thing"}
    assert known["numpy"].status == known["nosuch-thing"].status == "FIX"
    assert known["nosuch-thing"].said == "nothing is installed; pip install 'nosuch-thing>=1'"


def test_a_codec_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    import imagecodecs

    monkeypatch.setattr(imagecodecs, "jpeg2k_decode", lambda data: b"")
    assert found()["codecs"] == (
        "FIX", "codecs", "JPEG 2000 cannot be decoded; pip install --force-reinstall imagecodecs simplejpeg"
    )  # fmt: skip


@pytest.mark.parametrize(("free", "status"), [(10**8, "FIX"), (2 * 10**9, "note")])
def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    cache = found()["genar's cache"]
    assert cache.status == status
    assert cache.said.endswith("free space, or set GENAR_CACHE")


def test_a_check_that_breaks_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import tifffile

    def fail(*_: object, **__: object) -> None:
        msg = "bad\nlibrary"
        raise SystemError(msg)

    monkeypatch.setattr(tifffile, "imwrite", fail)
    known = found()
    assert known["OpenSlide"].status == "FIX"
    assert known["OpenSlide"].said.startswith("SystemError: bad library; ")
    assert known["codecs"].status == "ok"


@pytest.mark.parametrize("error", [None, ModelError("her2st-mini", "it gives other counts", "reinstall")])
def test_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: ModelError | None
) -> None:
    from argparse import Namespace

    from genar.cli.doctor import run

    monkeypatch.setattr(record, "fault", lambda _: error)
    assert run(Namespace(offline=True)) == (0 if error is None else 1)
    *lines, last = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("ok    ", "note  ", "FIX   ")) for line in lines)
    assert last == ("genar can work here" if error is None else "1 to fix")
    if error is not None:
        assert lines[-1] == f"FIX   model her2st-mini: {error}"
