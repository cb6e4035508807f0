"""The result as an AnnData, in memory and on disk."""

import json
import re
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import anndata as ad
import h5py
import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import DataError

LIBRARY_NAME = re.compile(r"(?!__)[A-Za-z0-9_.-]+")  # what every anndata release takes as a key


def result(
    spots: AnnData,
    *,
    panel: pd.DataFrame,
    counts: NDArray[np.integer],
    layers: dict[str, NDArray[np.float32]],
    provenance: dict[str, object],
    ood: NDArray[np.float32] | None = None,
    keep_features: bool = False,
) -> AnnData:
    """Put predicted counts and where they come from together.

    Parameters
    ----------
    spots
        The spots, with centres in ``obsm["spatial"]`` and the slide in ``uns["spatial"]``.
    panel
        The genes, indexed by symbol; becomes ``var``, with empty ``gene_ids`` where it has none.
    counts
        Predicted counts, int [N, G].
    layers
        Mean, standard deviation and more of the predicted distribution, float32 [N, G] each.
    provenance
        What becomes ``uns["genar"]``.
    ood
        How unlike the training tissue each spot is, float32 [N]; becomes ``obs["ood"]``. None where not known.
    keep_features
        Keep the encoder's features in ``obsm``.

    Returns
    -------
    A new AnnData, N spots by G genes.

    Raises
    ------
    DataError
        If an array is not spots by genes, the counts are not whole numbers that int32 holds, a gene stands twice in
        the panel, or the section's name cannot be a key.
    """
    _check(spots, panel, {"counts": counts, **layers})
    obs = spots.obs.drop(columns=keys.OOD, errors="ignore")  # of another model
    obs[keys.TOTAL_COUNTS] = counts.sum(axis=1).astype(np.int64)
    obs[keys.N_GENES] = (counts > 0).sum(axis=1).astype(np.int64)
    if ood is not None:
        obs[keys.OOD] = ood
    var = panel.rename_axis(None)
    if keys.GENE_IDS not in var:
        var.insert(0, keys.GENE_IDS, "")
    adata = AnnData(csr_matrix(counts.astype(np.int32)), obs=obs, var=var)
    for name, layer in layers.items():
        adata.layers[name] = layer.astype(np.float32)
    for key in spots.obsm:
        if key == keys.SPATIAL or keep_features:
            adata.obsm[key] = np.asarray(spots.obsm[key]).copy()
    adata.uns[keys.SPATIAL] = deepcopy(spots.uns[keys.SPATIAL])
    adata.uns[keys.GENAR] = plain(provenance)
    return adata


def _check(spots: AnnData, panel: pd.DataFrame, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Raise unless these can become one AnnData that every release reads."""
    for name, array in arrays.items():
        if array.shape != (spots.n_obs, len(panel)):
            why = f"their shape is {array.shape}, {spots.n_obs} spots by {len(panel)} genes are needed"
            raise DataError(name, why, "give one row a spot and one column a gene")
    counts = arrays["counts"]
    if not np.issubdtype(counts.dtype, np.integer):
        raise DataError("counts", f"they are {counts.dtype}", "give whole numbers, of an integer type")
    if counts.size and (counts.min() < 0 or counts.max() > np.iinfo(np.int32).max):
        raise DataError("counts", f"they run from {counts.min()} to {counts.max()}", "give counts that int32 holds")
    if not panel.index.is_unique:
        twice = str(panel.index[panel.index.duplicated()][0])
        raise DataError(twice, "the gene stands twice in the panel", "make the symbols unique")
    for library in spots.obs[keys.LIBRARY_ID].unique():
        if not LIBRARY_NAME.fullmatch(str(library)):
            why = "a section's name may hold only A-Z a-z 0-9 _ . - and not start with __"
            raise DataError(repr(library), why, 'rename it in obs["library_id"] and uns["spatial"]')
        if library not in spots.uns.get(keys.SPATIAL, {}):
            why = 'uns["spatial"] holds no image of this section'
            raise DataError(repr(library), why, "lay the spots with genar.pp.spots or read them with genar.read")


def plain(mapping: dict[str, object]) -> dict[str, object]:
    """Reduce values to what every anndata release stores: numbers, strings, arrays and dictionaries of these.

    ``None`` is left out; a path becomes a string, a list of strings or paths an array; any other list becomes JSON.
    """
    out: dict[str, object] = {}
    for key, value in ((str(k), v) for k, v in mapping.items()):
        if isinstance(value, dict):
            out[key] = plain(value)
        elif isinstance(value, list | tuple):
            texts = all(isinstance(v, str | Path) for v in value)
            out[key] = np.array([str(v) for v in value], dtype=object) if texts else json.dumps(value, default=_json)
        elif isinstance(value, Path):
            out[key] = str(value)
        elif value is not None:
            out[key] = value
    return out


def _json(value: object) -> object:
    """Return what JSON has for a value of NumPy or a path."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def write_h5ad(adata: AnnData, path: Path) -> None:
    """Write an AnnData so that older anndata releases open it, too: gzip, no nullable strings.

    The same AnnData gives the same bytes. The file is put together in memory, so that a full disk is an ``OSError``:
    where HDF5 itself meets one, it can take the process down when it exits.
    """
    # anndata >= 0.13 writes pandas' nullable strings by default, which older releases cannot read
    old_strings = "allow_write_nullable_strings" in dir(ad.settings)
    adata.strings_to_categoricals()
    with (
        ad.settings.override(allow_write_nullable_strings=False) if old_strings else nullcontext(),
        h5py.File(path.name, "w", driver="core", backing_store=False) as file,
    ):
        ad.io.write_elem(file, "/", adata, dataset_kwargs={"compression": "gzip"})
        file.flush()
        content = file.id.get_file_image()
    path.write_bytes(content)
