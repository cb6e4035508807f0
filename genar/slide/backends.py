"""The libraries that decode a slide's pixels, behind one small interface."""

import stat
from pathlib import Path

import numpy as np
import openslide
import tifffile
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from genar.errors import SlideError
from genar.slide.blocks import jpeg_blocks
from genar.slide.pixels import (
    DAMAGED,
    LARGEST_DECODED,
    OPENABLE,
    REMEDY,
    Backend,
    any_size,
    cells,
    check_size,
    decoding,
    over_white,
    too_large,
)
from genar.slide.resolution import Resolution, number, of_tiff
from genar.slide.tiff import TiffImage, check_single, examine
from genar.slide.zarr import ZarrImage

__all__ = ["Backend", "open_backend", "origin"]

TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two are BigTIFF's
# Not all that Pillow reads: it hands EPS to Ghostscript, and picks the size of an icon itself
PILLOW = ("JPEG", "PNG", "BMP", "GIF", "JPEG2000", "PPM", "WEBP")
MODES = ("L", "LA", "P", "PA", "RGB", "RGBA", "RGBX")
MOST_PX_A_BYTE = 1000  # that a JPEG of one colour reaches; Pillow makes up what is missing
STRIP_ROWS = 1024
SIDES = ("width", "height")
PIECE = 512  # px, side of what is read at once between levels that do not divide evenly
BLOCK = 256  # px, side of what OpenSlide decodes at once, where it does not say


def open_backend(path: Path) -> Backend:
    """Open an image with the library that suits it.

    Raises
    ------
    SlideError
        If it is not there, or none of them can read it.
    """
    _check_path(path)
    with decoding(path, "it cannot be opened"):
        backend = ZarrImage(path) if path.is_dir() else _open(path)
    try:
        check_size(path, backend.levels)
    except SlideError:
        backend.close()
        raise
    return backend


def _check_path(path: Path) -> None:
    """Refuse what is not there, is neither a file nor a folder (to open a pipe would wait forever), or is empty."""
    try:
        str(path).encode()
        if path.is_dir():
            return
        if not stat.S_ISREG(path.stat().st_mode):
            raise SlideError(path, "it is a device, a pipe or a socket, not a file", OPENABLE)
        with path.open("rb") as file:
            empty = not file.read(1)
    except UnicodeEncodeError as e:
        raise SlideError(repr(str(path)), "its name is not valid UTF-8", "rename it") from e
    except FileNotFoundError as e:
        raise SlideError(path, "there is no such file", "check the path") from e
    except OSError as e:
        raise SlideError(path, f"it cannot be read ({e.strerror})", "check the path and its permissions") from e
    if empty:
        raise SlideError(path, "the file is empty", "copy it again")


def _open(path: Path) -> Backend:
    """Try OpenSlide, then the library for the kind of file."""
    vendor = openslide.OpenSlide.detect_format(path)
    if vendor == "generic-tiff":
        return _open_generic(path)
    if vendor is not None:
        return OpenSlideImage(path)
    with path.open("rb") as file:
        return TiffImage(path) if file.read(4) in TIFF_MAGIC else PillowImage(path)


def _open_generic(path: Path) -> Backend:
    """Open a tiled TIFF of no scanner that OpenSlide knows; it would show the first page, whatever that is."""
    with tifffile.TiffFile(path) as file:
        examine(file, path)
        first = file.pages.first
        if file.is_ome or first.subifds or first.bitspersample == 16:  # OpenSlide would miss resolution, pyramid, range
            return TiffImage(path)
        check_single(file, path)
        mpp = of_tiff(file)
    try:
        return OpenSlideImage(path, mpp)
    except openslide.OpenSlideError:
        return TiffImage(path)


def origin(backend: Backend) -> tuple[float, float]:
    """Return the top left corner of the scanned area in level-0 pixels, from which QuPath counts; (0, 0) elsewhere."""
    if not isinstance(backend, OpenSlideImage):
        return 0.0, 0.0
    x, y = (backend.slide.properties.get(f"openslide.bounds-{axis}", "") for axis in "xy")
    return number(x) or 0.0, number(y) or 0.0


class OpenSlideImage:
    """What OpenSlide reads."""

    def __init__(self, path: Path, mpp: Resolution | None = None) -> None:
        self.path = path
        self.slide = openslide.OpenSlide(path)
        self.levels = self.slide.level_dimensions
        properties = self.slide.properties
        self.objective = properties.get(openslide.PROPERTY_NAME_OBJECTIVE_POWER)
        x, y = (number(properties.get(f"openslide.mpp-{axis}")) for axis in "xy")
        self.mpp = mpp or ((x, y, "openslide.mpp-x") if x and y else None)
        self.blocks = tuple(self._block(level) for level in range(len(self.levels)))
        self.jpeg = jpeg_blocks(path, self.slide)

    def _block(self, level: int) -> tuple[int, int]:
        """Return width and height of what OpenSlide decodes at once, in pixels of the level."""
        sides = (number(self.slide.properties.get(f"openslide.level[{level}].tile-{side}")) for side in SIDES)
        width, height = (max(1, int(side or BLOCK)) for side in sides)
        return width, height

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`Backend` says."""
        if self.jpeg is not None:
            return self.jpeg.read(x, y, width, height, level)
        downsample = self.slide.level_downsamples[level]
        if downsample == round(downsample):
            return self._region(x, y, width, height, level, downsample)
        # OpenSlide interpolates here, by a shift that depends on where a region starts: so they start in fixed places
        pixels = np.empty((height, width, 3), dtype=np.uint8)
        for left, top, into, part in cells(x, y, width, height, (PIECE, PIECE)):
            pixels[into] = self._region(left, top, part[1].stop, part[0].stop, level, downsample)[part]
        return pixels

    def _region(self, x: int, y: int, width: int, height: int, level: int, downsample: float) -> NDArray[np.uint8]:
        """Read a region that starts at a pixel of the level; OpenSlide divides by the downsample."""
        with decoding(self.path, "its pixels cannot be decoded"):
            region = self.slide.read_region((round(x * downsample), round(y * downsample)), level, (width, height))
        opaque = region.getchannel("A").getextrema()[0] == 255
        return np.asarray(region.convert("RGB")) if opaque else over_white(np.asarray(region))

    def close(self) -> None:
        """Close the file."""
        self.slide.close()
        if self.jpeg is not None:
            self.jpeg.close()


class PillowImage:
    """JPEG, PNG and what else Pillow reads; these cannot be read by window, so the image is decoded once.

    It stays in memory at 3 bytes a pixel; decoding takes another 4 for the while.
    """

    def __init__(self, path: Path) -> None:
        self.objective: str | None = None
        try:
            with any_size(), Image.open(path, formats=PILLOW) as image:
                width, height = image.size
                if width * height * 4 > LARGEST_DECODED:
                    raise too_large(path, width, height, f"for a {image.format}, which cannot be read by window")
                if image.format == "JPEG" and width * height > MOST_PX_A_BYTE * path.stat().st_size:
                    raise SlideError(path, f"its header gives {width} x {height} px, more than it can hold", DAMAGED)
                if image.mode not in MODES and not image.mode.startswith("I;16"):
                    raise SlideError(path, f"its pixels are of the kind {image.mode}, not grey or RGB", REMEDY)
                self.mpp = self._resolution(image)
                self.pixels = self._decode(image)
        except UnidentifiedImageError as e:
            raise SlideError(path, "it is not an image that can be read", OPENABLE) from e
        self.levels: tuple[tuple[int, int], ...] = ((width, height),)
        self.blocks: tuple[tuple[int, int], ...] = ((1, 1),)

    def _resolution(self, image: Image.Image) -> tuple[float, float, str] | None:
        """Read µm per pixel from dots per inch."""
        x, y = (float(dots) for dots in image.info.get("dpi", (0, 0)))
        return (25400 / x, 25400 / y, f"{image.format} dpi") if x > 0 and y > 0 else None

    def _decode(self, image: Image.Image) -> NDArray[np.uint8]:
        """Decode to RGB, uint8 [h, w, 3], converting in strips to save memory."""
        width, height = image.size
        pixels = np.empty((height, width, 3), dtype=np.uint8)
        for top in range(0, height, STRIP_ROWS):
            strip = image.crop((0, top, width, min(top + STRIP_ROWS, height)))
            if image.mode.startswith("I;16"):
                rgb = np.repeat((np.asarray(strip) >> 8).astype(np.uint8)[..., None], 3, axis=2)
            elif image.has_transparency_data:
                rgb = over_white(np.asarray(strip.convert("RGBA")))
            else:
                rgb = np.asarray(strip.convert("RGB"))
            pixels[top : top + STRIP_ROWS] = rgb
        return pixels

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the image, as :class:`Backend` says."""
        return self.pixels[y : y + height, x : x + width]

    def close(self) -> None:
        """Give the memory back."""
        self.pixels = self.pixels[:0].copy()
