import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import pytest

import genar

HEAVY = ("torch", "lightning", "timm", "scanpy", "anndata", "matplotlib", "numpy", "pydantic")


def modules_after(code: str, folder: Path | None = None) -> set[str]:
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code", ["import genar; dir(genar); genar.__version__", "from genar.cli import app; app.build_parser()"]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    loaded = modules_after(code)
    assert "genar" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_mistakes_are_told_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.svs").touch()
    mistakes = [
        "predict none.svs", "predict a.svs --model none", "predict a.svs --tissue none.png", "predict a.svs --pitch 50",
        "predict a.svs --spots none.csv", "predict a.svs --features none.h5", "evaluate none data", "models show none",
        "predict a.svs --encoder-weights none.bin", "push her2st-mini",
    ]  # fmt: skip
    code = f"""
        from genar.cli.app import main
        for words in {mistakes}:
            try:
                main(words.split())
            except SystemExit as left:
                assert left.code == 2, words
    """
    loaded = modules_after(textwrap.dedent(code), tmp_path)
    assert "genar.cli.predict" in loaded
    assert loaded.isdisjoint(set(HEAVY) - {"numpy"})


def test_public_names() -> None:
    assert genar.__version__ == version("genar")
    assert set(genar.__all__) <= set(dir(genar))
    for name in genar.__all__:
        assert getattr(genar, name) is not None
    assert callable(genar.predict)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        genar.nothing  # noqa: B018
