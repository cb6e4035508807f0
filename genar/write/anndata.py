"""The result as an AnnData, in memory and on disk."""

import json
from contextlib import nullcontext
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from genar import keys


def result(
    spots: AnnData,
    *,
    panel: pd.DataFrame,
    counts: NDArray[np.integer],
    expected: NDArray[np.float32],
    std: NDArray[np.float32],
    provenance: dict[str, object],
    keep_features: bool = False,
) -> AnnData:
    """Put predicted counts and where they come from together.

    Parameters
    ----------
    spots
        The spots, with centres in ``obsm["spatial"]`` and the slide in ``uns["spatial"]``.
    panel
        The genes, indexed by symbol; becomes ``var``.
    counts
        Predicted counts, int [N, G].
    expected, std
        Mean and standard deviation of the predicted distribution, float32 [N, G].
    provenance
        What becomes ``uns["genar"]``.
    keep_features
        Keep the encoder's features in ``obsm``.

    Returns
    -------
    A new AnnData, N spots by G genes.
    """
    obs = spots.obs.copy()
    obs[keys.TOTAL_COUNTS] = counts.sum(axis=1).astype(np.int64)
    obs[keys.N_GENES] = (counts > 0).sum(axis=1).astype(np.int64)
    adata = AnnData(csr_matrix(counts.astype(np.int32)), obs=obs, var=panel.rename_axis(None))
    adata.layers[keys.EXPECTED] = expected.astype(np.float32)
    adata.layers[keys.STD] = std.astype(np.float32)
    for key in spots.obsm:
        if key == keys.SPATIAL or keep_features:
            adata.obsm[key] = np.asarray(spots.obsm[key]).copy()
    adata.uns[keys.SPATIAL] = spots.uns[keys.SPATIAL]
    adata.uns[keys.GENAR] = plain(provenance)
    return adata


def plain(mapping: dict[str, object]) -> dict[str, object]:
    """Reduce values to what every anndata release stores: numbers, strings, arrays and dictionaries of these.

    ``None`` is left out; a list of strings becomes an array; any other list becomes JSON.
    """
    out: dict[str, object] = {}
    for key, value in mapping.items():
        if isinstance(value, dict):
            out[key] = plain(value)
        elif isinstance(value, list | tuple):
            texts = all(isinstance(v, str) for v in value)
            out[key] = np.array(value, dtype=object) if texts else json.dumps(value)
        elif isinstance(value, Path):
            out[key] = str(value)
        elif value is not None:
            out[key] = value
    return out


def write_h5ad(adata: AnnData, path: Path) -> None:
    """Write an AnnData so that older anndata releases open it, too: gzip, no nullable strings."""
    # anndata >= 0.13 writes pandas' nullable strings by default, which older releases cannot read
    old_strings = "allow_write_nullable_strings" in dir(ad.settings)
    with ad.settings.override(allow_write_nullable_strings=False) if old_strings else nullcontext():
        adata.write_h5ad(path, compression="gzip")
