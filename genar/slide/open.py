"""Opening a slide and placing it on a physical scale."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from genar.errors import SlideError
from genar.slide.backends import Backend, open_backend
from genar.slide.files import sha256_of
from genar.units import Mpp

SMALLEST_MPP, LARGEST_MPP = 0.05, 5.0
REMEDY = "give the resolution in µm per pixel with --mpp (about 0.25 for a 40x scan, 0.5 for 20x)"
STRIP_PX = 2**24  # pixels read at once for a thumbnail


@dataclass
class Slide:
    """An open slide.

    It can be sent to another process, which opens the file anew. Use it as a context manager or call :meth:`close`.

    Parameters
    ----------
    path
        The file.
    mpp
        Resolution of level 0 in µm per pixel.
    mpp_source
        Where that comes from.
    """

    path: Path
    mpp: Mpp
    mpp_source: str
    _open: tuple[int, Backend] | None = field(default=None, repr=False, compare=False)

    @property
    def backend(self) -> Backend:
        """The open file; opened anew in a forked or spawned process, since handles must not be shared."""
        if self._open is None or self._open[0] != os.getpid():
            self._open = (os.getpid(), open_backend(self.path))
        return self._open[1]

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "mpp": self.mpp, "mpp_source": self.mpp_source, "_open": None}

    def __enter__(self) -> "Slide":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._open is not None and self._open[0] == os.getpid():
            self._open[1].close()
        self._open = None

    @property
    def dimensions(self) -> tuple[int, int]:
        """Width and height of level 0 in pixels."""
        return self.backend.levels[0]

    @property
    def downsamples(self) -> tuple[float, ...]:
        """How many level-0 pixels one pixel of each level spans."""
        return tuple(sum(self.scale(level)) / 2 for level in range(len(self.backend.levels)))

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Width and height, in each level's pixels, of what the file decodes at once."""
        return self.backend.blocks

    def scale(self, level: int) -> tuple[float, float]:
        """Return how many level-0 pixels one pixel of the level spans, along x and along y.

        The two differ a little, since a level's sides are rounded to whole pixels.
        """
        (width, height), (level_w, level_h) = self.dimensions, self.backend.levels[level]
        return width / level_w, height / level_h

    def best_level(self, downsample: float) -> int:
        """Return the coarsest level that is no coarser than ``downsample`` (0 where all are)."""
        return max(level for level, d in enumerate(self.downsamples) if level == 0 or d <= downsample * 1.01)

    def read(self, x: int, y: int, width: int, height: int, level: int = 0) -> NDArray[np.uint8]:
        """Read a rectangle, white where it leaves the slide.

        Parameters
        ----------
        x, y
            Its top left corner in level-0 pixels; may lie outside.
        width, height
            Its size in pixels of ``level``.
        level
            The level to read.

        Returns
        -------
        RGB, uint8 [height, width, 3].

        Raises
        ------
        SlideError
            If the pixels cannot be decoded.
        """
        scale_x, scale_y = self.scale(level)
        return self.read_level(level, round(x / scale_x), round(y / scale_y), width, height)

    def read_level(self, level: int, x: int, y: int, width: int, height: int) -> NDArray[np.uint8]:
        """Read as :meth:`read` does, the corner in pixels of ``level`` too."""
        level_w, level_h = self.backend.levels[level]
        x0, y0, x1, y1 = max(x, 0), max(y, 0), min(x + width, level_w), min(y + height, level_h)
        if (x0, y0, x1, y1) == (x, y, x + width, y + height):
            return self.backend.read(x, y, width, height, level)
        canvas = np.full((height, width, 3), 255, dtype=np.uint8)
        if x0 < x1 and y0 < y1:
            canvas[y0 - y : y1 - y, x0 - x : x1 - x] = self.backend.read(x0, y0, x1 - x0, y1 - y0, level)
        return canvas

    def thumbnail(self, max_px: int) -> NDArray[np.uint8]:
        """Return the whole slide, its longer side at most ``max_px`` pixels: RGB, uint8 [h, w, 3].

        Read in strips, so that memory stays bounded whatever the slide's size.
        """
        width, height = self.dimensions
        scale = max(1.0, max(width, height) / max_px)
        level = self.best_level(scale)
        level_w, level_h = self.backend.levels[level]
        out_w, out_h = max(1, round(width / scale)), max(1, round(height / scale))
        rows = max(1, int(STRIP_PX / level_w * out_h / level_h))  # output rows a strip
        strips = []
        for top in range(0, out_h, rows):
            bottom = min(top + rows, out_h)
            y0 = round(top * level_h / out_h)
            y1 = min(max(round(bottom * level_h / out_h), y0 + 1), level_h)
            strip = Image.fromarray(self.backend.read(0, y0, level_w, y1 - y0, level))
            strips.append(np.asarray(strip.resize((out_w, bottom - top), Image.Resampling.BOX)))
        return np.concatenate(strips)

    def sha256(self) -> str:
        """Return the SHA-256 of the file, in hexadecimal; of several files, of their names and digests.

        See :func:`genar.slide.files.files_of` for which these are.
        """
        return sha256_of(self.path)


def open_slide(path: str | Path, mpp: float | None = None) -> Slide:
    """Open a slide.

    Parameters
    ----------
    path
        What OpenSlide reads, or a TIFF, JPEG or PNG image.
    mpp
        Resolution of level 0 in µm per pixel; by default the one that the file carries.

    Raises
    ------
    SlideError
        If the file is not there or not an image that can be read, or no plausible resolution (0.05 to 5 µm per pixel)
        is known.
    """
    path = Path(path)
    backend = open_backend(path)
    try:
        value, source = _resolution(path, backend, mpp)
    except SlideError:
        backend.close()
        raise
    return Slide(path, value, source, (os.getpid(), backend))


def _resolution(path: Path, backend: Backend, given: float | None) -> tuple[Mpp, str]:
    """Decide on the resolution and say where it comes from."""
    if given is not None:
        if not SMALLEST_MPP <= given <= LARGEST_MPP:
            raise SlideError(path, f"--mpp {given:g} is not within {SMALLEST_MPP} to {LARGEST_MPP} µm/px", REMEDY)
        return Mpp(given), "given by the user"
    if backend.mpp is None:
        hint = f" (its objective power, {backend.objective}x, is only a hint)" if backend.objective else ""
        raise SlideError(path, f"the file does not carry its resolution{hint}", REMEDY)
    x, y, source = backend.mpp
    if not (SMALLEST_MPP <= x <= LARGEST_MPP and SMALLEST_MPP <= y <= LARGEST_MPP):
        raise SlideError(path, f"its resolution, {x:.4g} µm/px ({source}), is implausible", REMEDY)
    if abs(x - y) > 0.02 * max(x, y):
        why = f"its pixels are not square ({x:.4g} by {y:.4g} µm)"
        raise SlideError(path, why, "resample it to square pixels, or give one resolution with --mpp")
    return Mpp((x + y) / 2), source
