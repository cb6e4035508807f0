"""Where a slide shows tissue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import filters, morphology

from genar.slide.open import Slide

THUMBNAIL_PX = 4000  # at most this long a side
SMALLEST_UM2 = 20_000.0  # a smaller piece is debris
LARGEST_HOLE_UM2 = 40_000.0  # a smaller hole is a lumen or a fat cell
TEXTURE_UM = 40.0  # neighbourhood over which texture is measured
SPREAD_UM = 24.0  # how far texture reaches beyond the tissue's edge
FLOOR = 0.012  # texture (sd of optical density) below which nothing is tissue


@dataclass(frozen=True)
class TissueMask:
    """Tissue at low resolution.

    Parameters
    ----------
    mask
        True where there is tissue, bool [h, w].
    downsample
        Level-0 pixels that a mask pixel spans, (x, y).
    """

    mask: NDArray[np.bool_]
    downsample: tuple[float, float]

    def fraction(self, centres: NDArray[np.float64], size_px: float) -> NDArray[np.float32]:
        """Return the share of tissue in squares; what lies outside the slide is none.

        Parameters
        ----------
        centres
            Centres (x, y) of the squares in level-0 pixels, float64 [N, 2].
        size_px
            Their side in level-0 pixels.

        Returns
        -------
        Shares from 0 to 1, float32 [N].
        """
        height, width = self.mask.shape
        integral = np.zeros((height + 1, width + 1))
        integral[1:, 1:] = self.mask.cumsum(axis=0).cumsum(axis=1)
        scale = np.asarray(self.downsample, dtype=np.float64)
        low, high = (centres - size_px / 2) / scale, (centres + size_px / 2) / scale

        def area(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
            at = [np.clip(y, 0, height), np.clip(x, 0, width)]
            return np.asarray(ndimage.map_coordinates(integral, at, order=1), dtype=np.float64)

        inside = area(high[:, 0], high[:, 1]) - area(low[:, 0], high[:, 1])
        inside -= area(high[:, 0], low[:, 1]) - area(low[:, 0], low[:, 1])
        return np.asarray((inside / np.prod(high - low, axis=1)).clip(0, 1), dtype=np.float32)


def tissue_mask(slide: Slide, resolution_um: float = 8.0) -> TissueMask:
    """Find tissue by its texture.

    Stained tissue varies from cell to cell; glass, its tint and smooth hazes of stain beside the tissue do not. The
    local standard deviation of optical density is thresholded (Otsu, on its logarithm, with a floor below which blank
    glass stays blank), small pieces are dropped and small holes filled.

    Parameters
    ----------
    slide
        The slide.
    resolution_um
        µm a mask pixel, at least; coarser where the slide is large.
    """
    width, height = slide.dimensions
    max_px = min(THUMBNAIL_PX, max(32, round(max(width, height) * slide.mpp / resolution_um)))
    image = slide.thumbnail(max_px)
    downsample = (width / image.shape[1], height / image.shape[0])
    pixel_um = float(np.mean(downsample)) * slide.mpp
    return TissueMask(_texture_mask(image, pixel_um), downsample)


def _texture_mask(image: NDArray[np.uint8], pixel_um: float) -> NDArray[np.bool_]:
    """Return the tissue in a thumbnail, bool [h, w]."""
    density = -np.log10((image.astype(np.float32) + 1) / 256).mean(axis=2)
    sigma = TEXTURE_UM / pixel_um / 2
    fine = density - ndimage.gaussian_filter(density, sigma)
    texture = np.sqrt(ndimage.gaussian_filter(fine**2, sigma))
    logs = np.log(texture + 1e-4)
    threshold = max(float(np.exp(filters.threshold_otsu(logs))) if np.ptp(logs) > 0 else FLOOR, FLOOR)
    mask = texture > threshold
    mask = morphology.erosion(mask, morphology.disk(max(1, round(SPREAD_UM / pixel_um))))
    mask = morphology.closing(mask, morphology.disk(max(1, round(16 / pixel_um))))
    mask = morphology.remove_small_objects(mask, max_size=int(SMALLEST_UM2 / pixel_um**2))
    return np.asarray(morphology.remove_small_holes(mask, max_size=int(LARGEST_HOLE_UM2 / pixel_um**2)))
