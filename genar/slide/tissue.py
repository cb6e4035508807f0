"""Where a slide shows tissue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import filters, morphology, transform

from genar.slide.open import Slide

THUMBNAIL_PX = 4000  # at most this long a side
SMALLEST_UM2 = 20_000.0  # a smaller piece is debris
LARGEST_HOLE_UM2 = 10_000.0  # a smaller hole is a lumen or a fat cell
TEXTURE_UM = 40.0  # neighbourhood over which texture is measured
TEXTURE_FLOOR = 0.012  # sd of optical density below which nothing is tissue ...
TEXTURE_CEILING = 0.02  # ... and above which everything is, for slides that show little or no glass
GLASS_UM = 250.0  # distance over which the glass, its tint and hazes are taken to be even
GLASS_CEILING = 0.2  # optical density that no glass has
STAIN_FLOOR = 0.03  # optical density above the glass below which nothing is stained
SOLID = 0.15  # optical density above the glass that no haze reaches: tissue though it be smooth, as out of focus
SAME = 1e-3  # a range of values that says nothing of two classes
CLOSE_UM = 32.0  # gaps between cells and fibres narrower than this are tissue


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

    def resized(self, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Return the mask at another size, bool [h, w], each pixel as most of what it covers."""
        resized = transform.resize(self.mask.astype(np.float32), shape, order=1, anti_aliasing=True)
        return np.asarray(resized > 0.5)

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
    """Find tissue by its texture, and its outline by its stain.

    Stained tissue varies from cell to cell; glass, its tint and smooth hazes of stain beside the tissue do not. The
    local standard deviation of optical density is thresholded (Otsu, on its logarithm, with a floor below which blank
    glass stays blank). That finds the tissue but reaches beyond its edge, so inside it only what is denser than the
    glass nearby is kept. Smooth areas, as those out of focus, count where they are dense and of the colour of H&E,
    which pen is not. Narrow gaps are closed, small pieces dropped and small holes filled.

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
    colour = -np.log10((image.astype(np.float32) + 1) / 256)  # optical density a channel
    density = colour.mean(axis=2)
    region = _textured(density, pixel_um)
    unseen = (image == 255).all(axis=2)  # filled in by the scanner; it says nothing of the glass
    glass = _glass(density, ~region & ~unseen, pixel_um)
    region |= _solid(colour, glass, pixel_um)
    stained = _stained(density, region, glass, pixel_um)
    return TissueMask(_tidy(region & stained, pixel_um), downsample)


def _textured(density: NDArray[np.float32], pixel_um: float) -> NDArray[np.bool_]:
    """Return where optical density [h, w] varies locally, bool [h, w]; some 50 µm beyond the tissue's edge."""
    sigma = TEXTURE_UM / pixel_um / 2
    fine = density - ndimage.gaussian_filter(density, sigma)
    texture = np.sqrt(ndimage.gaussian_filter(fine**2, sigma))
    logs = np.log(texture + 1e-4)
    otsu = float(np.exp(_otsu(logs, otherwise=-np.inf)))
    return np.asarray(texture > min(max(otsu, TEXTURE_FLOOR), TEXTURE_CEILING))


def _glass(density: NDArray[np.float32], smooth: NDArray[np.bool_], pixel_um: float) -> NDArray[np.bool_]:
    """Return where the slide certainly shows glass, bool [h, w]: smooth, clear and of some extent."""
    clear = smooth & (density < GLASS_CEILING)
    return np.asarray(morphology.remove_small_objects(clear, max_size=int((GLASS_UM / pixel_um) ** 2)))


def _solid(colour: NDArray[np.float32], glass: NDArray[np.bool_], pixel_um: float) -> NDArray[np.bool_]:
    """Return where the optical density [h, w, 3] is high, and highest in green as haematoxylin and eosin are."""
    tint = np.median(colour[glass], axis=0) if glass.any() else np.zeros(3, dtype=np.float32)
    sigma = TEXTURE_UM / pixel_um / 2
    red, green, blue = np.moveaxis(ndimage.gaussian_filter(colour, (sigma, sigma, 0)) - tint, 2, 0)
    return np.asarray(((red + green + blue) / 3 > SOLID) & (green > 1.1 * red) & (green > 1.1 * blue))


def _stained(
    density: NDArray[np.float32], region: NDArray[np.bool_], glass: NDArray[np.bool_], pixel_um: float
) -> NDArray[np.bool_]:
    """Return where the optical density [h, w] exceeds that of the glass nearby, bool [h, w]."""
    if not glass.any():
        return density > STAIN_FLOOR
    sigma = GLASS_UM / pixel_um
    weight = ndimage.gaussian_filter(glass.astype(np.float32), sigma)
    level = ndimage.gaussian_filter(np.where(glass, density, 0), sigma) / np.maximum(weight, 1e-6)
    typical = np.float32(np.median(density[glass]))
    level = np.where(weight > 1e-3, level, typical)
    excess = ndimage.gaussian_filter(density, 4 / pixel_um) - level
    inside = excess[region]
    otsu = _otsu(inside, otherwise=0.0)
    return np.asarray(excess > max(otsu / 3, STAIN_FLOOR))


def _otsu(values: NDArray[np.float32], *, otherwise: float) -> float:
    """Return Otsu's threshold, or ``otherwise`` where the values hardly differ."""
    if values.size == 0 or np.ptp(values) < SAME:
        return otherwise
    return float(filters.threshold_otsu(values))


def _tidy(mask: NDArray[np.bool_], pixel_um: float) -> NDArray[np.bool_]:
    """Close gaps, drop debris and fill small holes."""
    radius = max(1, round(CLOSE_UM / pixel_um / 2))
    padded = np.pad(mask, radius)  # closing would otherwise bridge to the border of the image
    closed = morphology.closing(padded, morphology.disk(radius))[radius:-radius, radius:-radius]
    closed = morphology.remove_small_objects(closed, max_size=int(SMALLEST_UM2 / pixel_um**2))
    return np.asarray(morphology.remove_small_holes(closed, max_size=int(LARGEST_HOLE_UM2 / pixel_um**2)))
