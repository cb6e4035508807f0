import subprocess
import sys
from importlib.metadata import version

import pytest

import genar

HEAVY = ("torch", "lightning", "timm", "scanpy", "anndata", "matplotlib", "numpy", "pydantic")


def modules_after(code: str) -> set[str]:
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code", ["import genar; dir(genar); genar.__version__", "from genar.cli import app; app.build_parser()"]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    loaded = modules_after(code)
    assert "genar" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_public_names() -> None:
    assert genar.__version__ == version("genar")
    assert set(genar.__all__) <= set(dir(genar))
    for name in genar.__all__:
        assert getattr(genar, name) is not None
    assert callable(genar.predict)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        genar.nothing  # noqa: B018
