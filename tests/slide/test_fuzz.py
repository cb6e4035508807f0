"""Damaged slides, of which ``scripts/fuzz_slide.py`` runs many more."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_slide.py"


@pytest.mark.slow
def test_damaged_slides_are_predicted_or_refused(shared: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--n", "30", "--seed", "1", "--keep", str(tmp_path), "--seeds"]
    real = [str(shared / "data/wsi" / name) for name in ("boxes_0.dcm", "boxes.tiff")]
    done = subprocess.run([*command, *real], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    header, _, *rows, total = (line for line in done.stdout.splitlines() if line.startswith("|"))
    assert header.split(" | ")[1:3] == ["predicted", "refused |"]
    predicted, refused = (int(cell) for cell in total.strip("| ").split(" | ")[1:])
    assert predicted + refused == 30 + len(rows)
    assert predicted >= len(rows) - len(real)  # every undamaged slide of its own making
    assert refused >= 10
