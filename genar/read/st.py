"""Legacy Spatial Transcriptomics sections, in the layout of her2st (Andersson et al., Nature Communications 2021)."""

import glob
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.counts import as_counts
from genar.read.finish import assemble, describe, given, locate
from genar.read.geometry import measure_mpp
from genar.slide.lattice import ST


def st(
    root: Path | str,
    section: str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    library_id: str | None = None,
) -> AnnData:
    """Read one section: counts, spot positions and image.

    Expects ``ST-cnts/<section>.tsv.gz`` (spots named ``<x>x<y>`` by genes), ``ST-spotfiles/<section>_selection.tsv``
    (``x``, ``y``, ``pixel_x``, ``pixel_y``, ``selected``) and one image below ``ST-imgs/<patient>/<section>/``.

    Parameters
    ----------
    root
        The data folder.
    section
        Name of the section, for example ``"C2"``.
    image
        The full-resolution image; by default the one below ``ST-imgs``.
    mpp
        Resolution of the image in µm per pixel, which these JPEGs do not carry; by default measured from the spots,
        which lie 200 µm apart.
    patient
        Name of the patient; by default the image's folder below ``ST-imgs``; unknown where there is none.
    library_id
        What to call the section; by default ``section``.

    Returns
    -------
    Spots that were selected and have counts, by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0
    pixels of the image in ``obsm["spatial"]``, and the image with its geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If a file is missing or cannot be read, a column is missing, a position is no number, a spot stands twice, or
        the counts are not whole and non-negative.
    SlideError
        If the image cannot be opened.
    """
    root = Path(root)
    name = glob.escape(section)
    path = _one(root, f"ST-cnts/{name}.tsv*")
    counts = _counts(path)
    positions = _positions(_one(root, f"ST-spotfiles/{name}_selection.tsv"))
    picture = _one(root, f"ST-imgs/*/{name}/*") if image is None else Path(image)
    names = positions.index[positions["selected"].eq(1) & positions.index.isin(counts.index)]
    if names.empty:
        raise DataError(path, "no selected spot has counts", "check that counts and spot file are of one section")
    positions = positions.loc[names].rename(columns={"x": keys.ARRAY_COL, "y": keys.ARRAY_ROW})
    matrix = as_counts(counts.loc[names].to_numpy(), path)
    xy = positions[["pixel_x", "pixel_y"]].to_numpy(np.float64)
    spots = assemble(matrix, positions, pd.DataFrame(index=counts.columns), xy, path)
    source = None
    if mpp is None:
        row, col = (spots.obs[column].to_numpy() for column in (keys.ARRAY_ROW, keys.ARRAY_COL))
        mpp, source = measure_mpp(xy, row, col, ST, path)
    locate(spots, picture, mpp, ST, library_id or section, mpp_source=source)
    folder = next(root.glob(f"ST-imgs/*/{name}"), None)
    known = None if folder is None else (folder.parent.name, "folder of the image")
    return describe(spots, path, path.name, library_id or section, given(patient) or known)


def _one(root: Path, pattern: str) -> Path:
    """Find the one file that matches."""
    found = sorted(p for p in root.glob(pattern) if p.is_file())
    if len(found) != 1:
        why = f"{len(found)} files match {pattern}, one is needed"
        raise DataError(root, why, "give a folder laid out as her2st (ST-cnts, ST-spotfiles, ST-imgs)")
    return found[0]


def _table(path: Path, index_col: int | None = None) -> pd.DataFrame:
    """Read a tab-separated table, compressed or not."""
    try:
        return pd.read_csv(path, sep="\t", index_col=index_col)
    except (OSError, EOFError, ValueError, zlib.error) as e:  # pandas' own errors and a wrong encoding are ValueErrors
        why = f"it cannot be read ({' '.join(str(e).split())})"
        raise DataError(path, why, "give a whole, tab-separated table") from e


def _counts(path: Path) -> pd.DataFrame:
    """Read a table of spots by genes."""
    table = _table(path, index_col=0)
    if not table.columns.is_unique or not table.index.is_unique:
        raise DataError(path, "a gene or a spot stands in it twice", "merge or rename the duplicates")
    return table


def _positions(path: Path) -> pd.DataFrame:
    """Read a spot file, indexed by ``<x>x<y>``."""
    table = _table(path)
    missing = {"x", "y", "pixel_x", "pixel_y", "selected"} - set(table.columns)
    if missing:
        raise DataError(path, f"it lacks the columns {sorted(missing)}", "give the spot file of the ST pipeline")
    pixels = table[["pixel_x", "pixel_y"]].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(pixels.to_numpy(np.float64)).all():
        raise DataError(path, "it holds pixel coordinates that are not numbers", "give every spot's place in the image")
    table = table.set_index(table["x"].astype(str) + "x" + table["y"].astype(str))
    if not table.index.is_unique:
        raise DataError(path, f"spot {table.index[table.index.duplicated()][0]} stands in it twice", "keep one of them")
    return table
