"""µm per pixel, as image files state it."""

import re
from typing import Any

import tifffile

Resolution = tuple[float, float, str]  # µm per pixel along x and y, and where that is written

UM = {
    "nm": 1e-3, "µm": 1.0, "um": 1.0, "micron": 1.0, "microns": 1.0, "mm": 1e3, "cm": 1e4, "m": 1e6, "inch": 25400.0,
    "nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3, "centimeter": 1e4, "meter": 1e6,
}  # fmt: skip
INCH, CENTIMETRE = 2, 3  # values of the tag ResolutionUnit
APERIO = re.compile(r"\|\s*MPP\s*=\s*([0-9.eE+-]+)")


def micrometres(unit: str) -> float | None:
    """Return how many µm a unit has, None if it is no length that is known here."""
    unit = unit.strip().replace("\\u00B5", "µ").replace("\N{GREEK SMALL LETTER MU}", "µ")  # the first is ImageJ's
    return UM.get(unit)


def number(text: object) -> float | None:
    """Read a number, None if it is none."""
    try:
        return float(str(text))
    except ValueError:
        return None


def of_tiff(file: tifffile.TiffFile) -> Resolution | None:
    """Read the resolution of a TIFF's first image: from OME-XML, ImageJ's or Aperio's text, or its tags."""
    return _of_ome(file) or _of_imagej(file) or of_text(file.pages.first.description) or _of_tags(file)


def of_text(description: str) -> Resolution | None:
    """Read ``|MPP = 0.25``, as Aperio writes it, which converters hand on."""
    found = APERIO.search(description)
    value = number(found.group(1)) if found else None
    return (value, value, "MPP in the image description") if value else None


def first_pixels(ome: dict[str, Any]) -> dict[str, Any]:
    """Find the ``Pixels`` element of the first image in OME-XML, as tifffile reads it."""
    image = ome.get("OME", {}).get("Image", {})
    image = image[0] if isinstance(image, list) else image
    return dict(image.get("Pixels", {}))


def _of_ome(file: tifffile.TiffFile) -> Resolution | None:
    if not file.ome_metadata:
        return None
    pixels = first_pixels(tifffile.xml2dict(file.ome_metadata))
    x, y = (number(pixels.get(f"PhysicalSize{axis}")) for axis in "XY")
    unit_x, unit_y = (micrometres(str(pixels.get(f"PhysicalSize{axis}Unit", "µm"))) for axis in "XY")
    return (x * unit_x, y * unit_y, "OME-XML") if x and y and unit_x and unit_y else None


def _of_imagej(file: tifffile.TiffFile) -> Resolution | None:
    """Read the resolution tags in the unit that ImageJ's text names."""
    unit = micrometres(str((file.imagej_metadata or {}).get("unit", "")))
    dots = _dots(file.pages.first)
    return (unit / dots[0], unit / dots[1], "ImageJ metadata") if unit and dots else None


def _of_tags(file: tifffile.TiffFile) -> Resolution | None:
    unit = file.pages.first.tags.get("ResolutionUnit")
    dots = _dots(file.pages.first)
    if dots is None or unit is None or unit.value not in (INCH, CENTIMETRE):
        return None
    um = UM["inch" if unit.value == INCH else "cm"]
    return um / dots[0], um / dots[1], "TIFF resolution tags"


def _dots(page: tifffile.TiffPage) -> tuple[float, float] | None:
    """Read pixels per unit along x and y."""
    x, y = (page.tags.get(f"{axis}Resolution") for axis in "XY")
    if x is None or y is None or 0 in x.value or 0 in y.value:
        return None
    return x.value[0] / x.value[1], y.value[0] / y.value[1]
