"""One sample of HEST-Bench as a section: the spots that have a patch, in the order of the patches."""

import h5py
import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import issparse

from genar import keys
from genar.errors import DataError
from genar.read.counts import as_counts
from genar.read.geometry import measure_lattice
from genar.read.hest_bench import Sample
from genar.read.table import centres_of, read_table
from genar.slide.patches import PATCH_MPP, patch_barcodes
from genar.slide.section import library_name


def as_section(sample: Sample, genes: pd.Index) -> AnnData:
    """Read a sample as genar's sections are, for features, a :class:`~genar.data.spots.SpotTable`, or a model.

    Parameters
    ----------
    sample
        The sample.
    genes
        The genes to take of it.

    Returns
    -------
    A row a patch, in the order of the file of patches, as in the benchmark: raw counts of ``genes`` in ``X`` (CSR,
    int32), totals over all genes in ``obs["total_counts"]``, centres in pixels of the slide in ``obsm["spatial"]``,
    and in the metadata the file of patches, from which :func:`genar.encoders.cache.features` makes features.

    Raises
    ------
    DataError
        If a file is missing or cannot be read, a barcode of the patches or a gene is not in the table, or the table
        holds no raw counts.
    """
    table, barcodes = read_table(sample.expression), patch_barcodes(sample.patches)
    rows = _places(table.obs_names, barcodes, sample, "barcodes of its patches")
    columns = _places(table.var_names, list(genes), sample, "of the task's genes")
    counts = as_counts(table.X, sample.expression)[rows]
    name = library_name(sample.name)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical([name] * len(rows))}, index=pd.Index(barcodes, dtype=object))
    obs[keys.TOTAL_COUNTS] = np.asarray(counts.sum(axis=1)).ravel()
    section = AnnData(counts[:, columns], obs=obs, var=pd.DataFrame(index=genes))
    corners, mpp = _geometry(sample)
    xy = centres_of(table, sample.expression)[rows] if keys.SPATIAL in table.obsm else corners
    section.obsm[keys.SPATIAL] = xy
    lattice = measure_lattice(xy, mpp, sample.patches)
    known = {
        keys.MPP: mpp,
        keys.LATTICE: lattice.name,
        keys.SPOT_UM: float(lattice.spot_um),
        keys.PITCH_UM: float(lattice.pitch_um),
        keys.PATCHES: str(sample.patches.resolve()),
        keys.DATA: str(sample.expression.resolve()),
        keys.SECTION_NAME: sample.name,
    }
    section.uns[keys.SPATIAL] = {name: {keys.METADATA: known}}
    return section


def log1p(section: AnnData) -> NDArray[np.float64]:
    """Return the benchmark's target, the natural log of (count + 1), not normalised: float64 [N, G]."""
    counts = section.X.toarray() if issparse(section.X) else np.asarray(section.X)
    return np.asarray(np.log1p(counts.astype(np.float64)))


def side_um(sample: Sample) -> float:
    """Return the side of a sample's patches in µm: half a µm a pixel, 112 µm for the benchmark's 224 px."""
    with h5py.File(sample.patches, locking=False) as file:
        return float(file["img"].shape[1] * PATCH_MPP)


def _geometry(sample: Sample) -> tuple[NDArray[np.float64], float]:
    """Return the patches' corners [N, 2] in pixels of the slide, and its µm per pixel as far as the file tells."""
    try:
        with h5py.File(sample.patches, locking=False) as file:
            corners = np.asarray(file["coords"], dtype=np.float64)
            source_px = file["img"].attrs.get("patch_size_src")
    except (OSError, KeyError, ValueError) as e:
        why = f"its coords cannot be read ({' '.join(str(e).split())[:160]})"
        raise DataError(sample.patches, why, "download it again") from e
    return corners, PATCH_MPP if source_px is None else side_um(sample) / float(source_px)


def _places(names: pd.Index, wanted: list[str], sample: Sample, what: str) -> NDArray[np.int64]:
    """Find names in a table, each of which must be there once."""
    places = pd.Index(wanted, dtype=object)
    once = ~names.duplicated(keep=False)
    found: NDArray[np.int64] = (
        pd.Series(np.flatnonzero(once), index=names[once]).reindex(places, fill_value=-1).to_numpy()
    )
    known = found >= 0
    if not known.all():
        lost = places[~known]
        why = f"{len(lost)} of the {len(wanted)} {what} are not in it, or twice, {lost[0]} for one"
        raise DataError(sample.expression, why, "download the sample again, its patches and its adata")
    return found
