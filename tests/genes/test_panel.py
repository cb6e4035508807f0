from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from anndata import AnnData, concat

from genar.errors import ConfigError, DataError
from genar.genes import panel


def scored(**genes: float) -> pd.Series:
    return pd.Series(genes, dtype=np.float64)


def test_means_are_weighted_by_spots() -> None:
    sections = [(scored(a=1, b=2), 30), (scored(a=4, b=2), 10)]
    assert list(panel.choose(sections, 2, "top_mean")) == ["b", "a"]  # a: 70 / 40 < b: 80 / 40
    sections = [(scored(a=1, b=2), 30), (scored(a=6, b=2), 10)]
    assert list(panel.choose(sections, 2, "top_mean")) == ["a", "b"]  # a: 90 / 40


def test_a_gene_counts_where_it_is_measured() -> None:
    sections = [(scored(a=5, b=9), 10), (scored(a=5, c=2), 10), (scored(a=5, b=3, c=2), 10)]
    assert list(panel.choose(sections, 1, "top_mean")) == ["a"]  # by default in all
    assert list(panel.choose(sections, 3, "top_mean", 2)) == ["b", "a", "c"]  # b: 6, over two sections
    with pytest.raises(DataError, match=r"1 genes are measured in 3 or more of 3, 2 are asked for; .*n_genes.*at most"):
        panel.choose(sections, 2, "top_mean")
    with pytest.raises(DataError, match=r"at most 3, or lower panel\.min_sections"):
        panel.choose(sections, 4, "top_mean", 2)
    with pytest.raises(ConfigError, match=r"panel\.min_sections: 4 is more than the 3 training sections"):
        panel.choose(sections, 1, "top_mean", 4)


@pytest.mark.parametrize("method", ["top_mean", "hvg", "svg"])
def test_ties_are_broken_by_name(method: panel.Method) -> None:
    # thirds and sevenths: the same totals from other sections must tie to the last bit
    sections = [(scored(c=1 / 3, a=2 / 3, b=2 / 3), 3), (scored(c=2 / 7, b=1 / 7, a=1 / 7), 7)]
    sections += [(scored(c=1, a=1, b=1), 1)]
    assert list(panel.choose(sections, 3, method))[:2] == ["a", "b"]


def test_totals_that_tie_do_so_whatever_the_sections() -> None:
    sections = [(scored(b=1 / 3, a=2 / 3), 3), (scored(b=2 / 7, a=1 / 7), 7), (scored(b=0.0, a=0.0), 11)]
    assert list(panel.choose(sections, 2, "top_mean")) == ["a", "b"]
    sections = [(scored(a=1 / 3, b=2 / 3), 3), (scored(a=2 / 7, b=1 / 7), 7), (scored(a=0.0, b=0.0), 11)]
    assert list(panel.choose(sections, 2, "top_mean")) == ["a", "b"]


def test_median_of_ranks_and_mean() -> None:
    sections = [(scored(a=9, b=5, c=1), 5), (scored(a=1, b=2, c=3), 500), (scored(a=8, b=7, c=1), 5)]
    assert list(panel.choose(sections, 3, "hvg")) == ["a", "b", "c"]  # ranks 1 3 1, 2 2 2, 3 1 3
    assert list(panel.choose(sections, 3, "svg")) == ["a", "b", "c"]  # 18, 14, 5


def test_mean_of_all_real_spots(real_sections: list[AnnData]) -> None:
    """The panel is what one table of all spots would give."""
    table = concat(real_sections, index_unique="-").to_df()  # the shared genes
    expected = table.sum().sort_index().sort_values(ascending=False, kind="stable").index
    scores = [(panel.score(s, "top_mean"), s.n_obs) for s in real_sections]
    for n_genes in (200, 8000):
        assert list(panel.choose(scores, n_genes, "top_mean")) == list(expected[:n_genes])
    assert len(set(real_sections[0].var_names) - set(table)) > 500  # for other sections lack genes


def test_ranks_are_combined_as_scanpy_combines_batches(real_sections: list[AnnData]) -> None:
    both = concat(real_sections, label="section", index_unique="-")
    often = [np.asarray((s[:, both.var_names].X > 0).sum(axis=0)).ravel() >= 10 for s in real_sections]
    both = both[:, np.logical_and.reduce(often)].copy()
    table = sc.pp.highly_variable_genes(
        both, flavor="seurat_v3_paper", batch_key="section", n_top_genes=300, inplace=False
    )
    sections = [both[(both.obs["section"] == name).to_numpy()].copy() for name in both.obs["section"].cat.categories]
    for section in sections:
        section.obs["library_id"] = pd.Categorical(["s"] * section.n_obs)
    found = panel.choose([(panel.score(s, "hvg"), s.n_obs) for s in sections], 300, "hvg")
    theirs = table.index[table["highly_variable"]]
    assert len(found.intersection(theirs)) >= 295  # scanpy splits ties in its own way
    assert table.loc[found, "highly_variable_nbatches"].is_monotonic_decreasing


def test_a_section_of_few_genes_does_not_fill_the_panel() -> None:
    random = np.random.default_rng(0)
    broad = [(pd.Series(random.random(2000), [f"B{i}" for i in range(2000)]), 100) for _ in range(6)]
    narrow = (pd.Series(random.random(150), [f"N{i}" for i in range(150)]), 100)
    found = panel.choose([*broad, narrow], 100, "hvg", min_sections=1)
    assert found.str.startswith("B").mean() > 0.9


def write(folder: Path, text: str, name: str = "panel.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(
    "text",
    [
        "ERBB2\nGAPDH\nNA\n",
        "\ufeff# a comment\n\nERBB2  # HER2\n  GAPDH\t\r\nNA",
        "gene\tgroup\nERBB2\t1\nGAPDH\t2\n\nNA\t3\n",
        '"gene",why\n"ERBB2",marker\nGAPDH,"a, b"\nNA,\n',
        "gene\nERBB2\nGAPDH\nNA\n",
    ],
)
def test_lists_of_genes(tmp_path: Path, text: str) -> None:
    assert list(panel.from_file(write(tmp_path, text))) == ["ERBB2", "GAPDH", "NA"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ERBB2\nGAPDH\nERBB2\nGAPDH\nACTB", "it names ERBB2, GAPDH twice"),
        ("# nothing\n\n", "it names no gene"),
        ("gene\tgroup\n", "it names no gene"),
        ("ERBB2\nGAPDH,ACTB\n", r"the line 'GAPDH,ACTB' holds more than a gene"),
        ("symbol\tid\nERBB2\tENSG1\n", "headed gene"),
    ],
)
def test_lists_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"panel\.txt: .*{said}"):
        panel.from_file(write(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it cannot be read"):
        panel.from_file(tmp_path / "none.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x9f")
    with pytest.raises(DataError, match="it cannot be read"):
        panel.from_file(tmp_path / "binary.txt")


def test_genes_that_sections_lack(real_sections: list[AnnData], tmp_path: Path) -> None:
    measured, path = [s.var_names for s in real_sections], tmp_path / "panel.txt"
    panel.check_measured(pd.Index(["ERBB2", "GAPDH"]), measured, path=path)
    with pytest.raises(
        DataError, match=r"ERBB \(did you mean ERBB\d or ERBB\d\?\), gapdh \(did you mean GAPDH.*\), XYZW of its 4"
    ):
        panel.check_measured(pd.Index(["ERBB", "ACTB", "gapdh", "XYZW"]), measured, path=path)
    with pytest.raises(DataError, match=r"panel\.txt: no training section measures any .*by symbol or by Ensembl id"):
        panel.check_measured(pd.Index(["ENSG00000141736", "ENSG00000111640"]), measured, path=path)


def test_genes_that_some_sections_lack(tmp_path: Path) -> None:
    measured, path = [pd.Index(["a", "b"]), pd.Index(["a", "b"]), pd.Index(["a"])], tmp_path / "panel.txt"
    panel.check_measured(pd.Index(["a", "b"]), measured, 2, path=path)
    with pytest.raises(DataError, match=r"b of its 2 genes measured in fewer than 3 sections; .* lower panel\.min"):
        panel.check_measured(pd.Index(["a", "b"]), measured, path=path)
    with pytest.raises(ConfigError, match="min_sections: 4 is more than the 3"):
        panel.check_measured(pd.Index(["a"]), measured, 4, path=path)
    with pytest.raises(DataError, match="g1, g2, g3, g4, g5 and 4 more of its 10"):
        panel.check_measured(pd.Index(["a", *(f"g{i}" for i in range(1, 10))]), measured, path=path)
