import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar.errors import DataError
from genar.genes import panel


def section(counts: list[list[int]], genes: str) -> AnnData:
    return AnnData(csr_matrix(np.array(counts, dtype=np.int32)), var=pd.DataFrame(index=list(genes)))


def test_highest_mean_over_all_spots_of_shared_genes() -> None:
    sections = [section([[9, 1, 5]], "abc"), section([[2, 4], [3, 4]], "cb")]
    assert list(panel.top_mean(sections, 2)) == ["c", "b"]  # a is not in both; c: 10, b: 9


def test_ties_are_broken_by_name() -> None:
    assert list(panel.top_mean([section([[3, 3, 3]], "cab")], 2)) == ["a", "b"]


def test_too_large_a_panel_names_the_limit() -> None:
    with pytest.raises(DataError, match="only 2 genes"):
        panel.top_mean([section([[1, 2]], "ab")], 3)
