"""Tiles: squares of tissue around spots, cut by physical size from a slide or read from a file of patches."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from anndata import AnnData
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from genar import keys
from genar.errors import ConfigError, DataError
from genar.slide.open import Slide, open_slide
from genar.slide.patches import PatchDataset
from genar.slide.section import centres, metadata
from genar.units import LARGEST_TILE_UM


class TileDataset(Dataset[Tensor]):
    """The tiles of a slide's spots.

    Item i is RGB, uint8 [3, input_px, input_px]: the square of ``tile_um`` µm centred on spot i, whatever the slide's
    resolution, white outside the slide. It is read from the coarsest level that is no coarser than the result, at
    sub-pixel accuracy.

    Parameters
    ----------
    slide
        The slide.
    centres
        Centres of the spots (x, y) in level-0 pixels, float64 [N, 2].
    tile_um
        Side of a tile in µm.
    input_px
        Side of a tile in pixels of the encoder's input.
    """

    def __init__(self, slide: Slide, centres: NDArray[np.float64], tile_um: float, input_px: int) -> None:
        self.slide, self.centres, self.input_px = slide, centres, input_px
        self.side = tile_um / slide.mpp  # level-0 px
        self.level = slide.best_level(self.side / input_px)
        self.scale = np.asarray(slide.scale(self.level))  # level-0 px a pixel of the level, along x and y
        reach = 2 * max(1.0, self.side / self.scale.min() / input_px)  # of the bicubic filter, in level px
        self.margin = math.ceil(reach) + 1

    def __len__(self) -> int:
        return len(self.centres)

    def __getitem__(self, index: int) -> Tensor:
        sides = self.side / self.scale  # of the tile in level px; fractional, as is its corner
        corner = self.centres[index] / self.scale - sides / 2
        start = np.floor(corner).astype(int) - self.margin
        width, height = (np.ceil(sides).astype(int) + 2 * self.margin + 1).tolist()
        x, y = np.rint(start * self.scale).astype(int).tolist()
        window = self.slide.read(x, y, width, height, self.level)
        left, top = corner - start
        box = (left, top, left + sides[0], top + sides[1])
        tile = Image.fromarray(window).resize((self.input_px, self.input_px), Image.Resampling.BICUBIC, box=box)
        return torch.from_numpy(np.array(tile)).permute(2, 0, 1)


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
def open_tiles(
    spots: AnnData, tile_um: float, input_px: int, slide: Slide | None = None
) -> Iterator[TileDataset | PatchDataset]:
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


def check_tile(tile_um: float) -> None:
    """Raise unless a tile can have this side, in µm.

    Raises
    ------
    ConfigError
        If it cannot.
    """
    if not 0 < tile_um <= LARGEST_TILE_UM:
        raise ConfigError("tile_um", f"{tile_um:g} µm is out of range", f"give up to {LARGEST_TILE_UM:g} µm")
