"""What the backends share: their interface, their errors and the blending of alpha."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import openslide
import tifffile
from numpy.typing import NDArray

from genar.errors import SlideError

LARGEST_DECODED = 2 * 2**30  # bytes; what cannot be read by window is decoded whole, and must stay below this
OPENABLE = "give a whole-slide image that OpenSlide reads, a TIFF, a JPEG or a PNG"
DAMAGED = "copy or export the file again; it is damaged or of a kind that cannot be decoded"

# What decoders raise on damaged files, as feeding them such files shows: they do not check what a header says.
DECODER_ERRORS = (
    openslide.OpenSlideError, tifffile.TiffFileError, ArithmeticError, AttributeError, LookupError, MemoryError,
    OSError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, zlib.error,
)  # fmt: skip


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


@contextmanager
def decoding(path: Path, failure: str) -> Iterator[None]:
    """Turn a decoder's errors into a :class:`SlideError` that says ``failure`` and the decoder's reason."""
    try:
        yield
    except DECODER_ERRORS as e:
        reason = " ".join(str(e).split())[:160] or type(e).__name__
        raise SlideError(path, f"{failure} ({reason})", DAMAGED) from e


def too_large(path: Path, width: int, height: int, why: str) -> SlideError:
    """Return the error for an image that would have to be decoded whole and is too large for it."""
    convert = f"convert it: vips tiffsave {path.name} out.tif --tile --pyramid --compression jpeg"
    return SlideError(path, f"{width} x {height} px are too many {why}", convert)


def over_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay RGBA [h, w, 4] over white: RGB [h, w, 3]."""
    alpha = pixels[..., 3:].astype(np.uint16)
    if (alpha == 255).all():
        return pixels[..., :3]
    return ((pixels[..., :3] * alpha + 255 * (255 - alpha)) // 255).astype(np.uint8)
