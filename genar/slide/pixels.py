"""What the backends share: their interface, their errors and the blending of alpha."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import openslide
import tifffile
from numpy.typing import NDArray
from PIL import Image

from genar.errors import SlideError

LARGEST_DECODED = 2 * 2**30  # bytes; what cannot be read by window is decoded whole, and must stay below this
LONGEST_SIDE = 2**21  # px; 50 cm at the coarsest of scans, and 10 cm at the finest
OVERVIEW_PX = 4000  # the slide is looked at as a whole at about this many pixels a side ...
LARGEST_OVERVIEW = 2**35  # ... which takes minutes for each 10 gigapixels of the level that it is made from
OPENABLE = "give a whole-slide image that OpenSlide reads, a TIFF, a JPEG or a PNG"
REMEDY = "convert it to 8-bit RGB"
DAMAGED = "copy or export the file again; it is damaged or of a kind that cannot be decoded"

# What decoders raise on damaged files, as feeding them such files shows: they do not check what a header says.
DECODER_ERRORS = (
    openslide.OpenSlideError, tifffile.TiffFileError, ArithmeticError, AttributeError, LookupError, MemoryError,
    OSError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error,
)  # fmt: skip


class Cell(NamedTuple):
    """A cell of a grid over an image, of which a rectangle covers a part.

    Parameters
    ----------
    left, top
        Its corner.
    into
        Rows and columns of the rectangle that it fills.
    part
        Its own rows and columns that fill them.
    """

    left: int
    top: int
    into: tuple[slice, slice]
    part: tuple[slice, slice]


class Backend(Protocol):
    """An open image.

    ``levels`` are the sizes (width, height) in pixels, finest first; ``blocks`` those of what is decoded at once in
    each, (1, 1) where nothing has to be; ``mpp`` is (x, y, source) in µm per pixel or None; ``objective`` the
    magnification that the file states, if any.
    """

    levels: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]
    mpp: tuple[float, float, str] | None
    objective: str | None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, all in its pixels: RGB, uint8 [height, width, 3]."""

    def close(self) -> None:
        """Close the file."""


@contextmanager
def decoding(path: Path, failure: str) -> Iterator[None]:
    """Turn a decoder's errors into a :class:`SlideError` that says ``failure`` and the decoder's reason."""
    try:
        yield
    except MemoryError as e:
        remedy = "run it where there is more; if there should be enough, the file is damaged: copy or export it again"
        raise SlideError(path, f"{failure}: it needs more memory than there is", remedy) from e
    except DECODER_ERRORS as e:
        reason = " ".join(str(e).split())[:160]
        if not reason or isinstance(e, LookupError):  # whose text is a key alone
            reason = f"{type(e).__name__} {reason}".strip()
        raise SlideError(path, f"{failure} ({reason})", DAMAGED) from e


@contextmanager
def any_size() -> Iterator[None]:
    """Lift Pillow's limit on an image's size, for a caller that sets its own."""
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def too_large(path: Path, width: int, height: int, why: str) -> SlideError:
    """Return the error for an image that would have to be decoded whole and is too large for it."""
    convert = f"convert it: vips tiffsave {path.name} out.tif --tile --pyramid --compression jpeg"
    return SlideError(path, f"{width} x {height} px are too many {why}", convert)


def check_size(path: Path, levels: Sequence[tuple[int, int]]) -> None:
    """Refuse sizes that only a damaged header gives, or that take hours to look through.

    Parameters
    ----------
    path
        The image.
    levels
        Sizes (width, height) in pixels, finest first.

    Raises
    ------
    SlideError
        If a side is above 2 million pixels, or there is no level small enough to make an overview from.
    """
    width, height = levels[0]
    if max(width, height) > LONGEST_SIDE:
        raise SlideError(path, f"its header gives {width} x {height} px, more than a slide has", DAMAGED)
    if min(w * h for w, h in levels if max(w, h) >= OVERVIEW_PX or (w, h) == levels[0]) > LARGEST_OVERVIEW:
        raise too_large(path, width, height, "without a pyramid of lower resolutions")


def check_channels(path: Path, names: Sequence[str]) -> None:
    """Refuse three channels whose names, where they have any, are not red, green and blue.

    Raises
    ------
    SlideError
        If they are stains of fluorescence, or something else.
    """
    named = [name.strip().lower() for name in names if not name.strip().isdecimal()]
    if any(named[:3]) and [name[:1] for name in named[:3]] != ["r", "g", "b"]:
        raise SlideError(path, f"its channels are {', '.join(names)}, not red, green and blue", "give an H&E image")


def cells(x: int, y: int, width: int, height: int, size: tuple[int, int]) -> Iterator[Cell]:
    """Go through the cells of a fixed grid, row by row, that a rectangle touches.

    Parameters
    ----------
    x, y, width, height
        The rectangle.
    size
        Width and height of a cell; the grid begins at 0, 0.
    """
    cell_w, cell_h = size
    for top in range(y // cell_h * cell_h, y + height, cell_h):
        y0, y1 = max(top, y), min(top + cell_h, y + height)
        for left in range(x // cell_w * cell_w, x + width, cell_w):
            x0, x1 = max(left, x), min(left + cell_w, x + width)
            into = slice(y0 - y, y1 - y), slice(x0 - x, x1 - x)
            yield Cell(left, top, into, (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left)))


def over_white(pixels: NDArray[np.uint8], *, premultiplied: bool = False) -> NDArray[np.uint8]:
    """Lay RGBA [h, w, 4] over white: RGB [h, w, 3].

    Parameters
    ----------
    pixels
        The picture.
    premultiplied
        Whether the colours have been multiplied by their opacity.
    """
    alpha = pixels[..., 3:].astype(np.uint16)
    if (alpha == 255).all():
        return pixels[..., :3]
    if premultiplied:
        return np.asarray(np.minimum(pixels[..., :3] + (255 - alpha), 255), dtype=np.uint8)
    return ((pixels[..., :3] * alpha + 255 * (255 - alpha)) // 255).astype(np.uint8)
