"""Reading an AnnData file, and what is in it."""

import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import DataError


def check_table(path: Path) -> None:
    """Raise unless a file is there, and is an HDF5 file at all.

    Raises
    ------
    DataError
        If it is not.
    """
    if not path.is_file():
        raise DataError(path, "there is no such file", "check the path")
    if not h5py.is_hdf5(path):
        why = "it cannot be read as .h5ad: it is none, or damaged"
        raise DataError(path, why, "give one that genar predict, genar.read or anndata wrote")


def read_table(path: Path) -> AnnData:
    """Read an ``.h5ad`` of any age.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    check_table(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on old formats and on names that stand twice, which is the validator's
            return anndata.read_h5ad(path)
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as e:
        why = f"it cannot be read ({' '.join(str(e).split())[:200]})"
        raise DataError(path, why, "copy it again, or write it anew with a recent anndata") from e


def centres_of(table: AnnData, path: Path) -> np.ndarray:
    """Return ``obsm["spatial"]``, float64 [N, 2].

    Raises
    ------
    DataError
        If it is not there or has no two columns.
    """
    xy = np.asarray(table.obsm.get(keys.SPATIAL, np.empty(0)), dtype=np.float64)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise DataError(path, 'it has no obsm["spatial"] of two columns', "put the spots' centres (x, y) there")
    return xy


def libraries_of(table: AnnData) -> list[str]:
    """List the sections of a table: those of ``obs["library_id"]``, else those of ``uns["spatial"]``."""
    if keys.LIBRARY_ID in table.obs:
        return sorted(table.obs[keys.LIBRARY_ID].astype(str).unique())
    return sorted(str(name) for name, value in table.uns.get(keys.SPATIAL, {}).items() if isinstance(value, dict))


def patient_of(obs: pd.DataFrame) -> tuple[str, str] | None:
    """Return the one patient of spots, and its source; None where that is not known."""
    names = set(obs[keys.PATIENT].dropna().astype(str)) if keys.PATIENT in obs else set()
    return (names.pop(), 'obs["patient"]') if len(names) == 1 else None
