"""How sharp a slide is at its spots."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from genar.slide.open import Slide

PIXEL_UM = 1.5  # resolution that sharpness is judged at, about
SQUARE_UM = 110.0  # side of what is judged around a spot; the edges of a smaller square are few
AGAIN_UM = 2.0  # standard deviation of the blur that is added
NOISE = 1.0  # variance of a pixel by chance, in grey levels
BLANK = 0.3  # squared slope below which there is nothing to judge by
STRUCTURE = 1.5  # structures are seldom single edges, and look sharper by so much
LARGEST_UM = 30.0  # a stronger blur is not told apart
BLURRED_UM = 2.2  # from which a spot is out of focus; sharp slides stay below 1.8
MANY = 0.1  # share of spots out of focus from which it is said
READ_PX = 3072  # side of what is read at once


def blur_um(slide: Slide, centres: NDArray[np.float64]) -> NDArray[np.float32]:
    """Measure how blurred the slide is around each spot.

    Edges that lie out of focus lose little of their slope by a further, known blur, sharp ones lose much: the ratio of
    the squared slopes before and after it, over a square of 110 µm, gives the standard deviation of the blur. A slide
    in focus comes to 0.2 to 1.7 µm.

    The level nearest 1.5 µm a pixel is read in parts, so that memory is bounded.

    Parameters
    ----------
    slide
        The slide.
    centres
        The spots' centres (x, y) in level-0 pixels, float64 [N, 2].

    Returns
    -------
    Standard deviation of the blur in µm, up to 30, float32 [N]; NaN where there is nothing to judge by, as on glass.
    """
    level = slide.best_level(1.5 * PIXEL_UM / slide.mpp)
    step = max(1, round(PIXEL_UM / (slide.mpp * slide.downsamples[level])))
    scale = np.asarray(slide.scale(level)) * step  # level-0 px a pixel that is judged
    pixel_um, half = slide.mpp * float(scale.mean()), SQUARE_UM / slide.mpp / 2
    end = np.asarray(slide.dimensions)  # where white begins, whose edge is none of the slide's
    low, high = ((at.clip(0, end) / scale) for at in (centres - half, centres + half))
    slopes = np.zeros((len(centres), 2))
    for spots in _near(low, READ_PX / step):
        left, top = np.floor(low[spots].min(axis=0)).astype(int).tolist()
        right, bottom = np.ceil(high[spots].max(axis=0)).astype(int).tolist()
        at, size = (left * step, top * step), ((right - left) * step, (bottom - top) * step)
        pixels = Image.fromarray(slide.read_level(level, *at, *size)).convert("L").reduce(step)
        grey = np.asarray(pixels, dtype=np.float32)
        again = ndimage.gaussian_filter(grey, AGAIN_UM / pixel_um, truncate=3)
        box = (low[spots] - (left, top), high[spots] - (left, top))
        slopes[spots] = np.column_stack([_mean(_slopes(image), *box) for image in (grey, again)])
    return _blur(slopes[:, 0] - NOISE, slopes[:, 1])


def in_focus(blur: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which spots are sharp enough to be believed, bool [N]; those with nothing to judge by are."""
    return np.asarray(~(blur > BLURRED_UM))


def focus_warning(sharp: NDArray[np.bool_]) -> str | None:
    """Return a sentence if many spots are out of focus, as :func:`in_focus` says, else None."""
    share = 1 - float(np.mean(sharp)) if len(sharp) else 0.0
    if share < MANY:
        return None
    return f"{share:.0%} of the spots are out of focus; scan the slide again, or leave out those not in_focus"


def _near(low: NDArray[np.float64], side: float) -> list[NDArray[np.int64]]:
    """Group squares by their corners [N, 2] into cells of the given side; each group is the numbers of its squares."""
    _, cell = np.unique(np.floor(low / side).astype(np.int64), axis=0, return_inverse=True)
    order = np.argsort(cell, kind="stable")
    return [group for group in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1) if len(group)]


def _slopes(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the squared slope in grey levels a pixel, float32 [h, w]."""
    down, across = np.gradient(grey)
    return np.asarray(down**2 + across**2, dtype=np.float32)


def _mean(values: NDArray[np.float32], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the values [h, w] in boxes (x, y) [N, 2], rounded to whole pixels, float64 [N]."""
    integral = np.pad(values.cumsum(axis=0, dtype=np.float64).cumsum(axis=1), ((1, 0), (1, 0)))
    x0, y0 = np.rint(low).astype(int).clip(0, values.shape[::-1]).T
    x1, y1 = np.rint(high).astype(int).clip(0, values.shape[::-1]).T
    total = integral[y1, x1] - integral[y0, x1] - integral[y1, x0] + integral[y0, x0]
    return np.asarray(total / np.maximum((y1 - y0) * (x1 - x0), 1))


def _blur(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the blur in µm that squared slopes before and after a further one tell, float32 [N]."""
    ratio = np.maximum(before, 0) / np.maximum(after, 1e-9)
    largest = LARGEST_UM / STRUCTURE
    blur = STRUCTURE * AGAIN_UM / np.sqrt(np.maximum(ratio**2 - 1, (AGAIN_UM / largest) ** 2))
    return np.where(after < BLANK, np.nan, blur).astype(np.float32)
