"""Where a slide shows tissue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import filters, morphology, transform

from genar.slide.foreign import foreign
from genar.slide.open import Slide

THUMBNAIL_PX = 4000  # at most this long a side
SMALLEST_UM2 = 20_000.0  # a smaller piece is debris
LARGEST_HOLE_UM2 = 7_000.0  # a smaller hole is a lumen or a fat cell
TEXTURE_UM = 40.0  # neighbourhood over which texture is measured
TEXTURE_FLOOR = 0.012  # sd of optical density below which nothing is tissue ...
TEXTURE_CEILING = 0.02  # ... and above which everything is, for slides that show little or no glass
GLASS_UM = 250.0  # distance over which the glass, its tint and hazes are taken to be even
GLASS_CEILING = 0.2  # optical density that only glass in a dim light reaches
GLASS_HUE = 0.2  # by how much the channels of glass differ in optical density at most
GLASS_PINK = 0.14  # by how much green exceeds the mean of the others at most; in tissue it exceeds more
GLASS_RANGE = 0.2  # by how much the light varies over a slide, in optical density
LEAST_GLASS = 1e-3  # share of a picture below which its smooth parts say nothing of the glass
STAIN_FLOOR = 0.03  # optical density above the glass below which nothing is stained
SOLID = 0.11  # optical density above the glass that no haze reaches: tissue though it be smooth, as out of focus
FAINT = 0.05  # the same where tissue lies all around it
RIDGE = 0.02  # optical density by which thin walls, as between fat cells, exceed what lies around them
SAME = 1e-3  # a range of values that says nothing of two classes
CLOSE_UM = 64.0  # gaps between cells and fibres, and fat cells, narrower than this are tissue


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
        integral = np.zeros((height + 1, width + 1), dtype=np.int32)
        np.cumsum(self.mask, axis=0, out=integral[1:, 1:])
        np.cumsum(integral, axis=1, out=integral)
        scale = np.asarray(self.downsample, dtype=np.float64)
        low, high = (centres - size_px / 2) / scale, (centres + size_px / 2) / scale

        def area(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
            at = [np.clip(y, 0, height), np.clip(x, 0, width)]
            return np.asarray(ndimage.map_coordinates(integral, at, np.float64, order=1))

        inside = area(high[:, 0], high[:, 1]) - area(low[:, 0], high[:, 1])
        inside -= area(high[:, 0], low[:, 1]) - area(low[:, 0], low[:, 1])
        return np.asarray((inside / np.prod(high - low, axis=1)).clip(0, 1), dtype=np.float32)


def tissue_mask(slide: Slide, resolution_um: float = 8.0) -> TissueMask:
    """Find tissue by its texture, and its outline by its stain.

    Stained tissue varies from cell to cell; glass, its tint and smooth hazes of stain beside the tissue do not. The
    local standard deviation of optical density is thresholded (Otsu, on its logarithm, with a floor below which blank
    glass stays blank). That finds the tissue but reaches beyond its edge, so inside it only what is denser than the
    glass nearby is kept. Smooth areas, as those out of focus, count where they are dense. What has a colour that H&E
    does not have, as pen and unscanned borders, is left out first (:func:`genar.slide.foreign.foreign`). Narrow gaps
    are closed, small pieces dropped and small holes filled.

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
    return TissueMask(find_tissue(image, float(np.mean(downsample)) * slide.mpp), downsample)


def find_tissue(image: NDArray[np.uint8], pixel_um: float) -> NDArray[np.bool_]:
    """Find tissue in a picture of a whole slide, as :func:`tissue_mask` does.

    Parameters
    ----------
    image
        RGB, uint8 [h, w, 3].
    pixel_um
        µm a pixel, some 8.

    Returns
    -------
    Where there is tissue, bool [h, w].
    """
    colour = -np.log10((image.astype(np.float32) + 1) / 256)  # optical density a channel
    density = colour.mean(axis=2)
    unseen = (image == 255).all(axis=2)  # filled in by the scanner; it says nothing of the glass
    smooth = ~_textured(density, ~unseen, pixel_um) & ~unseen
    tint = _tint(colour, smooth)
    other = foreign(colour - tint, pixel_um)
    excess = colour - tint
    solid = _solid(excess, pixel_um) & ~other
    region = (_textured(density, ~other, pixel_um) & ~other) | solid
    enclosed = ndimage.binary_fill_holes(region) & ~other
    region |= enclosed & (excess.mean(axis=2) > FAINT)
    glass = _glass(density, smooth & ~region & ~other, float(tint.mean()), pixel_um)
    return _tidy(region & _stained(density, region, glass, pixel_um), pixel_um)


def _textured(density: NDArray[np.float32], seen: NDArray[np.bool_], pixel_um: float) -> NDArray[np.bool_]:
    """Return where optical density [h, w] varies locally, bool [h, w]; some 50 µm beyond the tissue's edge."""
    sigma = TEXTURE_UM / pixel_um / 2
    weight = np.maximum(ndimage.gaussian_filter(seen.astype(np.float32), sigma), 1e-3)
    mean = ndimage.gaussian_filter(np.where(seen, density, 0), sigma) / weight
    fine = np.where(seen, density - mean, 0)
    texture = np.sqrt(ndimage.gaussian_filter(fine**2, sigma) / weight)
    logs = np.log(texture[seen] + 1e-4)
    otsu = float(np.exp(_otsu(logs, otherwise=-np.inf)))
    return np.asarray(texture > min(max(otsu, TEXTURE_FLOOR), TEXTURE_CEILING))


def _tint(colour: NDArray[np.float32], smooth: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the optical density [3] of the glass: of the clearest smooth parts that are as grey as glass."""
    red, green, blue = np.moveaxis(colour, 2, 0)
    pale = smooth & (np.ptp(colour, axis=2) < GLASS_HUE) & (green - (red + blue) / 2 < GLASS_PINK)
    if pale.mean() < LEAST_GLASS:
        return np.zeros(3, dtype=np.float32)
    density = colour.mean(axis=2)
    clearest = float(np.quantile(density[pale], 0.02))
    return np.asarray(np.median(colour[pale & (density < clearest + GLASS_RANGE)], axis=0), dtype=np.float32)


def _glass(density: NDArray[np.float32], smooth: NDArray[np.bool_], tint: float, pixel_um: float) -> NDArray[np.bool_]:
    """Return where the slide certainly shows glass, bool [h, w]: smooth, clear and of some extent."""
    clear = smooth & (density < max(GLASS_CEILING, tint + GLASS_RANGE))
    return np.asarray(morphology.remove_small_objects(clear, max_size=int((GLASS_UM / pixel_um) ** 2)))


def _solid(colour: NDArray[np.float32], pixel_um: float) -> NDArray[np.bool_]:
    """Return where the optical density above the glass [h, w, 3] is high over some 40 µm."""
    return np.asarray(ndimage.gaussian_filter(colour.mean(axis=2), TEXTURE_UM / pixel_um / 2) > SOLID)


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
    otsu = _otsu(excess[region], otherwise=0.0)
    ridge = excess - ndimage.gaussian_filter(excess, TEXTURE_UM / pixel_um / 2) > RIDGE
    return np.asarray((excess > max(otsu / 3, STAIN_FLOOR)) | (ridge & (excess > STAIN_FLOOR)))


def _otsu(values: NDArray[np.float32], *, otherwise: float) -> float:
    """Return Otsu's threshold, or ``otherwise`` where the values hardly differ."""
    if values.size == 0 or np.ptp(values) < SAME:
        return otherwise
    return float(filters.threshold_otsu(values))


def _tidy(mask: NDArray[np.bool_], pixel_um: float) -> NDArray[np.bool_]:
    """Close gaps, drop debris and fill small holes."""
    radius = min(max(1, round(CLOSE_UM / pixel_um / 2)), max(mask.shape))
    padded = np.pad(mask, radius)  # closing would otherwise bridge to the border of the image
    closed = morphology.closing(padded, morphology.disk(radius))[radius:-radius, radius:-radius]
    closed = morphology.remove_small_objects(closed, max_size=int(SMALLEST_UM2 / pixel_um**2))
    return np.asarray(morphology.remove_small_holes(closed, max_size=int(LARGEST_HOLE_UM2 / pixel_um**2)))
