"""What is said of the encoders agrees with their entries."""

import importlib.util
import re
from pathlib import Path

import pytest

from genar.encoders.entries import ENCODERS, EncoderSpec

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_documentation_is_current() -> None:
    """To make it again: python scripts/encoders_table.py."""
    spec = importlib.util.spec_from_file_location("encoders_table", ROOT / "scripts" / "encoders_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
    assert f"<!-- encoders -->\n{module.table()}<!-- /encoders -->" in page
    assert len(module.table().splitlines()) == 2 + len(ENCODERS)


@pytest.mark.parametrize("spec", ENCODERS.values(), ids=lambda spec: spec.name)
def test_an_entry_is_sound(spec: EncoderSpec) -> None:
    assert re.fullmatch(r"[a-z0-9_-]+", spec.name)
    assert all(0 < value < 1 for values in spec.normalisation for value in values)
    assert (spec.hub is None) != (spec.package is None)
    assert not spec.gated or spec.hub
    assert (spec.package is None) == (spec.sha256 == "")
    assert spec.dim % 128 == 0
    assert spec.licence
