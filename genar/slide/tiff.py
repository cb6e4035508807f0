"""TIFF images that OpenSlide does not read, or of which it would miss the pyramid."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from numpy.typing import NDArray

from genar.errors import SlideError
from genar.slide.pixels import DAMAGED, LARGEST_DECODED, decoding, over_white, too_large

UM = {"µm": 1.0, "um": 1.0, "micron": 1.0, "mm": 1e3, "cm": 1e4, "nm": 1e-3}  # OME-XML's units
LARGEST_CHUNK = 2**26  # bytes; a larger chunk is not decoded anew for every window
WHITE_IS_ZERO, RGB, YCBCR = 0, 2, 6  # photometric interpretations; 1 is black is zero
ALPHA = (1, 2)  # extra samples that are opacity
REMEDY = "convert it to 8-bit RGB"


class TiffImage:
    """A TIFF of any layout, read by the chunks (strips or tiles) that a window touches.

    Grey, RGB or RGBA, interleaved or in planes, of 8 or 16 bits; of 16 bits the upper 8 count. A level that lies in
    chunks of more than 64 MiB is held in memory, decoded, if that takes at most 2 GiB.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objective: str | None = None
        with ExitStack() as opened:
            self.file = opened.enter_context(tifffile.TiffFile(path))
            series = self.file.series[0]
            self._check(series)
            self.planes_first = series.axes in ("SYX", "CYX")
            self.inverted = series.keyframe.photometric == WHITE_IS_ZERO
            self.has_alpha = bool(series.keyframe.extrasamples) and series.keyframe.extrasamples[0] in ALPHA
            self.arrays = [self._array(series, level) for level in range(len(series.levels))]
            self.levels = tuple(self._size(level.shape) for level in series.levels)
            self.mpp = self._resolution()
            self.read(0, 0, 1, 1, len(self.levels) - 1)  # an unknown compression shows here, not in a worker later
            opened.pop_all()

    def _check(self, series: tifffile.TiffPageSeries) -> None:
        """Refuse what is not a grey or RGB picture."""
        planes = series.shape[series.axes.index("C")] if "C" in series.axes else 1
        if any(0 in level.shape for level in series.levels):
            raise SlideError(self.path, "its header gives an image without pixels", DAMAGED)
        picture = series.axes in ("YX", "YXS", "SYX") or (series.axes == "CYX" and planes == 3 and series.dtype == "u1")
        if not picture or series.dtype.kind != "u" or series.dtype.itemsize > 2:
            why = f"its axes are {series.axes} and its values {series.dtype}, not a grey or RGB image of 8 or 16 bits"
            raise SlideError(self.path, why, REMEDY)
        if series.keyframe.photometric not in (WHITE_IS_ZERO, 1, RGB, YCBCR):
            raise SlideError(self.path, "its colours are neither grey nor RGB", REMEDY)

    def _size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return (width, height) of an array's shape."""
        height, width = shape[-2:] if self.planes_first else shape[:2]
        return int(width), int(height)

    def _array(self, series: tifffile.TiffPageSeries, number: int) -> Any:
        """Open a level for reading by window: memory-mapped where it lies plain in the file."""
        level = series.levels[number]
        page = level.keyframe
        if page.is_memmappable and len(level.pages) == 1:
            dtype = level.dtype.newbyteorder(self.file.byteorder)
            return np.memmap(self.path, dtype, mode="r", offset=page.dataoffsets[0], shape=level.shape)
        array: Any = zarr.open(series.aszarr(level=number), mode="r")
        chunk = math.prod(array.chunks) * array.dtype.itemsize
        if chunk > LARGEST_DECODED:
            raise too_large(self.path, *self._size(level.shape), "for a TIFF in one strip")
        in_memory = chunk > LARGEST_CHUNK and math.prod(array.shape) * array.dtype.itemsize <= LARGEST_DECODED
        return array[:] if in_memory else array

    def _resolution(self) -> tuple[float, float, str] | None:
        """Read µm per pixel from OME-XML or from the resolution tags."""
        if self.file.ome_metadata:
            pixels = _first_pixels(tifffile.xml2dict(self.file.ome_metadata))
            unit_x, unit_y = (UM.get(str(pixels.get(f"PhysicalSize{axis}Unit", "µm"))) for axis in "XY")
            x, y = pixels.get("PhysicalSizeX"), pixels.get("PhysicalSizeY")
            if x and y and unit_x and unit_y:
                return float(x) * unit_x, float(y) * unit_y, "OME-XML"
        page = self.file.pages.first
        unit_tag = page.tags.get("ResolutionUnit")
        if "XResolution" not in page.tags or unit_tag is None or unit_tag.value not in (2, 3):
            return None
        if 0 in page.tags["XResolution"].value or 0 in page.tags["YResolution"].value:
            return None
        per_x, per_y = page.get_resolution(tifffile.RESUNIT.MICROMETER)
        return 1 / per_x, 1 / per_y, "TIFF resolution tags"

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`Backend` says."""
        rows, columns = slice(y, y + height), slice(x, x + width)
        with decoding(self.path, "its pixels cannot be decoded"):
            array = self.arrays[level]
            pixels = np.asarray(array[:, rows, columns] if self.planes_first else array[rows, columns])
        if self.planes_first:
            pixels = np.moveaxis(pixels, 0, 2)
        if pixels.dtype.itemsize == 2:
            pixels = (pixels >> 8).astype(np.uint8)
        if self.inverted:
            pixels = 255 - pixels
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        if pixels.shape[2] < 3:
            return np.repeat(pixels[..., :1], 3, axis=2)
        return over_white(pixels[..., :4]) if pixels.shape[2] > 3 and self.has_alpha else pixels[..., :3]

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _first_pixels(ome: dict[str, Any]) -> dict[str, Any]:
    """Find the ``Pixels`` element of the first image in OME-XML."""
    image = ome.get("OME", {}).get("Image", {})
    image = image[0] if isinstance(image, list) else image
    return dict(image.get("Pixels", {}))
