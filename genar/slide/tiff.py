"""TIFF images that OpenSlide does not read, or of which it would miss the pyramid."""

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from genar.errors import SlideError
from genar.slide.pixels import (
    DAMAGED,
    LARGEST_DECODED,
    REMEDY,
    any_size,
    check_channels,
    decoding,
    over_white,
    too_large,
)
from genar.slide.resolution import Resolution, first_pixels, of_tiff

LARGEST_CHUNK = 2**26  # bytes; a larger chunk is not decoded anew for every window
MOST_PAGES = 10_000  # no slide has as many
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6  # photometric interpretations
PREMULTIPLIED = 1  # what an extra sample is: opacity by which the colours were multiplied
JPEG, APERIO_YCBCR = (6, 7), 33003  # compressions: the first are turned to RGB by their decoder, the last is not
SIZED = (6, 7, 33004, 33005, 34712, 34933, 50001)  # JPEG, JPEG 2000, PNG and WebP: a chunk states its own size
PROBE_PX = 1024  # a window in the middle of the coarsest level ...
DIMMEST = 16  # ... of a stained section has a brighter sample than this, of 255
REDUCED = 1  # flag of a page that shows another at lower resolution


def examine(file: tifffile.TiffFile, path: Path) -> None:
    """Refuse a TIFF whose first page is no grey or RGB picture of 8 or 16 bits.

    Raises
    ------
    SlideError
        If it is none.
    """
    page = file.pages.first
    with suppress(IndexError):
        file.pages[MOST_PAGES]  # where the chain of pages is a ring, to count them would not end
        raise SlideError(path, f"it has more than {MOST_PAGES} pages", DAMAGED)
    if 0 in page.shape or not page.shape:
        raise SlideError(path, "its header gives an image without pixels", DAMAGED)
    if page.photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, YCBCR):
        raise SlideError(path, f"its colours are {_name(page.photometric)}, neither grey nor RGB", REMEDY)
    if page.dtype is None or page.dtype.kind != "u" or page.dtype.itemsize > 2:
        raise SlideError(path, f"its values are {page.dtype}, not of 8 or 16 bits", REMEDY)
    most = 4 if page.photometric in (RGB, YCBCR) else 2  # with opacity
    if page.samplesperpixel > most:
        kind = "RGB" if most == 4 else "grey"
        raise SlideError(path, f"a pixel has {page.samplesperpixel} channels, too many for {kind}", REMEDY)
    if len(page.dataoffsets) < math.prod(page.chunked):  # OpenSlide would show them in wrong places
        why = f"its header tells of {math.prod(page.chunked)} tiles or strips, and where {len(page.dataoffsets)} lie"
        raise SlideError(path, why, DAMAGED)


def check_single(file: tifffile.TiffFile, path: Path) -> None:
    """Refuse a TIFF of several pictures of one size: a stack, or the channels of one.

    Raises
    ------
    SlideError
        If it is one.
    """
    file.pages.useframes = False
    if len(file.pages) == 1:
        return
    first, second = file.pages.first, file.pages[1]
    if second.shape == first.shape and not int(second.aspage().subfiletype) & REDUCED:
        why = f"it is a stack of {len(file.pages)} pictures of one size"
        raise SlideError(path, why, f"keep one: vips copy {path.name}[page=0] out.tif")


class TiffImage:
    """A TIFF of any layout, read by the chunks (strips or tiles) that a window touches.

    Grey, RGB or palette, with or without opacity, interleaved or in planes, of 8 or 16 bits; of 16 bits the upper 8
    count. A level that lies in chunks of more than 64 MiB is held in memory, decoded, if that takes at most 2 GiB.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objective: str | None = None
        with ExitStack() as opened:
            self.file = opened.enter_context(tifffile.TiffFile(path))
            examine(self.file, path)
            series = self.file.series[0]
            self._check(series)
            self.page = series.keyframe
            self.planes_first = series.axes in ("SYX", "CYX")
            self.arrays = [self._array(series, level) for level in range(len(series.levels))]
            self.levels = tuple(self._size(level.shape) for level in series.levels)
            self.blocks = tuple(self._size(getattr(array, "chunks", (1,) * array.ndim)) for array in self.arrays)
            self.mpp: Resolution | None = of_tiff(self.file)
            self.read(0, 0, 1, 1, len(self.levels) - 1)  # an unknown compression shows here, not in a worker later
            self._check_range()
            opened.pop_all()

    def _check(self, series: tifffile.TiffPageSeries) -> None:
        """Refuse what is not one picture in colours that are decoded to RGB."""
        if any(0 in level.shape for level in series.levels):
            raise SlideError(self.path, "its header gives an image without pixels", DAMAGED)
        planes = series.shape[0] if series.kind == "ome" and series.axes == "CYX" else 0
        if series.axes not in ("YX", "YXS", "SYX") and planes != 3:
            remedy = f"keep one in RGB: vips copy {self.path.name}[page=0] out.tif"
            raise SlideError(self.path, f"its axes are {series.axes}, not those of one picture", remedy)
        if series.dtype != series.keyframe.dtype:
            raise SlideError(self.path, f"its values are {series.dtype}, not of 8 or 16 bits", REMEDY)
        photometric, compression = series.keyframe.photometric, series.keyframe.compression
        if (photometric == YCBCR and compression not in JPEG) or compression == APERIO_YCBCR:
            raise SlideError(self.path, "its colours are YCbCr in a compression other than JPEG", REMEDY)
        if planes:
            check_channels(self.path, _channel_names(self.file))

    def _check_range(self) -> None:
        """Refuse samples of 16 bits of which the camera filled 12: as they are, all would be next to black."""
        if self.page.dtype.itemsize == 2:  # type: ignore[union-attr] # examine has seen to it
            width, height = self.levels[-1]
            side = min(width, height, PROBE_PX)
            seen = self.read((width - side) // 2, (height - side) // 2, side, side, len(self.levels) - 1)
            if 0 < seen.max() < DIMMEST:
                why = "its values fill 12 bits of 16 or fewer"
                raise SlideError(self.path, why, f"spread them: vips linear {self.path.name} out.tif 16 0")

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
        if page.compression in SIZED:
            vars(page)["decode"] = _bounded(page, page.decode)
        array: Any = zarr.open(series.aszarr(level=number), mode="r")
        chunk = math.prod(array.chunks) * array.dtype.itemsize
        if chunk > LARGEST_DECODED:
            raise too_large(self.path, *self._size(level.shape), "for a TIFF in one strip")
        in_memory = chunk > LARGEST_CHUNK and math.prod(array.shape) * array.dtype.itemsize <= LARGEST_DECODED
        return array[:] if in_memory else array

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`Backend` says."""
        rows, columns = slice(y, y + height), slice(x, x + width)
        with decoding(self.path, "its pixels cannot be decoded"):
            array = self.arrays[level]
            pixels = np.asarray(array[:, rows, columns] if self.planes_first else array[rows, columns])
            return self._rgb(np.moveaxis(pixels, 0, 2) if self.planes_first else pixels)

    def _rgb(self, pixels: NDArray[Any]) -> NDArray[np.uint8]:
        """Turn decoded samples, [h, w] or [h, w, samples], to RGB, uint8 [h, w, 3]."""
        if self.page.colormap is not None:
            return np.asarray((self.page.colormap >> 8).astype(np.uint8).T[pixels])
        if pixels.dtype.itemsize == 2:
            pixels = (pixels >> 8).astype(np.uint8)
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        n_colours = 3 if pixels.shape[2] > 2 else 1
        colours, opacity = pixels[..., :n_colours], pixels[..., n_colours : n_colours + 1]
        if self.page.photometric == WHITE_IS_ZERO:
            colours = 255 - colours
        if n_colours == 1:
            colours = np.repeat(colours, 3, axis=2)
        if opacity.shape[2] == 0:
            return colours
        return over_white(np.dstack([colours, opacity]), premultiplied=self.page.extrasamples[:1] == (PREMULTIPLIED,))

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _name(photometric: int) -> str:
    """Return the name of a photometric interpretation, or its number."""
    try:
        return tifffile.PHOTOMETRIC(photometric).name
    except ValueError:
        return f"of kind {photometric}"


def _bounded(page: tifffile.TiffPage, decode: Callable[..., Any]) -> Callable[..., Any]:
    """Return the page's decoder of a chunk, which now refuses a chunk that says it is another size than the page has.

    The decoder would make room for whatever size the chunk states.
    """
    height, width = (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, page.imagewidth)

    def bounded(data: bytes | None, *args: Any, **options: Any) -> Any:
        if data is not None:
            try:
                with any_size(), Image.open(BytesIO(data), formats=("JPEG", "JPEG2000", "PNG", "WEBP")) as image:
                    size = image.size
            except UnidentifiedImageError as e:
                msg = "a tile or strip holds no image"
                raise ValueError(msg) from e
            if size[0] != width or size[1] > height:
                msg = f"a tile or strip of {width} x {height} px holds an image of {size[0]} x {size[1]}"
                raise ValueError(msg)
        return decode(data, *args, **options)

    return bounded


def _channel_names(file: tifffile.TiffFile) -> list[str]:
    """Return the names of the first image's channels in OME-XML; empty where a channel has none."""
    channels = first_pixels(tifffile.xml2dict(file.ome_metadata or "")).get("Channel", [])
    channels = channels if isinstance(channels, list) else [channels]
    return [str(channel.get("Name", "")) for channel in channels]
