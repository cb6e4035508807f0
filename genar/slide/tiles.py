"""Tiles: squares of tissue around spots, cut by physical size from a slide or read from a file of patches."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from anndata import AnnData
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from genar import keys
from genar.errors import DataError
from genar.slide.chunks import Tiles, by_region
from genar.slide.open import Slide, open_slide
from genar.slide.patches import PatchDataset
from genar.slide.regions import Grid
from genar.slide.section import centres, metadata

logger: logging.Logger = logging.getLogger("genar")

MOST, MOST_PX = 256, 256 * 224**2  # tiles, and pixels of them, in a chunk
COARSER = 1.2  # times the tiles' µm a pixel: from here on it is said that a slide is resampled up


class TileDataset(Dataset[Tensor]):
    """The tiles of a slide's spots, as :class:`~genar.slide.chunks.Tiles`.

    A tile is the square of ``tile_um`` µm around its spot, whatever the slide's resolution, white outside the slide.
    It comes from the coarsest level that is no coarser than the result, resampled with antialiasing. All tiles lie on
    one :class:`~genar.slide.regions.Grid`: a tile's centre is at most half a pixel of the result from its spot along x
    and along y, and its side at most half a pixel from ``tile_um``. A chunk is read as one region of the slide.

    Parameters
    ----------
    slide
        The slide. One that is coarser than the tiles is resampled up, which is logged as a warning.
    centres
        Centres of the spots (x, y) in level-0 pixels, float64 [N, 2].
    tile_um
        Side of a tile in µm.
    input_px
        Side of a tile in pixels of the encoder's input.
    """

    def __init__(self, slide: Slide, centres: NDArray[np.float64], tile_um: float, input_px: int) -> None:
        self.slide, self.input_px = slide, input_px
        self.side = tile_um / slide.mpp  # level-0 px
        self.grid = Grid.of(slide, self.side / input_px, input_px)
        self.corners = self.grid.corners(centres, input_px)
        cell, block = self.grid.cell(slide), self.grid.block(slide)
        most = max(1, min(MOST, MOST_PX // input_px**2))
        self.chunks = by_region(self.corners, input_px, cell=cell, block=block, most=most)
        if slide.mpp > COARSER * tile_um / input_px:
            scales = f"{slide.mpp:.3g} µm/px, coarser than the {tile_um / input_px:.3g} of the encoder's input"
            logger.warning("%s has %s: its tiles are resampled up, and lack detail", slide.path, scales)

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, index: int) -> Tensor:
        corners, side = self.corners[self.chunks[index]], self.input_px
        low = corners.min(axis=0)
        region = self.grid.read(self.slide, *low.tolist(), *(corners.max(axis=0) + side - low).tolist())
        tiles = np.empty((len(corners), side, side, 3), dtype=np.uint8)
        for tile, (x, y) in zip(tiles, corners - low, strict=True):
            tile[:] = region[y : y + side, x : x + side]
        return torch.from_numpy(tiles).permute(0, 3, 1, 2)


def tile_file(spots: AnnData) -> Path:
    """Return the file that a section's tiles come from: its slide or, where it has none, its file of patches.

    Raises
    ------
    DataError
        If the section names neither.
    """
    known = metadata(spots)
    found = known.get(keys.SOURCE_IMAGE) or known.get(keys.PATCHES)
    if not found:
        section = str(spots.obs[keys.LIBRARY_ID].iloc[0])
        raise DataError(section, "the section has neither a slide nor patches", "read it again with its image")
    return Path(str(found))


@contextmanager
def open_tiles(spots: AnnData, tile_um: float, input_px: int, slide: Slide | None = None) -> Iterator[Tiles]:
    """Open the tiles of a section's spots.

    Parameters
    ----------
    spots
        The section.
    tile_um
        Side of a tile in µm.
    input_px
        Side of a tile in pixels of the encoder's input.
    slide
        The open slide; by default :func:`tile_file` is opened, and closed at the end.

    Raises
    ------
    SlideError
        If the slide cannot be opened.
    DataError
        If there is neither slide nor patches, or the patches do not fit.
    """
    if slide is not None:
        yield TileDataset(slide, centres(spots), tile_um, input_px)
        return
    known, path = metadata(spots), tile_file(spots)
    mpp = float(known[keys.MPP])
    if not known.get(keys.SOURCE_IMAGE):
        yield PatchDataset(path, list(spots.obs_names), tile_um, input_px, mpp)
        return
    with open_slide(path, mpp) as opened:
        yield TileDataset(opened, centres(spots), tile_um, input_px)
