"""A section's spots as objects that QuPath imports, a measurement a gene."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.errors import DataError
from genar.genes.choice import dense, values
from genar.slide.backends import origin
from genar.write.sections import Section

if TYPE_CHECKING:
    from genar.write.classes import Classes

ObjectName = Literal["detection", "tile"]
OBJECTS: tuple[ObjectName, ...] = ("detection", "tile")
CORNERS = 16  # of the polygon that stands for a circle; four of them touch its bounds, which QuPath makes it from
OBS = (keys.TOTAL_COUNTS, keys.OOD, keys.TISSUE_FRACTION, keys.BLUR_UM)  # measurements, where a result has them
CHUNK = 4096  # spots whose values are in memory at once


def write_geojson(
    adata: AnnData,
    section: Section,
    path: Path,
    *,
    genes: Sequence[str],
    layer: str | None = None,
    start: tuple[float, float],
    kind: ObjectName = "detection",
    classes: "Classes | None" = None,
) -> None:
    """Write a FeatureCollection, a feature a line.

    A spot is an ellipse, or a square where spots are laid as a grid without gaps. Its name is the barcode, its id
    always the same. Measurements that are not finite are left out, as QuPath takes numbers alone.

    Parameters
    ----------
    adata
        The result.
    section
        The section of it to write.
    path
        The file to write.
    genes
        The genes that become measurements.
    layer
        Whose values; by default ``X``.
    start
        Where QuPath counts from (x, y), in level-0 pixels; see :func:`start_of`.
    kind
        Detections, or tiles, which QuPath draws below them.
    classes
        Classes of all spots of the result.
    """
    measured = values(adata, [*genes], layer)
    about = [name for name in OBS if name in adata.obs and name not in genes]
    outlines = section.centres[:, None] + _outline(section) - np.asarray(start)
    is_round = outlines.shape[1] > 5
    slide = str(section.metadata.get(keys.SLIDE_NAME, section.name))
    with path.open("w", encoding="utf-8") as file:
        file.write('{"type": "FeatureCollection", "features": [\n')
        for number, (row, found) in enumerate(_rows(adata, section, measured, about)):
            barcode = str(adata.obs_names[row])
            ring = [[round(x, 2), round(y, 2)] for x, y in outlines[number].tolist()]
            geometry = {"type": "Polygon", "coordinates": [ring]} | ({"isEllipse": True} if is_round else {})
            properties: dict[str, Any] = {"objectType": kind, "name": barcode}
            if classes is not None and (given := classes.of(row)) is not None:
                properties["classification"] = given
            properties["measurements"] = _finite([*genes, *about], found)
            identity = str(uuid5(NAMESPACE_URL, f"{slide}/{section.name}/{barcode}"))
            feature = {"type": "Feature", "id": identity, "geometry": geometry, "properties": properties}
            file.write((",\n" if number else "") + json.dumps(feature, ensure_ascii=False))
        file.write("\n]}\n")


def start_of(section: Section, slide: Path | None) -> tuple[float, float]:
    """Return where QuPath counts a section's coordinates from (x, y), in level-0 pixels.

    That is the corner of the scanned area (:func:`genar.slide.backends.origin`), which the section's metadata hold
    since genar writes them, and the slide has: the given one, else that which the section names.

    Raises
    ------
    DataError
        If neither is there.
    SlideError
        If the slide cannot be opened, or is of another size.
    """
    known = section.metadata
    if slide is None and keys.BOUNDS_X in known and keys.BOUNDS_Y in known:
        return float(known[keys.BOUNDS_X]), float(known[keys.BOUNDS_Y])
    path = slide or Path(str(known.get(keys.SOURCE_IMAGE, "")))
    if slide is None and (keys.SOURCE_IMAGE not in known or not path.exists()):
        why = "it does not say where QuPath counts this slide's pixels from, and its slide is not there"
        raise DataError(section.name, why, "give the slide with --slide")
    with section.open(path) as opened:
        return origin(opened.backend)


def _outline(section: Section) -> NDArray[np.float64]:
    """Return a spot's closed outline around (0, 0) in level-0 pixels, [corners + 1, 2]."""
    radius = section.diameter / 2
    known = section.metadata
    if known.get(keys.LATTICE) == "grid" and known.get(keys.SPOT_UM) == known.get(keys.PITCH_UM):
        return radius * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)], dtype=np.float64)
    angle = 2 * np.pi * (np.arange(CORNERS + 1) % CORNERS) / CORNERS
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def _rows(
    adata: AnnData, section: Section, measured: Any, about: Sequence[str]
) -> Iterator[tuple[int, list[float | int]]]:
    """Yield each spot's row and its measurements, a part of them in memory at once."""
    for first in range(0, len(section.rows), CHUNK):
        rows = section.rows[first : first + CHUNK]
        found = dense(measured[rows])
        extra = [adata.obs[name].to_numpy()[rows].tolist() for name in about]
        for number, row in enumerate(rows.tolist()):
            yield row, [*found[number].tolist(), *(column[number] for column in extra)]


def _finite(names: Sequence[str], found: Sequence[float | int]) -> dict[str, float | int]:
    """Return the measurements that are numbers, to seven digits where they are not whole."""
    pairs = zip(names, found, strict=True)
    return {n: v if isinstance(v, int) else float(f"{v:.7g}") for n, v in pairs if np.isfinite(v)}
