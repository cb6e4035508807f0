"""Where a slide shows tissue, from what the user says of it: outlines drawn in QuPath, or a mask."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shapely
import shapely.geometry
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from shapely.affinity import translate
from shapely.geometry.base import BaseGeometry
from skimage import draw

from genar.errors import ConfigError, DataError
from genar.slide.backends import origin
from genar.slide.open import Slide
from genar.slide.tissue import TissueMask, tissue_mask

AUTO, NONE = "auto", "none"
OUTLINES, MASKS = (".geojson", ".json"), (".png",)
NAMES = ("{}.geojson", "{}.tissue.geojson", "{}_contours.geojson", "{}.png")  # in a folder, in this order
RASTER_UM, RASTER_PX = 4.0, 6000  # of outlines: a pixel, and at most so many a side
BAND_PX = 512  # rows drawn at once, which bounds memory
OUTSIDE = 0.1  # share of the outlines' area beyond the slide from which they are of another slide, or in other units
ASPECT = 0.02  # by which a mask's shape may differ from the slide's
MOST_COLOURS = 256  # of a mask in colour; more are a picture's
AS_QUPATH = "give polygons in full-resolution pixels, as QuPath's File > Export objects as GeoJSON"


def tissue_of(slide: Slide, source: str | Path = AUTO) -> TissueMask | None:
    """Find where a slide shows tissue, as the user wants it found.

    Parameters
    ----------
    slide
        The slide.
    source
        ``"auto"``: from its pixels. ``"none"``: everywhere. Or a file: GeoJSON of polygons in level-0 pixels, as QuPath
        (counted from :func:`genar.slide.backends.origin`), TRIDENT and HEST (counted from the slide's corner) write
        it, where the areas of objects whose class starts with "Ignore" are no tissue; or a PNG of the whole slide at
        any size, where tissue is what is neither black nor transparent. Or a folder with ``<slide stem>.geojson``,
        ``.tissue.geojson``, ``_contours.geojson`` or ``.png``; the first of these is taken.

    Returns
    -------
    The mask, or None where everywhere is tissue.

    Raises
    ------
    DataError
        If the file cannot be read, shows no tissue, or does not fit the slide.
    ConfigError
        If there is no such source.
    """
    found = source_of(slide.path, source)
    if found == NONE:
        return None
    if found == AUTO:
        return tissue_mask(slide)
    return _mask(Path(found), slide) if Path(found).suffix.lower() in MASKS else _outlined(Path(found), slide)


def source_of(slide: Path, source: str | Path) -> str:
    """Return ``"auto"``, ``"none"`` or the path of the file that a source means for a slide.

    Raises
    ------
    ConfigError
        If there is no such source.
    DataError
        If a folder holds none for this slide.
    """
    path = Path(source)
    if str(source) in (AUTO, NONE):
        return str(source)
    if path.is_dir():
        names = [name.format(slide.stem) for name in NAMES]
        found = [path / name for name in names if (path / name).is_file()]
        if not found:
            remedy = f"put {names[0]} or {names[-1]} there, or leave this slide out"
            raise DataError(path, f"it holds no outline of {slide.name}", remedy)
        return str(found[0])
    if not path.is_file():
        why = f"{str(source)!r} is neither auto nor none, and there is no such file"
        raise ConfigError("--tissue", why, "give a GeoJSON, a mask PNG, or a folder of these")
    if path.suffix.lower() not in OUTLINES + MASKS:
        raise DataError(path, "it is neither GeoJSON nor PNG", "give a .geojson of outlines or a .png mask")
    return str(path)


def _outlined(path: Path, slide: Slide) -> TissueMask:
    """Draw the outlines in a GeoJSON file."""
    width, height = slide.dimensions
    area = _area(path, origin(slide.backend))
    inside = shapely.intersection(area, shapely.box(0, 0, width, height))
    if inside.area < (1 - OUTSIDE) * area.area:
        x0, y0, x1, y1 = (round(value) for value in area.bounds)
        why = f"its outlines reach from {x0}, {y0} to {x1}, {y1}, beyond {slide.path.name}, {width} x {height} px"
        raise DataError(path, why, AS_QUPATH)
    shrink = max(1.0, RASTER_UM / slide.mpp, max(width, height) / RASTER_PX)
    shape = (max(1, round(height / shrink)), max(1, round(width / shrink)))
    downsample = (width / shape[1], height / shape[0])
    scaled = shapely.transform(inside, lambda xy: xy / downsample)
    mask = _drawn(scaled, shape)
    if not mask.any():
        raise DataError(path, f"its outlines enclose less than {shrink * slide.mpp:.2g} µm", AS_QUPATH)
    return TissueMask(mask, downsample)


def _area(path: Path, start: tuple[float, float]) -> BaseGeometry:
    """Read the area that outlines enclose, in level-0 pixels."""
    try:
        features = _features(json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number))
        with np.errstate(all="ignore"):  # what comes of numbers beyond all bounds is looked for below
            objects = [(f.get("properties") or {}, _polygons(f.get("geometry"))) for f in features]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, shapely.errors.ShapelyError) as e:
        raise DataError(path, f"its outlines cannot be read ({' '.join(str(e).split())[:120]})", AS_QUPATH) from e
    drawn = [one for one in objects if not one[1].is_empty]
    if not drawn:
        why = "it holds points or lines, no polygons" if objects else "it holds no outlines"
        raise DataError(path, why, AS_QUPATH)
    if not all(np.isfinite(geometry.bounds).all() for _, geometry in drawn):
        raise DataError(path, "a corner of an outline is not a number", AS_QUPATH)
    # annotations are outlines; detections beside them are cells
    annotations = [one for one in drawn if one[0].get("objectType") == "annotation"] or drawn
    # TRIDENT and HEST number pieces of tissue, and count from the slide's corner
    moved = [
        (_class(said), geometry if "tissue_id" in said else translate(geometry, *start))
        for said, geometry in annotations
    ]
    tissue = shapely.union_all([geometry for name, geometry in moved if not name.startswith("ignore")])
    tissue = shapely.difference(tissue, shapely.union_all([g for name, g in moved if name.startswith("ignore")]))
    if tissue.area == 0:
        raise DataError(path, "its outlines enclose nothing", AS_QUPATH)
    return tissue


def _no_number(text: str) -> float:
    """Refuse what JSON does not have."""
    msg = f"{text} in it is no number"
    raise ValueError(msg)


def _features(found: Any) -> Iterator[dict[str, Any]]:
    """Go through the features of GeoJSON: of a collection, a list, one feature, or a bare geometry."""
    if isinstance(found, list):
        for one in found:
            yield from _features(one)
    elif found["type"] == "FeatureCollection":
        yield from _features(found["features"])
    else:
        yield found if found["type"] == "Feature" else {"geometry": found}


def _polygons(geometry: dict[str, Any] | None) -> BaseGeometry:
    """Return the areas of a geometry, those of outlines that cross themselves repaired; empty where it has none."""
    if geometry is None:
        return shapely.Polygon()
    parts = shapely.get_parts(shapely.make_valid(shapely.geometry.shape(geometry)))
    flat = [part for whole in parts for part in shapely.get_parts(whole)]
    return shapely.union_all([part for part in flat if part.geom_type == "Polygon"])


def _class(properties: dict[str, Any]) -> str:
    """Return the name of an object's class in small letters, "" where it has none."""
    found = properties.get("classification")
    return str((found.get("name") if isinstance(found, dict) else found) or "").lower()


def _drawn(area: BaseGeometry, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which pixels' centres lie in an area in pixels, bool [h, w]."""
    mask = np.zeros(shape, dtype=bool)
    for top in range(0, shape[0], BAND_PX):
        band = mask[top : top + BAND_PX]
        part = shapely.clip_by_rect(area, -1, top - 1, shape[1] + 1, top + len(band) + 1)
        for polygon in shapely.get_parts(part):
            for ring in (polygon.exterior, *polygon.interiors) if polygon.geom_type == "Polygon" else ():
                x, y = np.asarray(ring.coords)[:, :2].T
                band[draw.polygon(y - top - 0.5, x - 0.5, band.shape)] ^= True  # holes, and islands in them
    return mask


def _mask(path: Path, slide: Slide) -> TissueMask:
    """Read a mask from a PNG file."""
    width, height = slide.dimensions
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                w, h = image.size
                if abs((w / h) / (width / height) - 1) > max(ASPECT, 1 / min(w, h)):
                    why = f"it is {w} x {h} px, of another shape than {slide.path.name}, {width} x {height} px"
                    raise DataError(path, why, "give a mask of the whole slide")
                mask = _nonzero(image, path)
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as e:
        why = f"it cannot be read ({' '.join(str(e).split())[:120]})"
        raise DataError(path, why, f"give a PNG of up to {RASTER_PX} px a side") from e
    if not mask.any():
        raise DataError(path, "all of it is black or transparent", "give a mask whose tissue is white")
    return TissueMask(mask, (width / mask.shape[1], height / mask.shape[0]))


def _nonzero(image: Image.Image, path: Path) -> NDArray[np.bool_]:
    """Return which pixels are neither black nor transparent, bool [h, w] of at most 6000 a side."""
    alpha = np.asarray(image.convert("RGBA").getchannel("A")) if image.has_transparency_data else np.zeros(1)
    shown: NDArray[np.bool_]
    if np.ptp(alpha):  # where all is opaque it says nothing
        opaque = np.asarray(alpha > 0)
        coloured = opaque & np.asarray(np.asarray(image.convert("RGB")).any(axis=2))
        shown = coloured if coloured.any() else opaque
    elif image.mode.startswith(("I", "F")):
        shown = np.asarray(image).astype(np.bool_)
    else:
        rgb = image.convert("RGB")
        small = rgb.resize((min(rgb.width, 1000), min(rgb.height, 1000)), Image.Resampling.NEAREST)
        if small.getcolors(MOST_COLOURS) is None and np.ptp(np.asarray(small), axis=2).any():
            raise DataError(path, "it has the many colours of a picture", "give a mask: black, and white for tissue")
        shown = np.asarray(np.asarray(rgb).any(axis=2))
    step = -(-max(shown.shape) // RASTER_PX)
    if step == 1:
        return np.asarray(shown, dtype=np.bool_)
    return np.asarray(Image.fromarray(shown.astype(np.uint8) * 255).reduce(step)) > 127
