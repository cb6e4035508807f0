"""Legacy Spatial Transcriptomics sections, in the layout of her2st (Andersson et al., Nature Communications 2021)."""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import DataError
from genar.slide.lattice import lattice
from genar.slide.open import open_slide
from genar.slide.section import place


def st(root: Path | str, section: str, *, mpp: float, patient: str | None = None) -> AnnData:
    """Read one section: counts, spot positions and image.

    Expects ``ST-cnts/<section>.tsv.gz`` (spots named ``<x>x<y>`` by genes), ``ST-spotfiles/<section>_selection.tsv``
    (``x``, ``y``, ``pixel_x``, ``pixel_y``, ``selected``) and one image below ``ST-imgs/<patient>/<section>/``.

    Parameters
    ----------
    root
        The data folder.
    section
        Name of the section, for example ``"C2"``.
    mpp
        Resolution of the image in µm per pixel, which these JPEGs do not carry.
    patient
        Name of the patient; by default the section's first letter, as in her2st.

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
    patient = patient or section[:1]
    counts = _counts(_one(root, f"ST-cnts/{section}.tsv*"))
    positions = _positions(_one(root, f"ST-spotfiles/{section}_selection.tsv"))
    image = _one(root, f"ST-imgs/{patient}/{section}/*")
    names = positions.index[positions["selected"].eq(1) & positions.index.isin(counts.index)]
    if names.empty:
        raise DataError(
            image.parent, "no selected spot has counts", "check that counts and spot file are of one section"
        )
    counts, positions = counts.loc[names], positions.loc[names]
    spots = AnnData(
        csr_matrix(counts.to_numpy(np.int32)),
        obs=pd.DataFrame(
            {
                keys.IN_TISSUE: np.ones(len(names), dtype=np.int64),
                keys.ARRAY_ROW: positions["y"].to_numpy(np.int64),
                keys.ARRAY_COL: positions["x"].to_numpy(np.int64),
                keys.PATIENT: pd.Categorical([patient] * len(names)),
            },
            index=names,
        ),
        var=pd.DataFrame(index=counts.columns.astype(str)),
    )
    spots.obsm[keys.SPATIAL] = positions[["pixel_x", "pixel_y"]].to_numpy(np.float64)
    with open_slide(image, mpp) as slide:
        place(spots, slide, lattice("st"), library_id=section)
    return spots


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
    """Read a table of spots by genes and check that it holds counts."""
    table = _table(path, index_col=0)
    values = table.to_numpy()
    if not np.issubdtype(values.dtype, np.number) or not np.isfinite(values).all():
        raise DataError(path, "it holds values that are not numbers", "give raw counts")
    if (values < 0).any() or (values != np.round(values)).any():
        raise DataError(path, "its values are not whole, non-negative numbers", "give raw counts, not normalised ones")
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
