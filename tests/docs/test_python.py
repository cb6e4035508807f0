"""The documentation's Python runs, page by page, in a folder that holds what it names."""

import ast
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest
from anndata import AnnData
from matplotlib import pyplot as plt

import genar
from genar import keys
from genar.shelf import BUNDLED
from tests.docs.blocks import Block, blocks
from tests.read.layouts import on_visium, write_image, write_visium_v2

BLOCKS = [block for block in blocks() if block.language == "python" and block.page != "README.md"]
PAGES = sorted({block.page for block in BLOCKS})
IMPORTS_ALONE = {
    "docs/encoders.md": "UNI's weights are gated; tests/encoders/test_load.py loads such files",
    "docs/features.md": "it names a model of UNI; tests/read/test_features.py reads such files",
}


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages name: a slide, its result, measured sections with their image, a sample sheet, a trained fold."""
    root = tmp_path_factory.mktemp("docs")
    (root / "slide.svs").symlink_to(shared / "data/wsi/CMU-1-Small-Region.svs")
    predicted = genar.predict(root / "slide.svs", spots="grid", pitch=250)
    (root / "results").mkdir()
    for name in ("slide", "cohort"):
        predicted.write_h5ad(root / f"results/{name}.h5ad")
    section, _ = on_visium(predicted[:12], pitch_px=200.4)  # 100 µm on the slide
    del section.var[keys.GENE_IDS]
    with genar.read.slide(root / "slide.svs") as slide:
        image = slide.read(0, 0, 1600, 1600)
    write_visium_v2(section, root / "spaceranger", None)
    write_visium_v2(section, root / "visium/A1", None)
    write_image(root / "slides/A1.svs", image)
    (root / "samples.csv").write_text("path,image\nvisium/A1,slides/A1.svs\n")
    shutil.copytree(BUNDLED / "her2st-mini", root / "runs/lung/folds/A1/model")
    return root


@pytest.mark.filterwarnings("default")  # scanpy and squidpy warn of what they import
@pytest.mark.parametrize("page", PAGES)
def test_it_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpl.use("Agg")
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for block in (b for b in BLOCKS if b.page == page):
        exec(compile(code(block), str(block), "exec"), names)
    plt.close("all")
    assert all(made.n_obs and made.n_vars for made in names.values() if isinstance(made, AnnData))


def code(block: Block) -> ast.Module:
    """Return what is run of a block."""
    tree = ast.parse(block.text)
    if block.page in IMPORTS_ALONE:
        tree.body = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    return tree


def test_the_exceptions_are_needed() -> None:
    assert set(IMPORTS_ALONE) <= set(PAGES)
