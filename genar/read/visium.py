"""Visium and Visium HD, as Space Ranger writes them."""

import json
import logging
import warnings
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.counts import as_counts
from genar.read.finish import assemble, describe, given, in_tissue, locate
from genar.read.geometry import measure_mpp
from genar.read.image import lone_image
from genar.slide.lattice import VISIUM, Lattice

logger: logging.Logger = logging.getLogger("genar")

DEFAULT_BIN_UM = 8
POSITION_COLUMNS = (
    "barcode", keys.IN_TISSUE, keys.ARRAY_ROW, keys.ARRAY_COL, "pxl_row_in_fullres", "pxl_col_in_fullres",
)  # fmt: skip
LAYOUT = "give a Space Ranger folder: outs, with spatial/ and filtered_feature_bc_matrix(.h5), or binned_outputs/"
READABLE = "copy it again, or run Space Ranger anew"


def visium(
    path: Path | str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    library_id: str | None = None,
    bin_um: int | None = None,
) -> AnnData:
    """Read a section that Space Ranger counted: Visium of any version, or Visium HD.

    Expects counts (``filtered_feature_bc_matrix.h5`` or the folder of that name, else ``raw_feature_bc_matrix``) and
    ``spatial/`` with ``tissue_positions.csv`` or ``tissue_positions_list.csv``; of Visium HD both below
    ``binned_outputs/square_<bin>um/``.

    Parameters
    ----------
    path
        Space Ranger's ``outs``, or the folder that holds it.
    image
        The full-resolution image that Space Ranger was given; by default the one image that lies beside ``outs`` or
        ``spatial``.
    mpp
        Resolution of the image in µm per pixel; by default the one that Space Ranger wrote (Visium HD) or measured
        from the spots, which lie 100 µm apart.
    patient
        Name of the patient.
    library_id
        What to call the section; by default the folder's name.
    bin_um
        Side of Visium HD's bins in µm; by default 8 where there are several sizes.

    Returns
    -------
    Spots in tissue by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0 pixels of the image in
    ``obsm["spatial"]``, and the image with its geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If a file is missing or cannot be read, no image is found, or no spot lies in tissue.
    SlideError
        If the image cannot be opened.
    """
    path = Path(path)
    outs = outs_of(path)
    if outs is None:
        raise DataError(path, "it holds no Space Ranger output", LAYOUT)
    folder, is_hd = _binned(outs, bin_um)
    section = outs.parent if outs.name == "outs" else outs
    picture = lone_image(sorted({outs, section}), path) if image is None else Path(image)
    positions, file = _positions(folder)
    table, counts_file = _matrix(folder)
    names = table.obs_names[table.obs_names.isin(positions.index)]
    if len(names) < table.n_obs and counts_file.name.startswith("filtered"):
        logger.warning("%s: %d of its spots are not in tissue by %s", counts_file, table.n_obs - len(names), file.name)
    table, positions = table[names], positions.loc[names]
    xy = positions[["pxl_col_in_fullres", "pxl_row_in_fullres"]].to_numpy(np.float64)
    spots = assemble(as_counts(table.X, counts_file) if len(names) else table.X, positions, table.var, xy, file)
    lattice, found, source = _geometry(spots, folder, file, known=mpp, is_hd=is_hd)
    name = library_id or section.resolve().name
    locate(spots, picture, found, lattice, name, mpp_source=source)
    return describe(spots, path, str(counts_file.relative_to(outs)), name, given(patient))


def outs_of(path: Path) -> Path | None:
    """Find Space Ranger's output, ``path`` itself or ``path/outs``; None where there is none."""
    for folder in (path, path / "outs"):
        if (folder / "binned_outputs").is_dir() or any(folder.glob("spatial/*tissue_positions*")):
            return folder
    return None


def _binned(outs: Path, bin_um: int | None) -> tuple[Path, bool]:
    """Return the folder of counts and positions, and whether it is of Visium HD."""
    if not (outs / "binned_outputs").is_dir():
        if bin_um is not None:
            raise DataError(outs, "it is not Visium HD and has no bins", "leave bin_um out")
        return outs, False
    sizes = {int(p.name[7:-2]): p for p in outs.glob("binned_outputs/square_*um") if p.name[7:-2].isdigit()}
    wanted = bin_um or (DEFAULT_BIN_UM if len(sizes) != 1 else next(iter(sizes)))
    if wanted not in sizes:
        there = ", ".join(str(size) for size in sorted(sizes)) or "none"
        raise DataError(outs, f"it has no bins of {wanted} µm (there: {there})", "give bin_um, the side of a bin in µm")
    return sizes[wanted], True


def _one(folder: Path, patterns: list[str]) -> Path | None:
    """Return the one file that matches the first pattern that any does; downloads may carry a prefix."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            raise DataError(folder, f"{len(found)} files match {pattern}", "keep one section in a folder")
        if found:
            return found[0]
    return None


def _positions(folder: Path) -> tuple[pd.DataFrame, Path]:
    """Read where the spots in tissue lie, indexed by barcode, and say from which file."""
    names = ["tissue_positions.parquet", "*tissue_positions.csv*", "*tissue_positions_list.csv*"]
    file = _one(folder, [f"spatial/{name}" for name in names])
    if file is None:
        raise DataError(folder / "spatial", "it has no tissue_positions file", LAYOUT)
    try:
        if file.suffix == ".parquet":
            table = pd.read_parquet(file)
        else:
            table = pd.read_csv(file, header=None, dtype=str)
            headed = table.iloc[0, 0] == "barcode"  # not before Space Ranger 2
            table = table[1:].set_axis(table.iloc[0], axis=1) if headed else table.set_axis(POSITION_COLUMNS, axis=1)
    except (OSError, ValueError) as e:  # pandas' and pyarrow's own errors are ValueErrors
        raise DataError(file, f"it cannot be read ({' '.join(str(e).split())})", READABLE) from e
    missing = sorted(set(POSITION_COLUMNS) - set(table.columns))
    if missing:
        raise DataError(file, f"it lacks the columns {missing}", READABLE)
    table = table.loc[in_tissue(table), list(POSITION_COLUMNS)].set_index("barcode")
    if not table.index.is_unique:
        raise DataError(file, f"spot {table.index[table.index.duplicated()][0]} stands in it twice", "keep one of them")
    numbers = table.apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy(np.float64)).all():
        raise DataError(file, "it holds positions that are not numbers", READABLE)
    return numbers, file


def _matrix(folder: Path) -> tuple[AnnData, Path]:
    """Read the counts, genes alone, and say from which file."""
    import scanpy as sc  # takes seconds, which other formats need not wait for

    kinds = ("filtered", "raw")
    file = _one(folder, [f"*{kind}_feature_bc_matrix{suffix}" for kind in kinds for suffix in (".h5", "")])
    if file is None:
        raise DataError(folder, "it has no filtered_feature_bc_matrix, neither .h5 nor folder", LAYOUT)
    try:
        if file.suffix == ".h5":
            _check_h5(file)
        read = sc.read_10x_h5 if file.suffix == ".h5" else sc.read_10x_mtx
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Variable names are not unique")  # made so below
            table: AnnData = read(file, gex_only=True)
    except (OSError, EOFError, KeyError, ValueError) as e:
        raise DataError(file, f"it cannot be read ({' '.join(str(e).split())})", READABLE) from e
    table.var_names_make_unique()
    return table, file


def _check_h5(file: Path) -> None:
    """Refuse another layout of HDF5, for which scanpy's own error names no cause."""
    with h5py.File(file) as h5:
        if "matrix" not in h5:
            raise DataError(file, "it has no group 'matrix', as Space Ranger writes", READABLE)


def _geometry(
    spots: AnnData, folder: Path, file: Path, *, known: float | None, is_hd: bool
) -> tuple[Lattice, float, str | None]:
    """Return the lattice, the resolution in µm per pixel, and where that comes from if the user did not give it."""
    if not is_hd:
        if known is not None:
            return VISIUM, known, None
        row, col = (spots.obs[column].to_numpy() for column in (keys.ARRAY_ROW, keys.ARRAY_COL))
        return VISIUM, *measure_mpp(spots.obsm[keys.SPATIAL], row, col, VISIUM, file)
    scales = folder / "spatial/scalefactors_json.json"
    try:
        values = json.loads(scales.read_text())
        bin_um, mpp = float(values["bin_size_um"]), float(values["microns_per_pixel"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise DataError(scales, f"it gives no bin_size_um and microns_per_pixel ({e!r})", READABLE) from e
    grid = Lattice("grid", bin_um, bin_um, hexagonal=False)
    return (grid, mpp, "Space Ranger's microns_per_pixel") if known is None else (grid, known, None)
