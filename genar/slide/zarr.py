"""The image inside a SpatialData or OME-NGFF store: a folder of zarr arrays, one a level."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from genar.errors import SlideError
from genar.slide.pixels import LARGEST_DECODED, OPENABLE, check_channels, decoding, over_white, too_large
from genar.slide.resolution import Resolution, micrometres
from genar.slide.tiff import LARGEST_CHUNK

REMEDY = "write the image as uint8 with the axes c, y, x and the channels red, green, blue"


class ZarrImage:
    """An OME-NGFF image of zarr version 2 or 3, of which a window reads the chunks it touches.

    Axes beside c, y and x may be there if they have one entry. A level in chunks of more than 64 MiB is held in
    memory, if that takes at most 2 GiB.

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
        self.objective: str | None = None
        if not any((path / name).is_file() for name in (".zattrs", "zarr.json")):
            raise SlideError(path, "it is a folder, not a file", OPENABLE)
        group: Any = zarr.open_group(path, mode="r")
        attributes = group.attrs.asdict()
        ome = attributes.get("ome", attributes)  # version 0.5 on, and before
        if not ome.get("multiscales"):
            raise SlideError(path, "it is a folder without an OME-NGFF image", "give <store>.zarr/images/<name>")
        image = ome["multiscales"][0]
        axes = "".join(str(axis["name"]) for axis in image["axes"])
        check_channels(path, [str(channel.get("label", "")) for channel in ome.get("omero", {}).get("channels", [])])
        self.mpp = _resolution(image)
        self.arrays = [self._array(group[level["path"]], axes) for level in image["datasets"]]
        self.leading = (0,) * (len(axes) - 3)  # index of the axes before c, y, x
        self.levels = tuple((int(array.shape[-1]), int(array.shape[-2])) for array in self.arrays)
        chunks = [getattr(array, "chunks", (1, 1)) for array in self.arrays]
        self.blocks = tuple((int(chunk[-1]), int(chunk[-2])) for chunk in chunks)

    def _array(self, array: Any, axes: str) -> Any:
        """Check a level and open it for reading by window."""
        fits = axes.endswith("cyx") and len(axes) == array.ndim and math.prod(array.shape[:-3]) == 1
        if not fits or array.dtype != np.uint8 or array.shape[-3] not in (3, 4) or 0 in array.shape:
            why = f"its axes are {axes}, its shape {array.shape} and its values {array.dtype}, not 8-bit RGB"
            raise SlideError(self.path, why, REMEDY)
        codecs = [*(getattr(array.metadata, "filters", None) or ()), getattr(array.metadata, "compressor", None)]
        if any(getattr(codec, "codec_id", "") == "pickle" for codec in codecs):
            raise SlideError(self.path, "it holds Python pickles, which would run as code", REMEDY)
        chunk = math.prod(array.chunks)
        if chunk > LARGEST_DECODED:
            raise too_large(self.path, array.shape[-1], array.shape[-2], "for an image in one chunk")
        return array[:] if chunk > LARGEST_CHUNK and math.prod(array.shape) <= LARGEST_DECODED else array

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`~genar.slide.pixels.Backend` says."""
        window = (*self.leading, slice(None), slice(y, y + height), slice(x, x + width))
        with decoding(self.path, "its pixels cannot be decoded"):
            pixels = np.moveaxis(np.asarray(self.arrays[level][window]), 0, 2)
        return over_white(pixels) if pixels.shape[2] == 4 else np.ascontiguousarray(pixels)

    def close(self) -> None:
        """Give the memory back."""
        self.arrays = []


def _resolution(image: dict[str, Any]) -> Resolution | None:
    """Read µm per pixel from the scale of the finest level, where its axes have units (SpatialData's have none)."""
    scale = np.ones(len(image["axes"]))
    for step in (
        *image["datasets"][0].get("coordinateTransformations", ()),
        *image.get("coordinateTransformations", ()),
    ):
        if step.get("type") == "scale":
            scale = scale * np.asarray(step["scale"], dtype=np.float64)
    unit_y, unit_x = (micrometres(str(axis.get("unit", ""))) for axis in image["axes"][-2:])
    return (scale[-1] * unit_x, scale[-2] * unit_y, "OME-NGFF") if unit_x and unit_y else None
