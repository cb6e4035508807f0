"""What lies on a slide and is neither tissue nor glass: ink, borders of the scan, edges of glass, bubbles, dust."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import morphology

CORE_UM, EDGE_UM = 12.0, 5.0  # standard deviation of the smoothing before colours are judged
CORE_DENSITY, EDGE_DENSITY = 0.15, 0.05  # mean optical density above the glass from which they can be
BLUE = 1.3  # red over green: above it blue and green ink; haematoxylin reaches 1.2
RED = 0.8  # blue over green: above it red ink and all that is grey; haematoxylin and eosin reach 0.75
GREY = 0.75  # smallest over largest channel, above it grey: no dye of tissue
CERTAIN = 1.6  # red over green that no stain has
DENSE = 0.45  # mean optical density from which what has the colour of ink is ink, be it uneven ...
EVEN = 0.06  # ... and variation over density below which it is ink, be it thin
DARKEST = 0.75  # mean optical density that no tissue reaches over some tens of µm ...
DARK = 0.6  # ... and hardly any does: tissue below ink, where a stroke leads there
SMALLEST_UM2 = 4_000.0  # smaller specks are dust or pigment, which the outline of the tissue passes over
REACH_UM = 150.0  # how far from its core the rim of a stroke can be
TEXTURE_UM = 20.0  # neighbourhood over which unevenness is measured


def foreign(colour: NDArray[np.float32], pixel_um: float) -> NDArray[np.bool_]:
    """Find what has a colour that haematoxylin and eosin do not give, or is darker than they make tissue.

    Optical densities of one dye have fixed ratios, whatever its thickness: of ink too, up to the rim of a stroke.
    Haematoxylin and eosin absorb green most; blue and green ink absorb more red, red ink as much blue, and black ink,
    shadows and unscanned areas all three alike.

    Parameters
    ----------
    colour
        Optical density above that of the glass, float32 [h, w, 3].
    pixel_um
        µm a pixel.

    Returns
    -------
    Where it is, bool [h, w].
    """
    core = _smooth(colour, CORE_UM / pixel_um)
    density = core.mean(axis=2)
    seeds = (density > DARKEST) | ((density > CORE_DENSITY) & _odd(core) & _ink(core, colour, pixel_um))
    seeds = morphology.remove_small_objects(seeds, max_size=int(SMALLEST_UM2 / pixel_um**2))
    if not seeds.any():
        return np.asarray(seeds)
    seeds = ndimage.binary_propagation(seeds, mask=seeds | (density > DARK))
    edge = _smooth(colour, EDGE_UM / pixel_um)
    rim = (edge.mean(axis=2) > EDGE_DENSITY) & _odd(edge) | seeds
    steps = max(1, round(REACH_UM / pixel_um))
    grown = ndimage.binary_dilation(seeds, iterations=steps, mask=rim)
    return np.asarray(ndimage.binary_dilation(grown))


def _smooth(colour: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    return np.asarray(ndimage.gaussian_filter(colour, (sigma, sigma, 0), truncate=3))


def _odd(colour: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return where the ratio of the channels [h, w, 3] is that of other dyes, bool [h, w]."""
    red, green, blue = np.moveaxis(colour, 2, 0)
    return np.asarray((red > BLUE * green) | (blue > RED * green))


def _ink(core: NDArray[np.float32], colour: NDArray[np.float32], pixel_um: float) -> NDArray[np.bool_]:
    """Return where an odd colour is not that of an odd stain or of blood: grey, dense, or more even than cells."""
    density = colour.mean(axis=2)
    sigma = TEXTURE_UM / pixel_um
    fine = density - ndimage.gaussian_filter(density, sigma, truncate=3)
    even = ndimage.gaussian_filter(fine**2, sigma, truncate=3) < (EVEN * density) ** 2
    grey = core.min(axis=2) > GREY * core.max(axis=2)
    certain = core[..., 0] > CERTAIN * core[..., 1]
    return np.asarray(grey | certain | even | (core.mean(axis=2) > DENSE))
