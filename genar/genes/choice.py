"""Which genes of a result to hand on, and their values."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import issparse

from genar import keys
from genar.errors import ConfigError, DataError
from genar.reliability import MEAN_PCC

COUNTS = "counts"


def named(adata: AnnData, genes: str | Sequence[str]) -> list[str]:
    """Return the genes, each once; a single one may stand for itself.

    Raises
    ------
    DataError
        If the result lacks one.
    """
    genes = [genes] if isinstance(genes, str) else genes
    for gene in genes:
        if gene not in adata.var_names:
            raise DataError(gene, "this gene is not in the result", _remedy(gene, list(map(str, adata.var_names))))
    return list(dict.fromkeys(genes))


def _remedy(gene: str, known: Sequence[str]) -> str:
    """Say which genes a name that is not known may stand for, in whatever case it is written."""
    if "," in gene:
        return "write spaces between genes, no commas"
    by_upper = {name.upper(): name for name in known}
    near = [by_upper[name] for name in difflib.get_close_matches(gene.upper(), by_upper, n=3)]
    return f"try {', '.join(near)}; var_names lists all" if near else "var_names lists those that are"


def most_varied(adata: AnnData, number: int) -> list[str]:
    """Return the genes whose log1p counts vary most, with those that sections left out confirm before all others.

    Counts are ``layers["counts"]`` if there are any, since ``X`` may be normalised, else ``X``. Confirmed are the genes
    of ``var["reliable"]`` or, of a model that does not tell them, with a mean correlation on sections left out of 0.4
    or more.
    """
    x = values(adata, [str(gene) for gene in adata.var_names], COUNTS)
    logs: Any = x.astype(np.float64).log1p() if issparse(x) else np.log1p(np.asarray(x, dtype=np.float64))
    squares = logs.multiply(logs) if issparse(x) else logs**2
    mean = np.asarray(logs.mean(axis=0)).ravel()
    variance = np.asarray(squares.mean(axis=0)).ravel() - mean**2
    if keys.RELIABLE in adata.var:
        trusted = adata.var[keys.RELIABLE].to_numpy(bool)
    elif keys.HELDOUT_PCC in adata.var:
        trusted = adata.var[keys.HELDOUT_PCC].to_numpy(float) >= MEAN_PCC
    else:
        trusted = np.zeros(adata.n_vars, dtype=bool)
    order = np.lexsort((-variance, ~trusted))
    return [str(gene) for gene in adata.var_names[order[:number]]]


def values(adata: AnnData, genes: Sequence[str], layer: str | None) -> Any:
    """Return a layer's values of some genes, [N, G], dense or sparse as they are; None is ``X``.

    ``"counts"`` is ``X``, too, where no layer is called so.

    Raises
    ------
    ConfigError
        If there is no such layer.
    DataError
        If two genes have one name.
    """
    if not adata.var_names.is_unique:
        twice = str(adata.var_names[adata.var_names.duplicated()][0])
        raise DataError(twice, "two genes of var_names have this name", "call var_names_make_unique of the AnnData")
    columns = adata.var_names.get_indexer(list(genes))
    if layer is None or (layer == COUNTS and COUNTS not in adata.layers):
        return adata.X[:, columns]
    if layer not in adata.layers:
        known = ", ".join([COUNTS, *(str(name) for name in adata.layers if name is not None)])
        raise ConfigError("--layer", f"there is no layer {layer!r}", f"give one of: {known}")
    return adata.layers[layer][:, columns]


def is_counts(x: Any) -> bool:
    """Tell whether values are all finite, whole and none negative."""
    held = x.data if issparse(x) else np.asarray(x)
    return bool(np.isfinite(held).all() and (held >= 0).all() and (held == np.rint(held)).all())


def dense(rows: Any) -> NDArray[Any]:
    """Return rows, dense or sparse, as an array."""
    return np.asarray(rows.toarray() if issparse(rows) else rows)
