"""Any AnnData file with counts, positions and an image."""

from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.counts import find_counts
from genar.read.finish import assemble, describe, given, in_tissue
from genar.read.geometry import measure_lattice
from genar.read.image import REMEDY, SUFFIXES
from genar.read.table import centres_of, libraries_of, patient_of, read_table
from genar.slide.open import open_slide
from genar.slide.section import place


def h5ad(
    path: Path | str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    library_id: str | None = None,
) -> AnnData:
    """Read a section from an ``.h5ad``, whichever version of anndata wrote it.

    Expects raw counts in ``X``, ``raw`` or a layer, and spot centres in pixels of the full-resolution image in
    ``obsm["spatial"]``. Which lattice the spots lie on is measured.

    Parameters
    ----------
    path
        The file.
    image
        The full-resolution image; by default ``source_image_path`` of ``uns["spatial"][...]["metadata"]``, if that
        file is there.
    mpp
        Its resolution in µm per pixel; by default ``mpp`` of the same metadata, else what the image carries.
    patient
        Name of the patient; by default that in ``obs["patient"]``.
    library_id
        Of a file with several sections, which one to read. Of a file with one, what to call it; by default as the
        file does, else by its name.

    Returns
    -------
    Spots in tissue by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0 pixels of the image in
    ``obsm["spatial"]``, and the image with its geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If the file cannot be read, holds no raw counts or no positions or several sections, or no image is known.
    SlideError
        If the image cannot be opened, or no plausible resolution is known.
    """
    path = Path(path)
    table = read_table(path)
    library, kept = _section(table, path, library_id)
    known = _library(table, library)
    described = known.get(keys.METADATA, {})
    picture = Path(image) if image is not None else _own_image(described, path)
    counts, var, where = find_counts(table, path)
    xy = centres_of(table, path)[kept]
    spots = assemble(counts[kept], table.obs[kept], var, xy, path)
    source = None
    if mpp is None and keys.MPP in described:
        mpp, source = float(described[keys.MPP]), str(described.get(keys.MPP_SOURCE, "metadata of the .h5ad"))
    diameter = float(known.get(keys.SCALEFACTORS, {}).get(keys.SPOT_DIAMETER, 0))
    name = library_id or library or path.stem
    with open_slide(picture, mpp) as slide:
        slide.mpp_source = source or slide.mpp_source
        place(spots, slide, measure_lattice(xy, slide.mpp, path, spot_um=diameter * slide.mpp), library_id=name)
    return describe(spots, path, where, name, given(patient) or patient_of(table.obs[kept]))


def _section(table: AnnData, path: Path, library_id: str | None) -> tuple[str | None, np.ndarray]:
    """Choose the section to read: its name in the file, None where it has none, and which spots are its."""
    libraries, kept = libraries_of(table), in_tissue(table.obs)
    if len(libraries) < 2:
        return next(iter(libraries), None), kept
    if library_id not in libraries:
        why = f"it holds {len(libraries)} sections ({', '.join(libraries)})"
        raise DataError(path, why, "name one (column section of a sample sheet, or library_id= in Python)")
    if keys.LIBRARY_ID not in table.obs:
        raise DataError(path, 'its obs["library_id"] is missing, so whose a spot is, is not known', "add that column")
    return library_id, kept & np.asarray(table.obs[keys.LIBRARY_ID].astype(str) == library_id)


def _library(table: AnnData, library: str | None) -> dict[str, Any]:
    """Return ``uns["spatial"]`` of a section; empty where there is none."""
    found = {name: value for name, value in table.uns.get(keys.SPATIAL, {}).items() if isinstance(value, dict)}
    return dict(found.get(library) or (next(iter(found.values())) if len(found) == 1 else {}))


def _own_image(described: dict[str, Any], path: Path) -> Path:
    """Find the image that a file names itself, or that lies beside it under its name."""
    if keys.SOURCE_IMAGE not in described:
        beside = [p for p in path.parent.iterdir() if p.stem == path.stem and p.suffix.lower() in SUFFIXES]
        if len(beside) == 1:
            return beside[0]
        why = f"neither does it say which image its spots lie on, nor does one called {path.stem} lie beside it"
        raise DataError(path, why, REMEDY)
    image = path.parent / str(described[keys.SOURCE_IMAGE])
    if not image.exists():
        raise DataError(path, f"its image, {described[keys.SOURCE_IMAGE]}, is not there", REMEDY)
    return image
