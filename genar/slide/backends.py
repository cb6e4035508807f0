"""The libraries that decode a slide's pixels, behind one small interface."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import openslide
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from genar.errors import SlideError
from genar.slide.pixels import LARGEST_DECODED, OPENABLE, Backend, decoding, over_white, too_large
from genar.slide.tiff import TiffImage
from genar.slide.zarr import ZarrImage

__all__ = ["Backend", "open_backend", "origin"]

TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two are BigTIFF's
STRIP_ROWS = 1024


def open_backend(path: Path) -> Backend:
    """Open an image with the library that suits it.

    Raises
    ------
    SlideError
        If it is not there, or none of them can read it.
    """
    try:
        if path.is_dir():
            with decoding(path, "it cannot be opened"):
                return ZarrImage(path)
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError as e:
        raise SlideError(path, "there is no such file", "check the path") from e
    except OSError as e:
        raise SlideError(path, f"it cannot be read ({e.strerror})", "check its permissions") from e
    if not head:
        raise SlideError(path, "the file is empty", "copy it again")
    with decoding(path, "it cannot be opened"):
        return _open(path, is_tiff=head[:4] in TIFF_MAGIC)


def _open(path: Path, *, is_tiff: bool) -> Backend:
    """Try OpenSlide, then the library for the kind of file."""
    vendor = openslide.OpenSlide.detect_format(path)
    if vendor is not None:
        try:
            slide = OpenSlideImage(path)
        except openslide.OpenSlideError:
            if vendor != "generic-tiff":
                raise
        else:
            # OpenSlide reads OME-TIFF as a plain TIFF: neither its resolution nor its pyramid
            if vendor != "generic-tiff" or "<OME" not in slide.slide.properties.get("tiff.ImageDescription", ""):
                return slide
            slide.close()
    return TiffImage(path) if is_tiff else PillowImage(path)


def origin(backend: Backend) -> tuple[float, float]:
    """Return the top left corner of the scanned area in level-0 pixels, from which QuPath counts; (0, 0) elsewhere."""
    if not isinstance(backend, OpenSlideImage):
        return 0.0, 0.0
    x, y = (backend.slide.properties.get(f"openslide.bounds-{axis}", "") for axis in "xy")
    return _number(x) or 0.0, _number(y) or 0.0


class OpenSlideImage:
    """What OpenSlide reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slide = openslide.OpenSlide(path)
        self.levels = self.slide.level_dimensions
        properties = self.slide.properties
        self.objective = properties.get(openslide.PROPERTY_NAME_OBJECTIVE_POWER)
        x, y = (_number(properties.get(f"openslide.mpp-{axis}", "")) for axis in "xy")
        self.mpp = (x, y, "openslide.mpp-x") if x and y else None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`Backend` says."""
        downsample = self.slide.level_downsamples[level]  # OpenSlide divides by it; exact where it is whole
        with decoding(self.path, "its pixels cannot be decoded"):
            region = self.slide.read_region((round(x * downsample), round(y * downsample)), level, (width, height))
        return over_white(np.asarray(region))

    def close(self) -> None:
        """Close the file."""
        self.slide.close()


def _number(text: str) -> float | None:
    """Read a number from a property, None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def _any_size() -> Iterator[None]:
    """Lift Pillow's limit on an image's size, for a caller that sets its own."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


class PillowImage:
    """JPEG, PNG and what else Pillow reads; these cannot be read by window, so the image is decoded once.

    It stays in memory at 3 bytes a pixel; decoding takes another 4 for the while.
    """

    def __init__(self, path: Path) -> None:
        self.objective: str | None = None
        try:
            with _any_size(), Image.open(path) as image:
                width, height = image.size
                if width * height * 4 > LARGEST_DECODED:
                    raise too_large(path, width, height, f"for a {image.format}, which cannot be read by window")
                if image.mode.startswith(("I", "F")):
                    raise SlideError(path, f"its pixels are {image.mode}, not 8-bit", "convert it to 8-bit RGB")
                self.mpp = self._resolution(image)
                self.pixels = self._decode(image)
        except UnidentifiedImageError as e:
            raise SlideError(path, "it is not an image that can be read", OPENABLE) from e
        self.levels: tuple[tuple[int, int], ...] = ((width, height),)

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
            if image.has_transparency_data:
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
