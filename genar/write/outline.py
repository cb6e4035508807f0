"""A tissue mask as outlines that QuPath opens."""

import json
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import shapely
import shapely.geometry
from scipy import ndimage
from skimage import measure

from genar.slide.backends import origin
from genar.slide.open import Slide
from genar.slide.tissue import TissueMask

TISSUE = {"name": "Tissue", "color": [0, 200, 83]}
SIMPLER_PX = 0.5  # of the mask, by which an outline may be moved to save corners


def write_outline(mask: TissueMask | None, slide: Slide, path: Path) -> None:
    """Write the pieces of tissue as a GeoJSON FeatureCollection of annotations, one polygon with holes each.

    Coordinates are full-resolution pixels from where QuPath counts (:func:`genar.slide.backends.origin`).

    Parameters
    ----------
    mask
        Where there is tissue; None where that is everywhere.
    slide
        The slide.
    path
        The file to write; one that exists is replaced.
    """
    start = np.asarray(origin(slide.backend))
    features = []
    found = [shapely.box(0, 0, *slide.dimensions)] if mask is None else pieces(mask)
    for number, piece in enumerate(found):
        moved = shapely.transform(piece, lambda xy: (xy - start).round(1))
        features.append(
            {
                "type": "Feature",
                "id": str(uuid5(NAMESPACE_URL, f"{slide.path.name}/{number}")),
                "geometry": shapely.geometry.mapping(moved),
                "properties": {"objectType": "annotation", "classification": TISSUE},
            }
        )
    text = json.dumps({"type": "FeatureCollection", "features": features})
    path.write_text(text + "\n", encoding="utf-8")


def pieces(mask: TissueMask) -> list[shapely.Polygon]:
    """Return the outlines of each piece of tissue, with its holes, in level-0 pixels."""
    labels, _ = ndimage.label(mask.mask)
    found = []
    for number, place in enumerate(ndimage.find_objects(labels), start=1):
        contours = measure.find_contours(np.pad(labels[place] == number, 1).astype(np.float32), 0.5)
        corner = np.array([place[1].start, place[0].start]) - 0.5  # padding, less half a pixel to a pixel's centre
        rings = sorted((shapely.Polygon(c[:, ::-1] + corner) for c in contours), key=lambda ring: -ring.area)
        outline = shapely.Polygon(rings[0].exterior, [hole.exterior for hole in rings[1:]]).simplify(SIMPLER_PX)
        scaled = shapely.transform(outline, lambda xy: xy * mask.downsample)
        found += [part for part in shapely.get_parts(scaled) if not part.is_empty]
    return found
