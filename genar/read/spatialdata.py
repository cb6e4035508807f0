"""SpatialData stores with one image, one table, and the shapes that the table annotates."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar.errors import DataError
from genar.read.counts import find_counts
from genar.read.finish import assemble, describe, given, in_tissue
from genar.read.geometry import GIVE_MPP, measure_lattice
from genar.read.table import patient_of
from genar.slide.open import open_slide
from genar.slide.section import place

ANNOTATED = "write the table with TableModel.parse(table, region=..., region_key=..., instance_key=...)"


def spatialdata(
    path: Path | str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    library_id: str | None = None,
) -> AnnData:
    """Read a section from a SpatialData store, of zarr version 2 or 3.

    Expects one table, the shapes that it annotates, and one image, or several of which ``image`` names one. The
    shapes are brought into the image's pixels as the store's transformations say. Needs ``genar[spatialdata]``.

    Parameters
    ----------
    path
        The store.
    image
        One of the store's images, ``<store>.zarr/images/<name>``; or a file of the full-resolution image, whose
        pixels are then those of the store's one image or, without one, its coordinate system ``global``.
    mpp
        Resolution of the image in µm per pixel, which stores do not carry; by default what an image file carries.
    patient
        Name of the patient; by default that in the table's ``obs["patient"]``.
    library_id
        What to call the section; by default the store's name.

    Returns
    -------
    Spots in tissue by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0 pixels of the image in
    ``obsm["spatial"]``, and the image with its geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If spatialdata is not installed, the store cannot be read, or has not what is needed.
    SlideError
        If the image cannot be opened or its resolution is not known.
    """
    path = Path(path)
    store = _open(path)
    table = _only(path, "table", store.tables)
    element = _element(path, store, image)
    counts, var, where = find_counts(table, path)
    kept = in_tissue(table.obs)
    centres, diameter = _centres(path, store, table, element)
    spots = assemble(counts[kept], table.obs[kept], var, centres[kept], path)
    picture = Path(image) if image is not None else path / "images" / str(element)
    if mpp is None and picture.is_dir():
        raise DataError(path, "it does not carry the resolution of its image", GIVE_MPP)
    name = library_id or path.stem
    with open_slide(picture, mpp) as slide:
        lattice = measure_lattice(centres[kept], slide.mpp, path, spot_um=diameter * slide.mpp)
        place(spots, slide, lattice, library_id=name)
    return describe(spots, path, where, name, given(patient) or patient_of(table.obs[kept]))


def _open(path: Path) -> Any:
    """Read what a store has, its images and tables lazily where that can be."""
    try:
        import spatialdata
    except ImportError as e:
        raise DataError(path, "spatialdata, which reads it, is missing", 'pip install "genar[spatialdata]"') from e
    if not path.is_dir():
        raise DataError(path, "there is no such store", "check the path")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="SpatialData is not stored in the most current format")
            return spatialdata.read_zarr(path, selection=("images", "shapes", "tables"))
    except (OSError, KeyError, ValueError, TypeError) as e:
        why = f"it cannot be read as SpatialData ({' '.join(str(e).split())[:200]})"
        raise DataError(path, why, "write it anew with a recent spatialdata") from e


def _only(path: Path, kind: str, found: Any) -> Any:
    """Return the one element of a kind."""
    if len(found) != 1:
        names = f" ({', '.join(sorted(found))})" if found else ""
        raise DataError(path, f"it has {len(found)} {kind}s{names}, one is needed", "write one section a store")
    return next(iter(found.values()))


def _element(path: Path, store: Any, image: Path | str | None) -> str | None:
    """Name the store's image in whose pixels to place spots; None for its global coordinates."""
    names = sorted(store.images)
    if image is not None:
        given_path = Path(image)
        inside = [name for name in names if (path / "images" / name).resolve() == given_path.resolve()]
        if inside or len(names) == 1:
            return str((inside or names)[0])
        if not names:
            return None
    if len(names) != 1:
        why = f"it has {len(names)} images" + (f" ({', '.join(names)})" if names else "")
        raise DataError(path, why, f"name one as the image, for example {path}/images/{names[0] if names else 'NAME'}")
    return str(names[0])


def _centres(path: Path, store: Any, table: AnnData, image: str | None) -> tuple[NDArray[np.float64], float]:
    """Return the centres of the table's spots [N, 2] and a spot's diameter, 0 where unknown, both in pixels."""
    from spatialdata.transformations import get_transformation, get_transformation_between_coordinate_systems

    attributes = table.uns.get("spatialdata_attrs", {})
    region, key = attributes.get("region"), attributes.get("instance_key")
    regions = [region] if isinstance(region, str) else list(region if region is not None else [])
    if len(regions) != 1 or regions[0] not in store.shapes or key not in table.obs:
        raise DataError(path, f"its table annotates {regions or 'nothing'}, not one element of shapes", ANNOTATED)
    shapes = store.shapes[regions[0]]
    absent = ~np.isin(table.obs[key], shapes.index)
    if absent.any():
        raise DataError(path, f"{absent.sum()} rows of its table have no shape in {regions[0]}", ANNOTATED)
    shapes = shapes.loc[table.obs[key]]
    if image is None:
        to_pixels = get_transformation(store.shapes[regions[0]], to_coordinate_system="global")
    else:
        to_pixels = get_transformation_between_coordinate_systems(store, store.shapes[regions[0]], store.images[image])
    affine = to_pixels.to_affine_matrix(("x", "y"), ("x", "y"))
    points = np.column_stack([shapes.centroid.x, shapes.centroid.y, np.ones(len(shapes))])
    scale = float(np.sqrt(abs(np.linalg.det(affine[:2, :2]))))
    diameter = 2 * float(np.median(shapes["radius"])) * scale if "radius" in shapes else 0.0
    return (points @ affine.T)[:, :2], diameter
