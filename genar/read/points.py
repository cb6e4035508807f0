"""Places to predict at, from a table or from QuPath."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shapely
import shapely.geometry

from genar.errors import DataError

COLUMNS = ["x", "y"]


def points(path: Path | str, *, offset: tuple[float, float] = (0.0, 0.0)) -> pd.DataFrame:
    """Read places from a CSV or a GeoJSON file.

    Parameters
    ----------
    path
        A ``.csv`` or ``.tsv`` with the columns ``x`` and ``y`` in level-0 pixels, and names in a column ``barcode``
        or else in the first column; or a ``.geojson`` or ``.json`` of features, as QuPath exports, whose centroids
        are taken.
    offset
        Of GeoJSON alone: where its coordinates start in the slide (x, y), in level-0 pixels. QuPath counts from
        the corner of the scanned area, :func:`genar.slide.backends.origin`.

    Returns
    -------
    Columns ``x`` and ``y``, float64, in level-0 pixels; indexed by name, by number where there are no names.

    Raises
    ------
    DataError
        If the file cannot be read, holds no place, a place is no number, or a name stands in it twice.
    """
    path = Path(path)
    if path.suffix.lower() in (".geojson", ".json"):
        table = _features(path)
        table[COLUMNS] += offset
    elif path.suffix.lower() in (".csv", ".tsv"):
        table = _table(path)
    else:
        raise DataError(path, "it is neither a table nor GeoJSON", "give a .csv with columns x and y, or a .geojson")
    if table.empty:
        raise DataError(path, "it holds no spots", "give at least one")
    if not np.isfinite(table.to_numpy()).all():
        raise DataError(path, "a spot's x or y is not a number", "give both in level-0 pixels for every spot")
    if not table.index.is_unique:
        name = table.index[table.index.duplicated()][0]
        raise DataError(path, f"{name} stands in it twice", "give every spot its own name")
    return table.rename_axis("barcode")


def _table(path: Path) -> pd.DataFrame:
    """Read a table with the columns x and y."""
    try:
        table = pd.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",", dtype=str)
    except (OSError, ValueError) as e:
        raise DataError(path, f"it cannot be read ({' '.join(str(e).split())})", "give a whole table") from e
    missing = [column for column in COLUMNS if column not in table]
    if missing:
        why = f"it lacks the column {' and '.join(missing)} (it has {', '.join(map(str, table.columns))})"
        sheet = ", or one section of this sample sheet by its own path" if "path" in table else ""
        raise DataError(path, why, f"give x and y in level-0 pixels{sheet}")
    named = "barcode" if "barcode" in table else str(table.columns[0])
    names = table[named].fillna("") if named not in COLUMNS else table.index.astype(str)
    xy = {column: pd.to_numeric(table[column], errors="coerce").to_numpy(np.float64) for column in COLUMNS}
    return pd.DataFrame(xy, index=pd.Index(names, dtype=object))


def _features(path: Path) -> pd.DataFrame:
    """Read the centroids of GeoJSON features."""
    remedy = "give a FeatureCollection of points or outlines, as QuPath's File > Export objects as GeoJSON"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        features = found["features"] if isinstance(found, dict) else found
        centroids = [shapely.geometry.shape(feature["geometry"]).centroid for feature in features]
        names = [_name(feature, number) for number, feature in enumerate(features)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, shapely.errors.ShapelyError) as e:
        raise DataError(path, f"its features cannot be read ({e!r})", remedy) from e
    if any(centroid.is_empty for centroid in centroids):
        raise DataError(path, "a feature has no geometry", remedy)
    xy = np.array([(centroid.x, centroid.y) for centroid in centroids], dtype=np.float64).reshape(-1, 2)
    return pd.DataFrame(xy, columns=COLUMNS, index=pd.Index(names, dtype=object))


def _name(feature: dict[str, Any], number: int) -> str:
    """Name a feature by its own name, else its id, else its number."""
    return str((feature.get("properties") or {}).get("name") or feature.get("id") or number)
