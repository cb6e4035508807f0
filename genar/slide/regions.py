"""The grid of pixels that a slide's tiles are cut from, and reading a region of it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from genar.slide.open import Slide

BITS = 10  # that a step of the grid is rounded to, so that Pillow's 32-bit floats hold every place in a region exactly
SHRUNK = 3  # grids much coarser than the level are read from its mean over squares, down to this step
CELL = 2048  # px, side of a region without its tiles' overhang, where the file's blocks are smaller
LARGEST_CELL = 2**24  # px, area of one where they are larger


@dataclass(frozen=True)
class Grid:
    """The pixels of a slide's tiles: one grid, anchored at the slide's top left corner.

    Since every tile lies on it, a region is resampled once, and a tile is the same whatever region it was cut from.

    Parameters
    ----------
    level
        The slide's level that is read.
    shrink
        Side of the squares, in pixels of the level, of which the mean is taken first.
    steps
        How many of these squares one pixel of the grid spans, along x and along y.
    unit
        How many level-0 pixels one pixel of the grid spans, along x and along y.
    """

    level: int
    shrink: int
    steps: tuple[float, float]
    unit: tuple[float, float]

    @classmethod
    def of(cls, slide: Slide, unit: float, side: int) -> "Grid":
        """Return the grid for tiles of ``side`` pixels that span ``unit`` level-0 pixels each, within 0.1 %.

        It is read from the coarsest level that is no coarser. Where that level's pixels are as large, so that a tile
        would be half a pixel smaller or larger at most, they are the grid's, and nothing is resampled.
        """
        level = slide.best_level(unit)
        scale = slide.scale(level)
        shrink = max(1, int(unit / max(scale) / SHRUNK))
        step_x, step_y = (_rounded(unit / shrink / s, side) for s in scale)
        return cls(level, shrink, (step_x, step_y), (step_x * shrink * scale[0], step_y * shrink * scale[1]))

    def corners(self, centres: NDArray[np.float64], side: int) -> NDArray[np.int64]:
        """Return the top left corners of tiles, in the grid's pixels, int64 [N, 2].

        Parameters
        ----------
        centres
            Centres of the tiles (x, y) in level-0 pixels, float64 [N, 2].
        side
            Side of a tile in the grid's pixels.
        """
        return np.floor(centres / self.unit - side / 2 + 0.5).astype(np.int64)

    def block(self, slide: Slide) -> NDArray[np.float64]:
        """Return the size of what the file decodes at once, in the grid's pixels (width, height)."""
        return np.array(slide.blocks[self.level]) / self.shrink / self.steps

    def cell(self, slide: Slide) -> NDArray[np.float64]:
        """Return the size of a region without its tiles' overhang, in the grid's pixels (width, height)."""
        block_w, block_h = slide.blocks[self.level]
        cell = _cell(max(1, block_w // self.shrink), max(1, block_h // self.shrink))
        return np.array(cell) / np.maximum(self.steps, 1)

    def read(self, slide: Slide, x: int, y: int, width: int, height: int) -> NDArray[np.uint8]:
        """Read a rectangle of the grid, all in its pixels: RGB, uint8 [height, width, 3], white outside the slide."""
        if self.steps == (1, 1):
            return self._shrunk(slide, x, y, width, height)
        low, high = (np.array(corner) * self.steps for corner in ((x, y), (x + width, y + height)))
        reach = 2 * np.maximum(self.steps, 1) + 1  # of the bicubic filter
        start, stop = np.floor(low - reach).astype(int), np.ceil(high + reach).astype(int)
        window = Image.fromarray(self._shrunk(slide, *start.tolist(), *(stop - start).tolist()))
        box = (*(low - start).tolist(), *(high - start).tolist())
        return np.asarray(window.resize((width, height), Image.Resampling.BICUBIC, box=box))

    def _shrunk(self, slide: Slide, x: int, y: int, width: int, height: int) -> NDArray[np.uint8]:
        """Read a rectangle of the level's squares, piece by piece, so that little of the level is in memory."""
        by = self.shrink
        if by == 1:
            return slide.read_level(self.level, x, y, width, height)
        pixels = np.empty((height, width, 3), dtype=np.uint8)
        piece_w, piece_h = (max(1, side // by) for side in _cell(*slide.blocks[self.level]))
        for top in range(0, height, piece_h):
            for left in range(0, width, piece_w):
                part = pixels[top : top + piece_h, left : left + piece_w]
                h, w = part.shape[:2]
                piece = slide.read_level(self.level, (x + left) * by, (y + top) * by, w * by, h * by)
                part[:] = np.asarray(Image.fromarray(piece).reduce(by))
        return pixels


def _rounded(step: float, side: int) -> float:
    """Round to so few binary digits that a step's multiples are exact; to 1 where that is near."""
    if abs(step - 1) * side <= 0.5:
        return 1.0
    fraction, exponent = math.frexp(step)
    return math.ldexp(round(fraction * 2**BITS), exponent - BITS)


def _cell(block_w: int, block_h: int) -> tuple[int, int]:
    """Return width and height of a rectangle of whole blocks, as near to a square of ``CELL`` as these allow."""
    width, height = (max(block, CELL // block * block) for block in (block_w, block_h))
    return width, max(1, min(height, LARGEST_CELL // width))
