import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.read.genes import ensembl_id, harmonise, identifiers, mapping, pairs


def section(names: list[str], ids: list[str] | None = None) -> AnnData:
    made = AnnData(
        csr_matrix(np.ones((2, len(names)), np.int32)), var=pd.DataFrame(index=pd.Index(names, dtype=object))
    )
    if ids is not None:
        made.var[keys.GENE_IDS] = ids
    return made


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("ENSG00000141510", "ENSG00000141510"),
        ("ENSG00000141510.17", "ENSG00000141510"),
        ("ENSMUSG00000059552", "ENSMUSG00000059552"),
        ("ENSA", None),  # a gene
        ("TP53", None),
        ("ENST00000269305", None),  # a transcript
        ("ENSG00000141510.17-1", None),
    ],
)
def test_ensembl_ids(name: str, stable: str | None) -> None:
    assert ensembl_id(name) == stable


def test_identifiers() -> None:
    ids = [f"ENSG{i:011}" for i in range(20)]
    symbols = [f"GENE{i}" for i in range(20)]
    assert identifiers(section(symbols)) == "symbols"
    assert identifiers(section(ids)) == "ensembl"
    assert identifiers(section(ids + symbols)) == "mixed"
    assert identifiers(section([*symbols[1:], ids[0]])) == "symbols"  # 1 in 20 is a gene without a symbol
    assert identifiers(section([*ids[1:], symbols[0]])) == "ensembl"
    assert identifiers(section([])) == "symbols"


def test_pairs_are_of_sections_with_both() -> None:
    assert pairs(section(["A", "B", "ENSG3"], ["ENSG1.4", "", "ENSG3"])) == {("ENSG1", "A"): 1}
    assert not pairs(section(["A"]))
    assert not pairs(section(["ENSG1"], ["ENSG1"]))


def test_the_symbol_of_most_sections_is_taken_whatever_their_order() -> None:
    sections = [section(["Q", "Z"], ["ENSG1", "ENSG2"]), section(["P", "Y"], ["ENSG1.1", "ENSG2"])]
    sections.append(section(["Q"], ["ENSG1"]))
    for order in (sections, sections[::-1]):
        found = pairs(order[0])
        for other in order[1:]:
            found.update(pairs(other))
        assert mapping(found) == {"ENSG1": "Q", "ENSG2": "Y"}


def test_ids_become_symbols() -> None:
    one = section(["ENSG1.7", "B", "ENSG3"])
    assert harmonise(one, {"ENSG1": "A", "ENSG9": "Q"}) == 0.5
    assert list(one.var_names) == ["A", "B", "ENSG3"]
    assert list(one.var[keys.GENE_IDS]) == ["ENSG1", "", "ENSG3"]


def test_known_ids_of_symbols_are_kept() -> None:
    one = section(["ENSG1", "B"], ["ENSG1", "ENSG2"])
    harmonise(one, {"ENSG1": "A"})
    assert list(one.var[keys.GENE_IDS]) == ["ENSG1", "ENSG2"]


def test_symbols_stay() -> None:
    one = section(["A", "B"])
    assert harmonise(one, {"ENSG1": "A"}) is None
    assert list(one.var_names) == ["A", "B"]
    assert keys.GENE_IDS not in one.var


def test_no_gene_takes_anothers_symbol() -> None:
    one = section(["ENSG1", "ENSG2", "ENSG3", "B"])
    harmonise(one, {"ENSG1": "A", "ENSG2": "A", "ENSG3": "B"})
    assert list(one.var_names) == ["A", "ENSG2", "ENSG3", "B"]


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_names_are_unique_afterwards() -> None:
    one = section(["A", "A", "B"])
    harmonise(one, {})
    assert list(one.var_names) == ["A", "A-1", "B"]
