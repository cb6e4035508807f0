"""Whether a section's spots lie where its image shows tissue, and as far apart as they should."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.slide.open import Slide
from genar.slide.section import metadata
from genar.slide.tissue import TissueMask, tissue_mask
from genar.units import Mpp

Points = NDArray[np.float64]  # (x, y) in level-0 pixels, [N, 2]

CLEARLY = 0.1  # a clearly better fit puts this share of the spots more on tissue ...
CLEARLY_SPOTS = 10  # ... at least this many of them ...
CLEARLY_LEFT = 0.5  # ... leaves at most this share of those that lay off tissue off it ...
CLEARLY_ON = 0.8  # ... and at least this share of all on it

# (swapped, mirrored in x, mirrored in y): what was done to the coordinates
ORIENTATIONS = {
    (False, True, False): "flipped left to right",
    (False, False, True): "flipped top to bottom",
    (False, True, True): "turned by 180°",
    (True, False, False): "x and y swapped",
    (True, True, False): "turned by 90° clockwise",
    (True, False, True): "turned by 90° counterclockwise",
    (True, True, True): "x and y swapped and turned by 180°",
}


class Picture:
    """An image in memory, as the one level of a slide."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self.pixels = pixels
        self.levels: tuple[tuple[int, int], ...] = ((pixels.shape[1], pixels.shape[0]),)
        self.blocks: tuple[tuple[int, int], ...] = ((1, 1),)
        self.mpp: tuple[float, float, str] | None = None
        self.objective: str | None = None

    def read(self, x: int, y: int, width: int, height: int, level: int) -> NDArray[np.uint8]:
        """Read a rectangle inside the image: RGB, uint8 [height, width, 3]."""
        return self.pixels[y : y + height, x : x + width]

    def close(self) -> None:
        """Do nothing: there is no file."""


def spatial(section: AnnData) -> dict[str, Any]:
    """Return ``uns["spatial"][library_id]`` of the one section that these spots are."""
    found: dict[str, Any] = section.uns[keys.SPATIAL][str(section.obs[keys.LIBRARY_ID].iloc[0])]
    return found


def picture(section: AnnData) -> tuple[NDArray[np.uint8], float]:
    """Return the section's downscaled image, RGB uint8 [h, w, 3], and its pixels per level-0 pixel."""
    known = spatial(section)
    return np.asarray(known[keys.IMAGES][keys.HIRES]), float(known[keys.SCALEFACTORS][keys.HIRES_SCALE])


def image_size(section: AnnData) -> tuple[int, int]:
    """Return width and height of the full-resolution image in pixels."""
    known = metadata(section)
    return int(known[keys.SLIDE_WIDTH]), int(known[keys.SLIDE_HEIGHT])


def tissue(section: AnnData) -> TissueMask:
    """Find the tissue on the section's downscaled image; the mask's ``downsample`` is in level-0 pixels."""
    pixels, scale = picture(section)
    known = metadata(section)
    # its image was decoded once, when it was read; the tissue is judged at lower resolution than this one has
    slide = Slide(Path(), Mpp(float(known[keys.MPP]) / scale), "", (os.getpid(), Picture(pixels)))
    found = tissue_mask(slide)
    x, y = found.downsample
    return TissueMask(found.mask, (x / scale, y / scale))


def on_mask(mask: TissueMask, xy: Points) -> NDArray[np.bool_]:
    """Return which points lie on tissue, bool [N]."""
    return np.asarray(mask.fraction(xy, 1.0) > 0.5)


def better_fit(mask: TissueMask, xy: Points, size: tuple[int, int]) -> tuple[str, float] | None:
    """Find a swap or flip of the coordinates, within the image, that puts clearly more spots on tissue.

    Parameters
    ----------
    mask
        The tissue.
    xy
        Centres in level-0 pixels, float64 [N, 2].
    size
        Width and height of the image in pixels.

    Returns
    -------
    What to do to the coordinates and the share of spots on tissue then, or None.
    """
    here = on_mask(mask, xy).mean()
    found = {name: float(on_mask(mask, reoriented(xy, size, by)).mean()) for by, name in ORIENTATIONS.items()}
    name, there = max(found.items(), key=lambda fit: fit[1])
    gained = there - here >= max(CLEARLY, CLEARLY_SPOTS / len(xy)) and 1 - there <= CLEARLY_LEFT * (1 - here)
    return (name, there) if gained and there >= CLEARLY_ON else None


def reoriented(xy: Points, size: tuple[int, int], change: tuple[bool, bool, bool]) -> Points:
    """Swap x and y, then mirror them within an image of this size, as a key of ``ORIENTATIONS`` says."""
    swapped, mirror_x, mirror_y = change
    moved = (xy[:, ::-1] if swapped else xy).copy()
    for axis, mirrored in enumerate((mirror_x, mirror_y)):
        if mirrored:
            moved[:, axis] = size[axis] - moved[:, axis]
    return moved


def outside(xy: Points, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which points do not lie within an image of this size, bool [N]; NaN does not."""
    inside = (xy >= 0) & (xy <= np.asarray(size))
    return np.asarray(~inside.all(axis=1))
