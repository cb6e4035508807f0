"""The image inside a SpatialData or OME-NGFF store: a folder of zarr arrays, one a level."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from genar.errors import SlideError
from genar.slide.pixels import LARGEST_DECODED, OPENABLE, decoding, over_white, too_large
from genar.slide.tiff import LARGEST_CHUNK

REMEDY = "write the image as uint8 with the axes c, y, x and the channels red, green, blue"


class ZarrImage:
    """An OME-NGFF image of zarr version 2 or 3, of which a window reads the chunks it touches.

    A level in chunks of more than 64 MiB is held in memory, if that takes at most 2 GiB.

    Parameters
    ----------
    path
        The image's folder, as ``<store>.zarr/images/<name>``.

    Raises
    ------
    SlideError
        If it is no such image, or not an 8-bit RGB one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mpp: tuple[float, float, str] | None = None  # SpatialData's transformations carry no unit
        self.objective: str | None = None
        if not any((path / name).is_file() for name in (".zattrs", "zarr.json")):
            raise SlideError(path, "it is a folder, not a file", OPENABLE)
        group: Any = zarr.open_group(path, mode="r")
        attributes = group.attrs.asdict()
        scales = attributes.get("ome", attributes).get("multiscales")  # version 0.5 on, and before
        if not scales:
            raise SlideError(path, "it is a folder without an OME-NGFF image", "give <store>.zarr/images/<name>")
        axes = "".join(str(axis["name"]) for axis in scales[0]["axes"])
        self.arrays = [self._array(group[level["path"]], axes) for level in scales[0]["datasets"]]
        self.levels = tuple((int(array.shape[2]), int(array.shape[1])) for array in self.arrays)

    def _array(self, array: Any, axes: str) -> Any:
        """Check a level and open it for reading by window."""
        if axes != "cyx" or array.dtype != np.uint8 or array.shape[0] not in (3, 4):
            why = f"its axes are {axes}, its shape {array.shape} and its values {array.dtype}, not 8-bit RGB"
            raise SlideError(self.path, why, REMEDY)
        chunk = math.prod(array.chunks)
        if chunk > LARGEST_DECODED:
            raise too_large(self.path, array.shape[2], array.shape[1], "for an image in one chunk")
        return array[:] if chunk > LARGEST_CHUNK and math.prod(array.shape) <= LARGEST_DECODED else array

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`~genar.slide.pixels.Backend` says."""
        with decoding(self.path, "its pixels cannot be decoded"):
            pixels = np.moveaxis(np.asarray(self.arrays[level][:, y : y + height, x : x + width]), 0, 2)
        return over_white(pixels) if pixels.shape[2] == 4 else np.ascontiguousarray(pixels)

    def close(self) -> None:
        """Give the memory back."""
        self.arrays = []
