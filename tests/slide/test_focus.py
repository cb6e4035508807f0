"""Blur, on real tissue that is blurred."""

import numpy as np
import pytest
from scipy import ndimage

from genar.slide.focus import blur_um, focus_warning, in_focus
from genar.slide.lattice import VISIUM, lay
from genar.slide.open import open_slide
from genar.slide.tissue import tissue_mask

SLIDES = {"CMU-1-Small-Region.svs": 0.499, "TCGA-CR-7395-TS1-no-mpp.svs": 0.5}
MPP, SIDE = 0.687, 1400


def spots_on(slide, least=0.5):
    xy = lay(VISIUM, *(side * slide.mpp for side in slide.dimensions))[0] / slide.mpp
    return xy[tissue_mask(slide).fraction(xy, 154 / slide.mpp) >= least]


@pytest.mark.parametrize("name", SLIDES)
def test_real_slides_are_sharp(shared, name):
    with open_slide(shared / "data/wsi" / name, SLIDES[name]) as slide:
        blur = blur_um(slide, spots_on(slide))
    assert len(blur) > 50
    assert blur.dtype == np.float32
    assert in_focus(blur).all()
    assert 0.1 < np.median(blur) < 1


@pytest.fixture(scope="module")
def tissue(shared):
    """1 x 1 mm of real tissue at 0.687 µm/px, RGB float32."""
    (path,) = (shared / "data/her2st/ST-imgs/C/C2").glob("*.jpg")
    with open_slide(path, MPP) as slide:
        return slide.read(4900, 5700, SIDE, SIDE).astype(np.float32)


def blurred(pixels, um):
    return ndimage.gaussian_filter(pixels, (um / MPP, um / MPP, 0), truncate=3)


def measured(make_slide, pixels, *, noise=0.0, levels=1):
    pixels = pixels + np.random.default_rng(0).normal(0, noise, pixels.shape)
    image = pixels.round().clip(0, 255).astype(np.uint8)
    path = make_slide(image, mpp=MPP, levels=levels, compression="jpeg", compressionargs={"level": 75})
    with open_slide(path) as slide:
        at = np.arange(100, SIDE - 50, 120.0)
        return blur_um(slide, np.stack(np.meshgrid(at, at), -1).reshape(-1, 2))


@pytest.mark.parametrize(("added", "noise"), [(0, 0.0), (0, 3.0), (2, 0.0), (3, 0.0), (3, 3.0), (4, 0.0), (10, 3.0)])
def test_the_blur_that_was_added_is_measured(make_slide, tissue, added, noise):
    found = measured(make_slide, blurred(tissue, added), noise=noise)
    sharp = in_focus(found).mean()
    assert sharp == 1 if added == 0 else sharp > 0.5 if added == 2 else sharp == 0
    if 2 <= added <= 4:
        assert np.median(found) == pytest.approx(added, rel=0.15)


def test_only_the_blurred_half_is_flagged(make_slide, tissue):
    half = tissue.copy()
    half[SIDE // 2 :] = blurred(tissue, 6)[SIDE // 2 :]
    sharp = in_focus(measured(make_slide, half, levels=3)).reshape(11, 11)
    assert sharp[:4].all()
    assert not sharp[7:].any()


def test_glass_is_not_out_of_focus(make_slide):
    found = measured(make_slide, np.full((SIDE, SIDE, 3), 238.0), noise=1.5)
    assert np.isnan(found).all()
    assert in_focus(found).all()


def test_parts_that_are_read_apart_agree(shared, monkeypatch):
    with open_slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        xy = spots_on(slide)
        whole = blur_um(slide, xy)
        monkeypatch.setattr("genar.slide.focus.READ_PX", 600)
        np.testing.assert_allclose(blur_um(slide, xy), whole, rtol=0.15)
        assert blur_um(slide, xy[:0]).shape == (0,)


def test_it_is_said_when_many_are_blurred():
    assert focus_warning(np.ones(100, dtype=bool)) is None
    assert focus_warning(np.arange(100) >= 5) is None
    assert focus_warning(np.arange(100) >= 38).startswith("38% of the spots are out of focus; ")
    assert focus_warning(np.zeros(0, dtype=bool)) is None
