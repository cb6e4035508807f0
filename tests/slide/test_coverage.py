"""How much tissue lies under a spot, and a haze of stain, which is none."""

import numpy as np
import pytest

from genar.slide.open import open_slide
from genar.slide.tissue import TissueMask, tissue_mask

SIDE = 700


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("noise", [0.0, 1.0, 2.0])
def test_a_smooth_pink_haze_is_no_tissue(make_slide, axis, noise):
    step = np.linspace(-1, 1, SIDE)
    haze = np.broadcast_to(step if axis else step[:, None], (SIDE, SIDE))[..., None]
    image = np.array([238.0, 205.0, 222.0]) + 12 * haze
    image = image + noise * np.random.default_rng(0).normal(0, 1, image.shape)
    with open_slide(make_slide(image.clip(0, 255).astype(np.uint8)), 4.0) as slide:
        assert not tissue_mask(slide).mask.any()


def test_tissue_is_found_on_a_pink_haze(make_slide, tissue_image):
    """So that the haze alone is not refused because nothing pink ever counts."""
    image = tissue_image(SIDE, 200) - np.array([0.0, 25, 12])
    with open_slide(make_slide(image.clip(0, 255).astype(np.uint8)), 4.0) as slide:
        assert tissue_mask(slide).mask.mean() == pytest.approx(np.pi * 200**2 / SIDE**2, rel=0.06)


@pytest.mark.parametrize("downsample", [(1.0, 1.0), (4.0, 4.0), (2.0, 3.0)])
def test_fraction_is_the_mean_of_the_mask(downsample):
    random = np.random.default_rng(1)
    mask = random.random((30, 40)) < 0.4
    factor = np.array(downsample)
    side = 12.0  # whole mask pixels along both axes
    low = random.integers([-20, -20], [50, 40], (200, 2))
    want = np.empty(200)
    reach_x, reach_y = (side / factor).astype(int)
    padded = np.pad(mask.astype(float), 60)
    for i, (x, y) in enumerate(low + 60):
        want[i] = padded[y : y + reach_y, x : x + reach_x].mean()
    got = TissueMask(mask, downsample).fraction(low * factor + side / 2, side)
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert (want == 0).any()
    assert (want > 0.2).any()
