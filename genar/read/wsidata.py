"""Stores of features by LazySlide: zarr as wsidata writes it, read without it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import shapely
import zarr
from numpy.typing import NDArray

from genar.errors import DataError
from genar.read.foreign import Foreign, canonical, number, reading
from genar.units import TILE_TOLERANCE

WHAT = "a store of wsidata"
REMEDY = "give the .zarr that LazySlide wrote for this slide, after wsi.write()"
ATTRIBUTES = "spatialdata_attrs"  # which shapes a table is of
SHAPES_FILE = "shapes.parquet"


@dataclass(frozen=True)
class _Table:
    """A table of features: its name, the encoder's, and the tiles that it is of."""

    name: str
    encoder: str
    tiles: str


def read_store(path: Path, *, encoder: str | None, side_px: float | None) -> Foreign:
    """Read the features of one table, ``<model>_<tiles>``, and the squares in ``shapes/<tiles>``.

    Parameters
    ----------
    path
        The store.
    encoder
        The encoder whose table to take; None where the store has one table.
    side_px
        Side in level-0 pixels of the tiles to take, where the encoder has several tables; else None.

    Raises
    ------
    DataError
        If it is no such store, or does not have one table that fits.
    """
    with reading(path, WHAT, REMEDY):
        store: Any = zarr.open_group(path, mode="r")
        known = store.attrs.asdict()
        specs = known.get("tile_spec") or {}
        tables = _tables(store, set(specs))
    chosen = _choose(path, tables, specs, encoder, side_px)
    with reading(path, WHAT, REMEDY):
        table: Any = anndata.io.read_elem(store["tables"][chosen.name])
        key = table.uns[ATTRIBUTES]["instance_key"]
        squares = pd.read_parquet(path / "shapes" / chosen.tiles / SHAPES_FILE)
        shapes = dict(zip(squares.index, shapely.from_wkb(squares["geometry"].to_numpy()), strict=True))
        missing = [name for name in table.obs[key] if name not in shapes]
        if not missing:
            bounds = shapely.bounds([shapes[name] for name in table.obs[key]]).reshape(-1, 4)
        values = np.asarray(table.X.toarray() if hasattr(table.X, "toarray") else table.X, np.float32)
        height, width = (known.get("slide_properties") or {}).get("shape") or (None, None)
    if missing:
        why = f"{len(missing)} rows of its table {chosen.name} have no tile in shapes/{chosen.tiles}"
        raise DataError(path, why, "extract the features again, of the tiles as they are now")
    return Foreign(
        values,
        bounds[:, :2],
        side_px=_side(bounds),
        encoder=chosen.encoder,
        size=(int(width), int(height)) if width and height else None,
    )


def _tables(store: Any, tiles: set[str]) -> list[_Table]:
    """List the tables whose rows are tiles."""
    found = []
    for name in sorted(store["tables"].group_keys()) if "tables" in store else ():
        group = store["tables"][name]
        about = f"uns/{ATTRIBUTES}"
        region = anndata.io.read_elem(group[f"{about}/region"]) if about in group else None
        regions = [region] if isinstance(region, str) else list(region if region is not None else [])
        if len(regions) == 1 and str(regions[0]) in tiles:
            of = str(regions[0])
            found.append(_Table(str(name), str(name).removesuffix(f"_{of}"), of))
    return found


def _choose(
    path: Path, tables: list[_Table], specs: dict[str, Any], encoder: str | None, side_px: float | None
) -> _Table:
    """Choose the one table of the encoder and, of several, of tiles of the given side."""
    fits = [t for t in tables if encoder is None or canonical(t.encoder) == canonical(encoder)]
    if len(fits) > 1 and side_px is not None:
        near = [t for t in fits if abs((_spec_px(specs[t.tiles]) or 0.0) / side_px - 1) <= TILE_TOLERANCE]
        fits = near or fits
    if len(fits) == 1:
        return fits[0]
    names = ", ".join(t.name for t in tables) or "none"
    if not fits:
        of = "of tiles" if encoder is None else f"with {encoder} features"
        remedy = f"name one of these encoders, or extract the features: zs.tl.feature_extraction(wsi, {encoder!r})"
        raise DataError(path, f"it has no table {of} (its tables: {names})", remedy if tables else REMEDY)
    which = "the encoder" if encoder is None else "the side of the tiles, tile_um"
    raise DataError(path, f"several of its tables fit: {', '.join(t.name for t in fits)}", f"say {which}")


def _spec_px(spec: dict[str, Any]) -> float | None:
    """Return the side of a tile in level-0 pixels from wsidata's description."""
    width, downsample = number(spec.get("width")), number(spec.get("base_downsample"))
    return width * downsample if width and downsample else None


def _side(bounds: NDArray[np.float64]) -> float | None:
    """Return the side of the squares, in pixels; None where there are none."""
    return float(np.median(bounds[:, 2:] - bounds[:, :2])) if len(bounds) else None
