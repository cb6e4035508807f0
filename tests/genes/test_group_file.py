import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genar.errors import ConfigError
from genar.genes import grouping
from genar.genes.hierarchy import Hierarchy

GENES = pd.Index(["COL1A1", "ERBB2", "IGKC", "GRB7", "COL3A1", "NA"])
TABLE = """gene\tcompartment\tpathway
ERBB2\ttumour\tHER2 amplicon
GRB7\ttumour\tHER2 amplicon
KRT8\ttumour\tkeratins
IGKC\timmune\tplasma cells
NA\timmune\tNA
COL1A1\tstroma\tcollagens
COL3A1\tstroma\tcollagens
"""


def build(folder: Path, text: str, genes: pd.Index = GENES, name: str = "groups.tsv") -> tuple[list[str], Hierarchy]:
    (folder / name).write_text(text, encoding="utf-8")
    counts = np.full((3, len(genes)), np.nan)  # not looked at
    order, tree = grouping.build(counts, genes, "file", None, 0, folder / name)
    return list(genes[order]), tree


def test_groups_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    genes, tree = build(tmp_path, TABLE)
    # groups in the order of the file, their genes in the order of the panel; no panel gene is a keratin
    assert genes == ["ERBB2", "GRB7", "IGKC", "NA", "COL1A1", "COL3A1"]
    assert tree.scales == (1, 3, 4, 6)
    assert tree.groups[1].tolist() == [0, 0, 1, 1, 2, 2]
    assert tree.groups[2].tolist() == [0, 0, 1, 2, 3, 3]
    assert not caplog.records


def test_genes_that_the_file_lacks_are_a_group(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="genar"):
        genes, tree = build(tmp_path, TABLE, pd.Index(["ACTB", *GENES, "GAPDH"]))
    assert genes[-2:] == ["ACTB", "GAPDH"]
    assert tree.scales == (1, 4, 5, 8)
    assert tree.groups[1].tolist()[-2:] == [3, 3]
    assert tree.groups[2].tolist()[-2:] == [4, 4]
    (record,) = caplog.records
    assert "lacks 2 of 8 genes, now group unassigned: ACTB, GAPDH" in record.getMessage()


@pytest.mark.parametrize(
    ("text", "scales"),
    [
        ("gene,all,part\nA,x,1\nB,x,1\nC,x,2\n", (1, 2, 3)),  # one group stands at the top already
        ("gene,part\nA,1\nB,1\nC,2\n", (1, 2, 3)),
        ("part,gene\n1,A\n1,B\n2,C\n", (1, 2, 3)),
        ("gene,part,again,each\nA,1,p,A\nB,1,p,B\nC,2,q,C\n", (1, 2, 3)),  # columns that split nothing make no scale
        ("gene,part\nA,1\nB,1\nC,1\nD,2\n", (1, 3)),
        ('"gene","part"\n"A"," 1"\n"B","1 "\n"C","2, or so"\n', (1, 2, 3)),
    ],
)
def test_scales_are_the_numbers_of_groups(tmp_path: Path, text: str, scales: tuple[int, ...]) -> None:
    assert build(tmp_path, text, pd.Index(["A", "B", "C"]), "groups.csv")[1].scales == scales


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.replace("COL3A1\tstroma", "COL3A1\ttumour"), "the group collagens of column pathway lies in stroma and"),
        (TABLE + "ERBB2\ttumour\tkeratins\n", "the gene ERBB2 stands in it twice"),
        (TABLE + "MS4A1\timmune\t\n", "the gene MS4A1 has no group in column pathway"),
        (TABLE.replace("gene\t", "symbol\t"), "its columns are symbol, compartment, pathway"),
        ("gene\nERBB2\n", "its columns are gene; give gene and one or more columns"),
        ("gene\tpart\nENSG1\tx\n", "it holds no gene of the panel"),
        ("", "it cannot be read"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"groups\.tsv: .*{said}"):
        build(tmp_path, text)


def test_file_and_scales_do_not_go_together(tmp_path: Path) -> None:
    counts = np.zeros((3, 6))
    with pytest.raises(ConfigError, match="hierarchy.file"):
        grouping.build(counts, GENES, "file", None, 0)
    with pytest.raises(ConfigError, match="hierarchy.file"):
        grouping.build(counts, GENES, "file", (1, 6), 0, tmp_path / "groups.tsv")
    with pytest.raises(ConfigError, match="it cannot be read"):
        grouping.build(counts, GENES, "file", None, 0, tmp_path / "none.tsv")
