"""The pages' commands and Python are run: each page in order, in a folder that holds what it names."""

import ast
import gc
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import matplotlib as mpl
import pytest
from anndata import AnnData
from huggingface_hub import constants
from matplotlib import pyplot as plt

from genar import hub
from genar.shelf import BUNDLED
from tests.docs.blocks import Block, blocks, commands
from tests.docs.commands import NOT_RUN, REVISION, Shell, not_run
from tests.docs.folder import MPP, write_folder
from tests.hub import running

BLOCKS = [block for block in blocks() if block.language in ("bash", "python")]
COMMANDS = [words for block in BLOCKS if block.language == "bash" for words in commands(block.text)]
PAGES = sorted({block.page for block in BLOCKS})
IMPORTS_ALONE = {
    "docs/encoders.md": "UNI's weights are gated; tests/encoders/test_load.py loads such files",
    "docs/features.md": "it names a model of UNI; tests/read/test_features.py reads such files",
}
STOOD_IN_FOR = ("lazyslide", "wsidata")  # they are not installed; tests/test_lazyslide.py states what they call


@pytest.fixture(scope="module")
def prepared(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("docs")
    write_folder(root, shared)
    return root


@pytest.fixture(scope="module")
def done() -> set[str]:
    """Commands that a page has run: the others find what they make in the folder."""
    return set()


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder, to work in; the demo's slide in it; a hub with a model; no LazySlide."""
    root = shutil.copytree(prepared, tmp_path / "docs", symlinks=True)
    monkeypatch.chdir(root)
    monkeypatch.setattr("genar.datasets.demo_slide", lambda: root / "slide.svs")  # tests/test_datasets.py
    for module in STOOD_IN_FOR:
        monkeypatch.setitem(sys.modules, module, MagicMock())
    sys.modules["wsidata"].open_wsi.return_value = SimpleNamespace(properties=SimpleNamespace(mpp=MPP))
    mpl.use("Agg")
    before = signal.getsignal(signal.SIGTERM)  # which a command sets
    with running() as server:
        files = {path.name: path.read_bytes() for path in (BUNDLED / "her2st-mini").iterdir()}
        server.commits["OWNER/NAME"] = [(REVISION, files)]
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        hub._fetched.cache_clear()
        yield root
    signal.signal(signal.SIGTERM, before)
    plt.close("all")


@pytest.mark.filterwarnings("default")  # scanpy, squidpy, Lightning and Dask warn of what they import
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, done: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shell, names = Shell(done, monkeypatch), dict[str, object]()
    for block in (b for b in BLOCKS if b.page == page):
        if block.language == "python":
            exec(compile(code(block), str(block), "exec"), names)
            continue
        for words in commands(block.text):
            assert shell.run(words) == 0, f"{block}: {words}"
    assert all(made.n_obs and made.n_vars for made in names.values() if isinstance(made, AnnData))
    names.clear()
    gc.collect()  # slides that a page leaves open warn here, where it does no harm


def code(block: Block) -> ast.Module:
    """Return what is run of a block."""
    tree = ast.parse(block.text)
    if block.page in IMPORTS_ALONE:
        tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    return tree


def test_the_exceptions_are_needed() -> None:
    assert set(IMPORTS_ALONE) <= {block.page for block in BLOCKS if block.language == "python"}
    assert {not_run(words) for words in COMMANDS} - {None} == set(NOT_RUN)
    python = "".join(block.text for block in BLOCKS if block.language == "python")
    assert all(re.search(rf"^(import|from) {module}\b", python, re.MULTILINE) for module in STOOD_IN_FOR)
