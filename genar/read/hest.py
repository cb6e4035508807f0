"""HEST-1k (Jaume et al., NeurIPS 2024): one cohort of many technologies, in one layout."""

import json
import math
from pathlib import Path
from typing import Any

from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.counts import find_counts
from genar.read.downscaled import place_downscaled
from genar.read.finish import assemble, describe, given, in_tissue, locate
from genar.read.geometry import GIVE_MPP, measure_lattice
from genar.read.table import centres_of, read_table
from genar.slide.lattice import ST, VISIUM, Lattice
from genar.slide.patches import patch_barcodes
from genar.slide.section import metadata

LAYOUT = "give a folder laid out as HEST: st/<id>.h5ad, metadata/<id>.json, and wsis/<id>.tif or patches/<id>.h5"
WSI_SUFFIXES = (".tif", ".tiff", ".svs")


def hest(
    root: Path | str,
    section: str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    library_id: str | None = None,
) -> AnnData:
    """Read one section of HEST.

    Expects ``st/<id>.h5ad``, ``metadata/<id>.json`` and the slide, ``wsis/<id>.tif``. Where the slide was not
    downloaded, ``patches/<id>.h5`` will do: the section then has the spots that have a patch, and only the small
    picture that the ``.h5ad`` carries.

    Parameters
    ----------
    root
        The data folder.
    section
        Id of the section, for example ``"TENX95"``.
    image
        The full-resolution image; by default ``wsis/<id>.tif``.
    mpp
        Its resolution in µm per pixel; by default ``pixel_size_um_estimated`` of the metadata.
    patient
        Name of the patient; by default that of the metadata.
    library_id
        What to call the section; by default ``section``.

    Returns
    -------
    Spots in tissue by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0 pixels of the slide in
    ``obsm["spatial"]``, the image with its geometry in ``uns["spatial"]``; in its metadata the OncoTree code, the
    technology and, where there is one, the file of patches.

    Raises
    ------
    DataError
        If a file is missing or cannot be read, no raw counts are found, or the metadata lack the resolution.
    SlideError
        If the image cannot be opened.
    """
    root, name = Path(root), library_id or section
    path, patches = root / "st" / f"{section}.h5ad", root / "patches" / f"{section}.h5"
    table, known = read_table(path), _metadata(root / "metadata" / f"{section}.json")
    picture = Path(image) if image is not None else wsi_of(root, section)
    kept = in_tissue(table.obs)
    if picture is None:
        if not patches.is_file():
            raise DataError(path, f"there is neither wsis/{section}.tif nor patches/{section}.h5", LAYOUT)
        kept &= table.obs_names.isin(patch_barcodes(patches))
    counts, var, where = find_counts(table, path)
    xy = centres_of(table, path)[kept]
    spots = assemble(counts[kept], table.obs[kept], var, xy, path)
    source = None
    if mpp is None:
        mpp, source = _number(known, "pixel_size_um_estimated"), "HEST's pixel_size_um_estimated"
        if mpp is None:
            raise DataError(root / "metadata" / f"{section}.json", "it has no pixel_size_um_estimated", GIVE_MPP)
    lattice = _lattice(known, spots, mpp, path)
    if picture is None:
        place_downscaled(spots, table, known, mpp, source, lattice, name, path)
    else:
        locate(spots, picture, mpp, lattice, name, mpp_source=source)
    if patches.is_file():
        metadata(spots)[keys.PATCHES] = str(patches.resolve())
    who = _text(known, "patient")
    further = {keys.ONCOTREE: _text(known, "oncotree_code"), keys.TECHNOLOGY: _text(known, "st_technology")}
    return describe(spots, path, where, name, given(patient) or ((who, "HEST's metadata") if who else None), **further)


def wsi_of(root: Path, section: str) -> Path | None:
    """Find a section's slide below ``wsis``; None where it was not downloaded."""
    paths = (root / "wsis" / f"{section}{suffix}" for suffix in WSI_SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _metadata(path: Path) -> dict[str, Any]:
    """Read a section's metadata."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise DataError(path, f"it cannot be read ({' '.join(str(e).split())})", LAYOUT) from e
    if not isinstance(known, dict):
        raise DataError(path, "it is no JSON object", LAYOUT)
    return known


def _number(known: dict[str, Any], key: str) -> float | None:
    """Read a positive number, None where there is none."""
    try:
        value = float(known.get(key) or "nan")
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and value > 0 else None


def _text(known: dict[str, Any], key: str) -> str:
    """Read a text; empty where there is none."""
    value = known.get(key)
    return "" if value is None or value != value else str(value).strip()  # NaN is what no other value equals


def _lattice(known: dict[str, Any], spots: AnnData, mpp: float, path: Path) -> Lattice:
    """Return the geometry of a technology: its own, or as the metadata or the positions have it."""
    technology = _text(known, "st_technology")
    if technology == "Visium":
        return VISIUM
    spot_um, pitch_um = _number(known, "spot_diameter"), _number(known, "inter_spot_dist")
    if technology == "Spatial Transcriptomics":
        return Lattice(ST.name, spot_um or ST.spot_um, pitch_um or ST.pitch_um, hexagonal=False)
    if pitch_um is None:
        return measure_lattice(spots.obsm[keys.SPATIAL], mpp, path, spot_um=spot_um)
    return Lattice("grid", spot_um or pitch_um, pitch_um, hexagonal=False)
