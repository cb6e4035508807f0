import shutil
from pathlib import Path

import pytest
import safetensors.numpy

from genar import record
from genar.errors import ModelError
from genar.shelf import BUNDLED

MINI = BUNDLED / "her2st-mini"


def test_the_bundled_model_gives_its_recorded_output() -> None:
    """Where this fails since the model was trained anew: run scripts/record_doctor.py."""
    record.verify(MINI)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("other output", r"her2st-mini: it gives other counts here than recorded, by up to 2\.\d%"),
        ("other weights", "the record is of other weights than the model's; reinstall genar"),
        ("cut", "the record cannot be read"),
        ("none", "the record cannot be read"),
    ],
)
def test_what_differs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, said: str) -> None:
    folder = tmp_path / "her2st-mini"
    shutil.copytree(MINI, folder)
    path = folder / record.RECORD
    tensors, model = safetensors.numpy.load_file(path), record.load(folder)
    if damage == "other output":
        tensors["expected"] *= 1.025
    sha256 = "0" if damage == "other weights" else model.sha256
    content = safetensors.numpy.save(tensors, {record.SHA256: sha256})
    path.write_bytes(content[:-9] if damage == "cut" else content)
    if damage == "none":
        path.unlink()
    monkeypatch.setattr(record, "create", lambda _: _Same)
    with pytest.raises(ModelError, match=said):
        record.verify(folder)


class _Same:
    @staticmethod
    def fingerprint() -> object:
        return record.load(MINI).info.encoder_fingerprint
