from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csc_array, csr_matrix

from genar.errors import DataError
from genar.read.counts import as_counts, find_counts

COUNTS = np.array([[1, 0, 7], [0, 2, 0]], dtype=np.float32)
LOGS = np.log1p(COUNTS)
SPOTS = pd.DataFrame(index=["1", "2"])
PATH = Path("a.h5ad")


def table(x: Any, raw: Any = None, **layers: Any) -> AnnData:
    made = AnnData(x, SPOTS, pd.DataFrame(index=["A", "B", "C"]))
    if raw is not None:
        made.raw = AnnData(raw, SPOTS, pd.DataFrame(index=[f"G{i}" for i in range(raw.shape[1])]))
    made.layers.update(layers)
    return made


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (table(COUNTS), "X"),
        (table(csr_matrix(COUNTS)), "X"),
        (table(csc_array(COUNTS.astype(np.int64))), "X"),
        (table(LOGS, raw=COUNTS), "raw"),
        (table(LOGS, raw=LOGS, counts=COUNTS), "layers/counts"),
        (table(LOGS, a=COUNTS, raw_counts=csr_matrix(COUNTS)), "layers/raw_counts"),
        (table(LOGS, a=COUNTS), "layers/a"),
        (table(COUNTS - 1, counts=COUNTS), "layers/counts"),  # scaled values are negative
        (table(None, counts=COUNTS), "layers/counts"),
    ],
)
def test_where_counts_are(made: AnnData, where: str) -> None:
    counts, var, found = find_counts(made, PATH)
    assert found == where
    assert counts.toarray().tolist() == COUNTS.tolist()
    assert (counts.format, counts.dtype) == ("csr", np.int32)
    assert len(var) == 3


def test_raw_has_its_own_genes() -> None:
    wide = np.hstack([COUNTS, COUNTS])
    counts, var, _ = find_counts(table(LOGS, raw=wide), PATH)
    assert counts.shape == (2, 6)
    assert list(var.index) == ["G0", "G1", "G2", "G3", "G4", "G5"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (0.5, "not whole"),
        (np.nan, "NaN"),
        (-1, "negative"),
        (-0.5, "not whole"),
        (np.inf, "infinite"),
        (2.0**31, "above 2,147,483,647"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_what_are_no_counts(value: float, why: str, form: Any) -> None:
    values = COUNTS.astype(np.float64)
    values[1, 2] = value
    with pytest.raises(DataError, match=why):
        as_counts(form(values), PATH)
    with pytest.raises(DataError, match=rf"a.h5ad: it has no raw counts: X holds .*{why}.*, layers/b holds"):
        find_counts(table(form(values), b=LOGS), PATH)


def test_integers_and_empty_values() -> None:
    assert as_counts(np.array([[2**31 - 1]], dtype=np.uint64), PATH).toarray().tolist() == [[2**31 - 1]]
    with pytest.raises(DataError, match="negative"):
        as_counts(np.array([[1, -1]]), PATH)
    with pytest.raises(DataError, match="above"):
        as_counts(np.array([[2**31]]), PATH)
    with pytest.raises(DataError, match="no counts at all"):
        as_counts(csr_matrix((3, 3)), PATH)
    with pytest.raises(DataError, match="not numbers"):
        as_counts(np.array([["x"]], dtype=object), PATH)
    with pytest.raises(DataError, match="no values"):
        find_counts(AnnData(None, var=pd.DataFrame(index=["A"])), PATH)


def test_the_table_stays_as_it_is() -> None:
    stored = csr_matrix((np.array([1.0, 0.0, 2.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    counts = as_counts(stored, PATH)
    assert counts.nnz == 2  # a stored zero goes
    assert stored.nnz == 3
    assert stored.dtype == np.float64
