"""Raw counts: where a table holds them, and whether they are counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from scipy.sparse import csr_matrix, issparse

from genar.errors import DataError

LARGEST = np.iinfo(np.int32).max
PLACES = 'give raw counts, in X, raw or layers["counts"]'
NOT_WHOLE = "values that are not whole, as of normalised expression"


def find_counts(table: AnnData, path: Path) -> tuple[csr_matrix, pd.DataFrame, str]:
    """Find raw counts in a table: in ``X``, else in ``raw``, else in a layer, ``counts`` first.

    Parameters
    ----------
    table
        Spots by genes.
    path
        The file it was read from, for errors.

    Returns
    -------
    counts
        CSR int32 [N, genes].
    var
        Their genes; those of ``raw`` may be more than the table's own.
    where
        ``"X"``, ``"raw"`` or ``"layers/<name>"``.

    Raises
    ------
    DataError
        If none of them holds whole, finite, non-negative numbers below 2**31; it says what each holds instead.
    """
    tried = []
    for where, values, var in _places(table):
        fault = _fault(values)
        if fault is None:
            return _csr(values).astype(np.int32), var, where
        tried.append((where, *fault))
    if not tried:
        raise DataError(path, "it has no values: no X, no raw and no layers", PLACES)
    holds = ", ".join(f"{where} holds {why}" for where, why, _ in tried)
    raise DataError(path, f"it has no raw counts: {holds}", tried[0][2])


def as_counts(values: Any, path: Path) -> csr_matrix:
    """Check that a matrix, dense or sparse [N, genes], holds raw counts, and return it as CSR int32.

    Raises
    ------
    DataError
        If it does not; it names ``path``.
    """
    fault = _fault(values)
    if fault is not None:
        raise DataError(path, f"it holds {fault[0]}", fault[1])
    return _csr(values).astype(np.int32)


def _places(table: AnnData) -> list[tuple[str, Any, pd.DataFrame]]:
    """List where counts may lie, the likeliest first."""
    places = [("X", table.X, table.var)]
    if table.raw is not None:
        places.append(("raw", table.raw.X, table.raw.var))
    names = sorted((name for name in table.layers if name is not None), key=lambda name: ("count" not in name, name))
    if "counts" in names:
        names = ["counts", *(name for name in names if name != "counts")]
    places += [(f"layers/{name}", table.layers[name], table.var) for name in names]
    return [place for place in places if place[1] is not None]


def _csr(values: Any) -> csr_matrix:
    """Return values as CSR without stored zeros, leaving them as they are."""
    matrix = csr_matrix(values, copy=issparse(values))  # a dense array is copied anyway
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _fault(values: Any) -> tuple[str, str] | None:
    """Say what is wrong with values that should be counts, and what to do; None where they are."""
    data = values.data if issparse(values) else np.asarray(values)
    if data.dtype.kind not in "biuf":
        return f"values of the type {data.dtype}, not numbers", PLACES
    if data.size == 0 or not data.any():
        return "no counts at all", "give the counts of this section"
    if data.dtype.kind == "f":
        low, high = float(data.min()), float(data.max())  # NaN where there is one
        if np.isnan(low):
            return "NaN", "give 0 where nothing was counted, or leave the spot or gene out"
        if np.isinf((low, high)).any():
            return "infinite values", PLACES
        if not _whole(data):
            return NOT_WHOLE, PLACES
    if data.min() < 0:
        return "negative values", PLACES
    if data.max() > LARGEST:
        return f"a count above {LARGEST:,}", "give raw counts of one section; these do not fit 32 bits"
    return None


def _whole(data: np.ndarray, chunk: int = 2**22) -> bool:
    """Tell whether all values are whole, looking at some at a time to save memory."""
    flat = data.reshape(-1)
    return all((flat[i : i + chunk] == np.rint(flat[i : i + chunk])).all() for i in range(0, flat.size, chunk))
