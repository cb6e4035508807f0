"""JPEG blocks of a tiled TIFF, decoded as OpenSlide does but straight to RGB, several times as fast."""

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openslide
import simplejpeg
import tifffile
from numpy.typing import NDArray

from genar.slide.pixels import DECODER_ERRORS, cells, decoding

VENDORS = ("aperio", "generic-tiff")  # whose blocks OpenSlide lays side by side, without overlap or gaps
START = b"\xff\xd8"
COLOURS: dict[int, int] = {tifffile.PHOTOMETRIC.RGB: 0, tifffile.PHOTOMETRIC.YCBCR: 1}  # as in Adobe's marker


@dataclass(frozen=True)
class Level:
    """Where the blocks of a level lie in the file.

    Parameters
    ----------
    size, block
        Width and height of the level and of a block, in pixels.
    offsets, lengths
        Place and length in bytes of each block, row by row, int64 [rows, columns].
    head
        What a block's JPEG begins with: the colours that the TIFF's tags give, and the tables that its blocks share.
    """

    size: tuple[int, int]
    block: tuple[int, int]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    head: bytes


class JpegBlocks:
    """The pixels of a TIFF whose every level is in JPEG blocks; see :func:`jpeg_blocks`."""

    def __init__(self, path: Path, levels: Sequence[Level]) -> None:
        self.path, self.levels = path, levels
        self.file = path.open("rb")
        self.lock = threading.Lock()

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the level, as :class:`~genar.slide.pixels.Backend` says."""
        pixels = np.empty((height, width, 3), dtype=np.uint8)
        block_w, block_h = self.levels[level].block
        decoded = np.empty((block_h, block_w, 3), dtype=np.uint8)
        for left, top, into, part in cells(x, y, width, height, (block_w, block_h)):
            with decoding(self.path, "its pixels cannot be decoded"):
                self._decode(level, top // block_h, left // block_w, decoded)
            pixels[into] = decoded[part]
        return pixels

    def _decode(self, level: int, row: int, column: int, decoded: NDArray[np.uint8]) -> None:
        """Decode a block; what libjpeg warns of is an error, as in OpenSlide."""
        lies = self.levels[level]
        with self.lock:  # several threads may read
            self.file.seek(lies.offsets[row, column])
            raw = self.file.read(lies.lengths[row, column])
        jpeg = lies.head + raw[len(START) :]
        found = simplejpeg.decode_jpeg(jpeg, buffer=decoded, strict=True)
        if found.shape != decoded.shape:
            why = f"a block is {found.shape[1]} x {found.shape[0]} px, not {decoded.shape[1]} x {decoded.shape[0]}"
            raise ValueError(why)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def jpeg_blocks(path: Path, slide: openslide.OpenSlide) -> JpegBlocks | None:
    """Return a slide's JPEG blocks, None if it is not made of such alone.

    That it is, its TIFF tags say. That they are then decoded to the pixels that OpenSlide gives is tried on the block
    of the first level that has the most in it.
    """
    if slide.properties.get(openslide.PROPERTY_NAME_VENDOR) not in VENDORS:
        return None
    try:
        with tifffile.TiffFile(path) as file:
            pages = {(page.imagewidth, page.imagelength): page for page in reversed(_pages(file)) if page.is_tiled}
            levels = [_level(pages[size]) for size in slide.level_dimensions if size in pages]
    except DECODER_ERRORS:
        return None  # OpenSlide could open it; let it say what is wrong
    if None in levels or len(levels) < slide.level_count:
        return None
    blocks = JpegBlocks(path, [level for level in levels if level is not None])
    if not _agrees(blocks, slide):
        blocks.close()
        return None
    return blocks


def _pages(file: tifffile.TiffFile) -> list[tifffile.TiffPage]:
    """Return the file's pages with all of their tags."""
    file.pages.useframes = False
    return [page.aspage() for page in file.pages]


def _level(page: tifffile.TiffPage) -> Level | None:
    """Find the blocks of a page, None unless all of them are there, in JPEG of 8-bit RGB or YCbCr."""
    shape = -(-page.imagelength // page.tilelength), -(-page.imagewidth // page.tilewidth)
    plain = page.compression == tifffile.COMPRESSION.JPEG and page.photometric in COLOURS and page.bitspersample == 8
    plain = plain and page.samplesperpixel == 3 and page.planarconfig == tifffile.PLANARCONFIG.CONTIG
    offsets, lengths = (np.asarray(values, dtype=np.int64) for values in (page.dataoffsets, page.databytecounts))
    if not plain or offsets.size != shape[0] * shape[1] or offsets.size != lengths.size or (lengths < 4).any():
        return None
    adobe = struct.pack(">2sH5sHHHB", b"\xff\xee", 14, b"Adobe", 100, 0, 0, COLOURS[page.photometric])
    tables = page.jpegtables[len(START) : -2] if page.jpegtables else b""  # without the markers of start and end
    size, block = (page.imagewidth, page.imagelength), (page.tilewidth, page.tilelength)
    return Level(size, block, offsets.reshape(shape), lengths.reshape(shape), START + adobe + tables)


def _agrees(blocks: JpegBlocks, slide: openslide.OpenSlide) -> bool:
    """Tell whether the largest block of the first level has the pixels that OpenSlide gives."""
    level = blocks.levels[0]
    row, column = np.unravel_index(int(level.lengths.argmax()), level.lengths.shape)
    x, y = int(column) * level.block[0], int(row) * level.block[1]
    size = min(level.block[0], level.size[0] - x), min(level.block[1], level.size[1] - y)
    decoded = np.empty((level.block[1], level.block[0], 3), dtype=np.uint8)
    try:
        blocks._decode(0, int(row), int(column), decoded)
        region = slide.read_region((x, y), 0, size)
    except DECODER_ERRORS:
        return False
    return bool((np.asarray(region.convert("RGB")) == decoded[: size[1], : size[0]]).all())
