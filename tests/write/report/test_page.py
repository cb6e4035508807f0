"""What is on a page, and what is refused; test_browser.py opens it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import scanpy as sc
from anndata import AnnData
from scipy import sparse

import genar
from genar import keys
from genar.errors import ConfigError, DataError, OutputError
from genar.metrics.spatial import adjacent
from genar.write.anndata import write_h5ad
from genar.write.report import genes as genes_module
from genar.write.report.page import page
from genar.write.report.section import shown
from tests.write.report.conftest import section


def held(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])


def test_morans_i_is_scanpys(adata: AnnData) -> None:
    found = {gene["name"]: gene["moran"] for gene in held(page(shown(adata, None, "x")))["genes"]}
    graph = adjacent(adata.obsm[keys.SPATIAL]).lag
    values = np.log2(adata.X.toarray() + 1.0)
    for k in (0, 7):
        assert found[f"GENE{k}"] == pytest.approx(sc.metrics.morans_i(sparse.csr_matrix(graph), values[:, k]), abs=1e-4)
    assert found["GENE3"] is None  # constant


def test_it_begins_with_the_gene_that_is_confirmed_best(adata: AnnData) -> None:
    data = held(page(shown(adata, None, "x")))
    assert data["genes"][data["first"]]["name"] == "EVIL"
    adata.var[keys.HELDOUT_PCC] = np.nan
    data = held(page(shown(adata, None, "x")))
    assert data["genes"][data["first"]]["moran"] == max(gene["moran"] or 0 for gene in data["genes"])


def test_genes_without_room_are_left_out_and_named(
    adata: AnnData, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = page(shown(adata, None, "x"))
    monkeypatch.setattr("genar.write.report.page.PAGE_BYTES", len(full.encode()) - 1000)
    data = held(html := page(shown(adata, None, "x")))
    kept = len(data["genes"])
    assert 0 < kept < 20
    assert f"room for {kept} of 20 genes" in html
    assert f"the page shows {kept} of 20 genes" in caplog.text
    order = np.argsort(-np.nan_to_num(shown(adata, None, "x").moran, nan=-2))
    assert {gene["name"] for gene in data["genes"]} == set(adata.var_names[order[:kept]])
    with pytest.raises(ConfigError, match="--genes: the genes do not fit on a page of 10 MB; name fewer"):
        page(shown(adata, None, "x"), list(adata.var_names))
    assert [gene["name"] for gene in held(page(shown(adata, None, "x"), ["GENE3"]))["genes"]] == ["GENE3"]
    assert genes_module.PAGE_BYTES == 10_000_000


def test_of_a_file_and_in_memory(adata: AnnData, tmp_path: Path) -> None:
    write_h5ad(adata, tmp_path / "s.h5ad")
    made = genar.report(tmp_path / "s.h5ad", tmp_path / "new" / "a.html")
    assert made == tmp_path / "new" / "a.html"
    assert made.read_text() == genar.report(adata, tmp_path / "b.html").read_text()
    with pytest.raises(OutputError, match=r"b.html: it exists; add --overwrite"):
        genar.report(adata, tmp_path / "b.html")


def test_a_measured_section_of_visiums_make(tmp_path: Path) -> None:
    """No layers, no counts in obs, no metadata, and an image of shares to 1."""
    adata = section(predicted=False)
    adata.obs = adata.obs[[keys.IN_TISSUE]]
    del adata.uns[keys.GENAR]
    entry = adata.uns[keys.SPATIAL]["s"]
    del entry[keys.METADATA]
    entry[keys.IMAGES] = {keys.HIRES: (entry[keys.IMAGES][keys.HIRES] / 255).astype(np.float32)}
    one = shown(adata, None, "x")
    assert np.abs(np.asarray(one.image, dtype=int) - section().uns[keys.SPATIAL]["s"]["images"]["hires"]).max() <= 1
    html = genar.report(adata, tmp_path / "a.html").read_text()
    assert [view["key"] for view in held(html)["views"]] == [keys.TOTAL_COUNTS, keys.N_GENES]
    assert " · measured" in html
    assert "Model card" not in html


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda a: a.obsm.clear(), r'it has no obsm\["spatial"\]'),
        (lambda a: a.uns.pop(keys.SPATIAL), r'it has no image in uns\["spatial"\]'),
        (lambda a: a.uns[keys.SPATIAL]["s"].pop(keys.IMAGES), "lacks its image or the width of a spot"),
        (lambda a: a.uns[keys.SPATIAL]["s"].pop(keys.SCALEFACTORS), "lacks its image or the width of a spot"),
        (lambda a: setattr(a, "X", a.X * 0.5), "X holds values that are no counts; give the file as it was before"),
        (lambda a: setattr(a, "X", -a.X), "X holds values that are no counts"),
    ],
)
def test_what_it_cannot_show(adata: AnnData, harm, said: str, tmp_path: Path) -> None:
    harm(adata)
    with pytest.raises(DataError, match=said):
        genar.report(adata, tmp_path / "a.html")
    assert not list(tmp_path.iterdir())


def test_a_gene_that_is_not_there(adata: AnnData, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="XIST: this gene is not in the result"):
        genar.report(adata, tmp_path / "a.html", genes=["GENE1", "XIST"])
