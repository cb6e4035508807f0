"""Tiles: squares of tissue around spots, cut by physical size."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from genar.slide.open import Slide

MARGIN = 4  # pixels of the level around a tile, so that the resampling filter does not see the window's edge


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
        self.downsample = slide.downsamples[self.level]

    def __len__(self) -> int:
        return len(self.centres)

    def __getitem__(self, index: int) -> Tensor:
        left, top = (self.centres[index] - self.side / 2) / self.downsample  # level px, fractional
        side = self.side / self.downsample
        x, y = math.floor(left) - MARGIN, math.floor(top) - MARGIN
        size = math.ceil(side) + 2 * MARGIN + 1
        window = self.slide.read(round(x * self.downsample), round(y * self.downsample), size, size, self.level)
        box = (left - x, top - y, left - x + side, top - y + side)
        tile = Image.fromarray(window).resize((self.input_px, self.input_px), Image.Resampling.BICUBIC, box=box)
        return torch.from_numpy(np.array(tile)).permute(2, 0, 1)
