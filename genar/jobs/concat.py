"""A cohort's results as one AnnData, put together on disk, one result in memory at a time."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anndata as ad
import h5py
import numpy as np
import pandas as pd
from anndata.io import read_elem, write_elem
from numpy.typing import NDArray

from genar import keys
from genar.errors import ConfigError, DataError, OutputError
from genar.jobs.slides import Task
from genar.slide.section import library_name
from genar.write.atomic import ELSEWHERE, atomic

COHORT = "cohort"
SECTIONS = "sections"  # in uns["genar"]: what each result says of how it was made, by library_id
GZIP = {"compression": "gzip"}
CHUNK = 2**16  # numbers in a piece that HDF5 compresses


def check_names(tasks: Sequence[Task]) -> None:
    """Raise now, rather than after long work, if results of two slides could not be told apart in one file.

    Raises
    ------
    ConfigError
        If two would have one ``library_id``.
    """
    found: dict[str, Task] = {}
    for task in tasks:
        library = library_name(task.name)
        if library in found:
            why = f"with --concat, it and {found[library].slide} would both have the library_id {library}"
            raise ConfigError(task.slide, why, "call them otherwise, in A-Z, a-z, 0-9, in the column name of a CSV")
        found[library] = task


def concat(tables: Sequence[Path], target: Path) -> None:
    """Put results of one model into one file, spots after spots.

    ``obs_names`` become ``<name>-<library_id>``; ``uns["spatial"][library_id]`` is kept for each section, so that
    squidpy draws it, and what was in ``uns["genar"]`` is in ``uns["genar"]["sections"][library_id]``.

    Parameters
    ----------
    tables
        The results, at least one.
    target
        The file to write; an earlier one of this kind is replaced.

    Raises
    ------
    DataError
        If they have other genes or columns than the first, or two have one ``library_id``.
    OutputError
        If ``target`` is something else, or the disk lacks the room.
    """
    libraries = _libraries(tables)
    size = sum(table.stat().st_size for table in tables)
    free = shutil.disk_usage(target.parent).free
    if free < 1.2 * size:  # HDF5 does not survive a full disk
        why = f"the disk has {free / 1e9:.1f} GB left, and the results take {size / 1e9:.1f} GB"
        raise OutputError(target, why, f"free space, or {ELSEWHERE}")
    with atomic(target, overwrite=target.exists() and _is_cohort(target)) as (temporary,):
        with h5py.File(temporary, "w") as file:
            with h5py.File(tables[0], locking=False) as first:
                _begin(file, first, list(libraries))
            for library, table in libraries.items():
                with h5py.File(table, locking=False) as part:
                    _check_fits(file, part, table)
                    _append(file, part, library)


def _libraries(tables: Sequence[Path]) -> dict[str, Path]:
    """Return the results by library_id."""
    found: dict[str, Path] = {}
    for table in tables:
        with h5py.File(table, locking=False) as part:
            library = str(read_elem(part["obs"])[keys.LIBRARY_ID].iloc[0])
        if library in found:
            why = f"its library_id, {library}, is that of {found[library]}, too"
            raise DataError(table, why, "call the slides otherwise in the column name of a CSV")
        found[library] = table
    return found


def _is_cohort(path: Path) -> bool:
    """Tell whether a file was written by :func:`concat`; one that is damaged was."""
    try:
        with h5py.File(path, locking=False) as file:
            return f"uns/{keys.GENAR}/{SECTIONS}" in file
    except OSError:
        return True


def _begin(file: h5py.File, first: h5py.File, libraries: list[str]) -> None:
    """Write a cohort of no spots yet, whose tables can grow."""
    obs, var = _obs(first, libraries).iloc[:0], read_elem(first["var"])
    counts = read_elem(first["X"])[:0]
    counts.indptr = counts.indptr.astype(np.int64)  # a cohort's counts may be more than int32 numbers
    uns: dict[str, object] = {keys.SPATIAL: {}, keys.GENAR: {SECTIONS: {}}}
    write_elem(file, "/", ad.AnnData(obs=obs[[]], var=var, uns=uns), dataset_kwargs=GZIP)
    write_elem(file, "X", counts, dataset_kwargs=GZIP | {"chunks": (CHUNK,)})
    write_elem(file, "obs", obs, dataset_kwargs=GZIP | {"chunks": (CHUNK,), "maxshape": (None,)})
    for name in _matrices(first):
        width, dtype = first[name].shape[1], first[name].dtype
        options = {"chunks": (max(1, CHUNK // width), width), "maxshape": (None, width)}
        write_elem(file, name, np.empty((0, width), dtype), dataset_kwargs=GZIP | options)


def _matrices(part: h5py.File) -> list[str]:
    """List the matrices of a row a spot, but for the counts."""
    return [f"{group}/{name}" for group in ("layers", "obsm") for name in part[group]]


def _obs(part: h5py.File, libraries: list[str]) -> pd.DataFrame:
    """Read the spots' table: text as text, which sections may have other categories of, but for the sections' own."""
    obs: pd.DataFrame = read_elem(part["obs"])
    library = obs[keys.LIBRARY_ID].astype(str)
    for name in obs.columns[[isinstance(dtype, pd.CategoricalDtype) for dtype in obs.dtypes]]:
        obs[name] = obs[name].astype(str)
    obs.index = [f"{name}-{library.iloc[0]}" for name in obs.index]
    obs[keys.LIBRARY_ID] = pd.Categorical(library, categories=libraries)
    return obs


def _check_fits(file: h5py.File, part: h5py.File, table: Path) -> None:
    """Raise unless a result has what the first one has."""
    for what, own, first in (
        ("genes", list(read_elem(part["var"]).index), list(read_elem(file["var"]).index)),
        ("columns in obs", list(part["obs"].attrs["column-order"]), list(file["obs"].attrs["column-order"])),
        ("layers", _matrices(part), _matrices(file)),
    ):
        if own != first:
            raise DataError(table, f"it has other {what} than the first result", "predict all slides in one way")


def _append(file: h5py.File, part: h5py.File, library: str) -> None:
    """Append one result."""
    counts, into = read_elem(part["X"]).tocsr(), file["X"]
    before = len(into["data"])
    _grow(into["data"], counts.data)
    _grow(into["indices"], counts.indices)
    _grow(into["indptr"], counts.indptr[1:].astype(np.int64) + before)
    into.attrs["shape"] = (len(into["indptr"]) - 1, counts.shape[1])
    table = file["obs"]
    libraries = [str(name) for name in table[keys.LIBRARY_ID]["categories"].asstr()[:]]
    obs = _obs(part, libraries)
    _grow(table[table.attrs["_index"]], obs.index.to_numpy())
    for name in obs.columns:
        if name == keys.LIBRARY_ID:
            _grow(table[name]["codes"], obs[name].cat.codes.to_numpy())
        else:
            _grow(table[name], obs[name].to_numpy())
    for name in _matrices(part):
        _grow(file[name], part[name][:])
    part.copy(f"uns/{keys.SPATIAL}/{library}", file[f"uns/{keys.SPATIAL}"])
    part.copy(f"uns/{keys.GENAR}", file[f"uns/{keys.GENAR}/{SECTIONS}"], name=library)


def _grow(dataset: h5py.Dataset, values: NDArray[Any]) -> None:
    """Append to a dataset."""
    start = len(dataset)
    dataset.resize(start + len(values), axis=0)
    dataset[start:] = values
