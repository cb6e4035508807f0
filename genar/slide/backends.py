"""The libraries that decode a slide's pixels, behind one small interface."""

import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import openslide
import tifffile
import zarr
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from genar.errors import SlideError

LARGEST_DECODED = 2 * 2**30  # bytes; a JPEG or PNG can only be decoded whole
UM = {"µm": 1.0, "um": 1.0, "micron": 1.0, "mm": 1e3, "cm": 1e4, "nm": 1e-3}

OPENABLE = "give a whole-slide image that OpenSlide reads, a TIFF, a JPEG or a PNG"
DAMAGED = "copy or export the file again; it is damaged or of a kind that cannot be decoded"


class Backend(Protocol):
    """An open image.

    ``levels`` are the sizes (width, height) in pixels, finest first; ``mpp`` is (x, y, source) in µm per pixel or
    None; ``objective`` the magnification that the file states, if any.
    """

    levels: tuple[tuple[int, int], ...]
    mpp: tuple[float, float, str] | None
    objective: str | None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, all in its pixels: RGB, uint8 [height, width, 3]."""

    def close(self) -> None:
        """Close the file."""


def open_backend(path: Path) -> Backend:
    """Open an image with the library that suits it.

    Raises
    ------
    SlideError
        If it is not there, or none of them can read it.
    """
    if not path.exists():
        raise SlideError(path, "there is no such file", "check the path")
    if not path.is_file():
        raise SlideError(path, "it is not a file", OPENABLE)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as e:
        raise SlideError(path, f"it cannot be read ({e.strerror})", "check its permissions") from e
    if not head:
        raise SlideError(path, "the file is empty", "copy it again")
    try:
        if openslide.OpenSlide.detect_format(path) is not None:
            return _OpenSlide(path)
        if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return _Tiff(path)
        return _Image(path)
    except (openslide.OpenSlideError, tifffile.TiffFileError, OSError, ValueError, KeyError) as e:
        raise SlideError(path, f"it cannot be opened ({_line(e)})", DAMAGED) from e


def _line(error: Exception) -> str:
    """Put a library's message on one line."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def _over_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay RGBA [h, w, 4] over white."""
    alpha = pixels[..., 3:].astype(np.uint16)
    if (alpha == 255).all():
        return pixels[..., :3]
    return ((pixels[..., :3] * alpha + 255 * (255 - alpha)) // 255).astype(np.uint8)


class _OpenSlide:
    """What OpenSlide reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slide = openslide.OpenSlide(path)
        self.levels = self.slide.level_dimensions
        properties = self.slide.properties
        self.objective = properties.get(openslide.PROPERTY_NAME_OBJECTIVE_POWER)
        x, y = (properties.get(f"openslide.mpp-{axis}") for axis in "xy")
        self.mpp = (float(x), float(y), "openslide.mpp-x") if x and y else None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        down_x, down_y = (a / b for a, b in zip(self.levels[0], self.levels[level], strict=True))
        try:
            region = self.slide.read_region((round(x * down_x), round(y * down_y)), level, (width, height))
        except openslide.OpenSlideError as e:
            raise SlideError(self.path, f"its pixels cannot be decoded ({_line(e)})", DAMAGED) from e
        return _over_white(np.asarray(region))

    def close(self) -> None:
        self.slide.close()


class _Tiff:
    """Other TIFF images, read by the chunks (strips or tiles) that a window touches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objective: str | None = None
        self.file = tifffile.TiffFile(path)
        series = self.file.series[0]
        if series.axes not in ("YX", "YXS") or series.dtype not in (np.uint8, np.uint16):
            self.file.close()
            why = f"its axes are {series.axes} and its values {series.dtype}, not a grey or RGB image of 8 or 16 bits"
            raise SlideError(path, why, "convert it to 8-bit RGB")
        if series.keyframe.photometric not in (0, 1, 2, 6):
            self.file.close()
            raise SlideError(path, "its colours are neither grey nor RGB", "convert it to 8-bit RGB")
        self.inverted = series.keyframe.photometric == 0  # white is zero
        self.levels = tuple((int(level.shape[1]), int(level.shape[0])) for level in series.levels)
        self.arrays = [self._array(level) for level in series.levels]
        self.mpp = self._resolution()
        self._decodable()

    def _array(self, level: tifffile.TiffPageSeries) -> Any:
        """Open a level for reading by window: memory-mapped where it lies plain in the file."""
        if level.keyframe.is_memmappable and len(level.pages) == 1:
            return tifffile.memmap(self.path, page=level.keyframe.index, mode="r")
        return zarr.open(level.aszarr(), mode="r")

    def _decodable(self) -> None:
        """Decode one pixel, so that an unknown compression shows when the file is opened."""
        self.read(0, 0, 1, 1, len(self.levels) - 1)

    def _resolution(self) -> tuple[float, float, str] | None:
        """Read µm per pixel from OME-XML or from the resolution tags."""
        if self.file.ome_metadata:
            pixels = _first_pixels(tifffile.xml2dict(self.file.ome_metadata))
            unit = UM.get(str(pixels.get("PhysicalSizeXUnit", "µm")))
            x, y = pixels.get("PhysicalSizeX"), pixels.get("PhysicalSizeY")
            if x and y and unit:
                return float(x) * unit, float(y) * unit, "OME-XML"
        page = self.file.pages.first
        unit_tag = page.tags.get("ResolutionUnit")
        if "XResolution" not in page.tags or unit_tag is None or unit_tag.value not in (2, 3):
            return None
        per_x, per_y = page.get_resolution(tifffile.RESUNIT.MICROMETER)
        return (1 / per_x, 1 / per_y, "TIFF resolution tags") if per_x > 0 and per_y > 0 else None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        try:
            pixels = np.asarray(self.arrays[level][y : y + height, x : x + width])
        except (ValueError, OSError, RuntimeError, KeyError, IndexError) as e:
            raise SlideError(self.path, f"its pixels cannot be decoded ({_line(e)})", DAMAGED) from e
        if pixels.dtype == np.uint16:
            pixels = (pixels >> 8).astype(np.uint8)
        if self.inverted:
            pixels = 255 - pixels
        if pixels.ndim == 2:
            pixels = pixels[..., None]
        if pixels.shape[2] in (1, 2):
            return np.repeat(pixels[..., :1], 3, axis=2)
        return _over_white(pixels[..., :4]) if pixels.shape[2] > 3 else pixels

    def close(self) -> None:
        self.file.close()


def _first_pixels(ome: dict[str, Any]) -> dict[str, Any]:
    """Find the ``Pixels`` element of the first image in OME-XML."""
    image = ome.get("OME", {}).get("Image", {})
    image = image[0] if isinstance(image, list) else image
    return dict(image.get("Pixels", {}))


class _Image:
    """JPEG, PNG and what else Pillow reads; these cannot be read by window, so the image is decoded once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objective: str | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
            self.pixels = self._decode(path)
        height, width = self.pixels.shape[:2]
        self.levels: tuple[tuple[int, int], ...] = ((int(width), int(height)),)

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        """Decode the image to RGB, uint8 [h, w, 3], if it is small enough."""
        try:
            with Image.open(path) as image:
                width, height = image.size
                if width * height * 4 > LARGEST_DECODED:
                    why = f"{width} x {height} px are too many for a {image.format}, which cannot be read by window"
                    raise SlideError(path, why, f"convert it: vips tiffsave {path.name} out.tif --tile --pyramid")
                x, y = image.info.get("dpi", (0, 0))
                self.mpp = (25400 / float(x), 25400 / float(y), f"{image.format} dpi") if x and y else None
                if image.mode.startswith(("I", "F")):
                    why = f"its pixels are of mode {image.mode}, not 8-bit"
                    raise SlideError(path, why, "convert it to 8-bit RGB")
                if image.has_transparency_data:
                    return _over_white(np.asarray(image.convert("RGBA")))
                return np.asarray(image.convert("RGB"))
        except UnidentifiedImageError as e:
            raise SlideError(path, "it is not an image that can be read", OPENABLE) from e
        except Image.DecompressionBombError as e:
            why = "it has too many pixels to be decoded whole"
            raise SlideError(path, why, f"convert it: vips tiffsave {path.name} out.tif --tile --pyramid") from e

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        return self.pixels[y : y + height, x : x + width]

    def close(self) -> None:
        self.pixels = self.pixels[:0]
