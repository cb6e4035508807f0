"""A result as a SpatialData store: an image at several scales, a circle a spot, and the table of counts."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from math import ceil, log2
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import ConfigError, DataError
from genar.slide.open import Slide
from genar.slide.regions import Grid
from genar.slide.section import library_name
from genar.write.sections import Section

GLOBAL = "global"
TABLE = "table"
ATTRIBUTES = "spatialdata_attrs"  # uns of a store's table
SLIDE_UM = 1.0  # a pixel of an image that is read from the slide, at least
BLOCK = 2048  # px, side of a chunk of it
SMALLEST = 512  # px, the longer side of the coarsest scale, at most
RGB = ["r", "g", "b"]
# What spatialdata and its libraries say of themselves while they write
QUIET = ("zarr v3 autosharding", "Call to deprecated class Scaler", "Consolidated metadata")


def check_installed() -> None:
    """Raise unless stores can be written.

    Raises
    ------
    ConfigError
        If spatialdata is missing.
    """
    try:
        import spatialdata  # noqa: F401
    except ImportError as e:
        remedy = 'pip install "genar[spatialdata]"'
        raise ConfigError("--to spatialdata", "spatialdata, which writes it, is missing", remedy) from e


def write_spatialdata(
    adata: AnnData, sections: Sequence[Section], path: Path, *, genes: Sequence[str], slide: Path | None = None
) -> None:
    """Write a store, with elements named as spatialdata-io's reader of Visium names them.

    For each section ``<name>_hires_image`` (or ``<name>_full_image``, from the slide), and circles ``<name>``; for
    all, ``table``. The coordinate system of level-0 pixels is ``global``, or ``<name>`` of each of several sections.

    Parameters
    ----------
    adata
        The result.
    sections
        Its sections.
    path
        The store to write, which does not exist.
    genes
        The genes of the table, with all their layers.
    slide
        The slide of the one section: the image is then read from it, at 1 µm a pixel or what it has, piece by piece.

    Raises
    ------
    DataError
        If a section has no image, or the table holds a name that stores cannot, or a column of theirs.
    """
    from spatialdata import SpatialData

    images: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    with ExitStack() as stack, warnings.catch_warnings():
        for said in QUIET:
            warnings.filterwarnings("ignore", message=said)
        for section in sections:
            name = library_name(section.name)
            system = name if len(sections) > 1 else GLOBAL  # with both, spatialdata could not choose between two ways
            if slide is None:
                pixels, unit = section.image()
                images[f"{name}_hires_image"] = _image(pixels.transpose(2, 0, 1), unit, system)
            else:
                pixels, unit = _lazy(stack.enter_context(section.open(slide)))
                images[f"{name}_full_image"] = _image(pixels, unit, system)
            shapes[name] = _circles(section, system)
        table = _table(adata[:, list(genes)], sections)
        store = SpatialData(images=images, shapes=shapes, tables={TABLE: table}, attrs={keys.GENAR: _made(adata)})
        # anndata >= 0.13 writes pandas' nullable strings by default, which older releases cannot read
        old_strings = "allow_write_nullable_strings" in dir(ad.settings)
        stack.enter_context(ad.settings.override(allow_write_nullable_strings=False) if old_strings else nullcontext())
        store.write(path, update_sdata_path=False)


def is_ours(path: Path) -> bool:
    """Tell whether a folder is a store that genar wrote."""
    import zarr

    try:
        return keys.GENAR in zarr.open_group(path, mode="r").attrs
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _image(pixels: Any, unit: tuple[float, float], system: str) -> Any:
    """Make an image of scales that halve its size, from pixels [3, h, w] that span ``unit`` level-0 pixels each."""
    from spatialdata.models import Image2DModel
    from spatialdata.transformations import Scale

    height, width = pixels.shape[1:]
    halves = min(max(1, ceil(log2(max(height, width) / SMALLEST))), int(log2(min(height, width))))
    return Image2DModel.parse(
        pixels, dims=("c", "y", "x"), c_coords=RGB, transformations={system: Scale(list(unit), axes=("x", "y"))},
        scale_factors=[2] * halves or None, chunks=(3, BLOCK, BLOCK),
    )  # fmt: skip


def _lazy(slide: Slide) -> tuple[Any, tuple[float, float]]:
    """Return a slide's pixels, uint8 [3, h, w], read when they are written, and how many level-0 pixels each spans."""
    import dask.array as da

    grid = Grid.of(slide, max(1.0, SLIDE_UM / slide.mpp), BLOCK)
    width, height = (max(1, round(side / unit)) for side, unit in zip(slide.dimensions, grid.unit, strict=True))

    def read(block_info: Any) -> np.ndarray:
        _, (top, bottom), (left, right) = block_info[None]["array-location"]
        return grid.read(slide, left, top, right - left, bottom - top).transpose(2, 0, 1)

    chunks = ((3,), *((BLOCK,) * (n // BLOCK) + ((n % BLOCK,) if n % BLOCK else ()) for n in (height, width)))
    pixels: Any = da.map_blocks(read, chunks=chunks, dtype=np.uint8, meta=np.empty((0, 0, 0), np.uint8))
    return pixels, grid.unit


def _circles(section: Section, system: str) -> Any:
    """Make the spots' circles, indexed by their rows in the table."""
    from spatialdata.models import ShapesModel
    from spatialdata.transformations import Identity

    return ShapesModel.parse(
        section.centres, geometry=0, radius=section.diameter / 2, index=pd.Index(section.rows, name=keys.SPOT_ID),
        transformations={system: Identity()},
    )  # fmt: skip


def _table(part: AnnData, sections: Sequence[Section]) -> AnnData:
    """Make the table, whose ``obs["region"]`` and ``obs["spot_id"]`` name each row's circle."""
    from spatialdata.models import TableModel

    regions = [library_name(section.name) for section in sections]
    of = np.empty(part.n_obs, dtype=np.int64)
    for number, section in enumerate(sections):
        of[section.rows] = number
    table = part.copy()
    if table.uns.pop(ATTRIBUTES, None) is None:  # else it is of a store, whose columns are made anew
        for column in (keys.REGION, keys.SPOT_ID):
            if column in table.obs:
                raise DataError(column, "the store keeps a column of its own in obs under this name", "rename it")
    table.obs[keys.REGION] = pd.Categorical(np.array(regions, dtype=object)[of], categories=regions)
    table.obs[keys.SPOT_ID] = np.arange(part.n_obs)
    pictures = {keys.IMAGES, keys.TISSUE_MASK}  # the images are the store's
    table.uns[keys.SPATIAL] = {
        section.name: {key: value for key, value in section.entry.items() if key not in pictures}
        for section in sections
    }
    table.strings_to_categoricals()
    region = regions if len(regions) > 1 else regions[0]
    try:
        return TableModel.parse(table, region=region, region_key=keys.REGION, instance_key=keys.SPOT_ID)
    except ValueError as e:  # its own kind of it is private; it ends with the names
        why = f"a store cannot hold it ({' '.join(str(e).split())[-160:]})"
        raise DataError("the table", why, "rename it, or call spatialdata.sanitize_table on the AnnData") from e


def _made(adata: AnnData) -> dict[str, str]:
    """Say in the store's attributes, which are JSON, what made it."""
    from importlib.metadata import version

    known = adata.uns.get(keys.GENAR, {})
    said = {key: str(known[key]) for key in ("model", "model_sha256") if isinstance(known, Mapping) and key in known}
    return {"version": version("genar"), **said}
