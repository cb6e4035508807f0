"""Tissue on real slides that pens, scanners and stains have disturbed."""

import numpy as np
import pytest
from PIL import Image

from genar.slide.open import open_slide
from genar.slide.tissue import find_tissue, tissue_mask
from scripts.disturb import DISTURBANCES, Scene

UM = 8.0
LEAST = 0.94  # overlap with the tissue of the undisturbed slide
LESS = {"dust and fibres": 0.9, "half is fat": 0.9, "half blurred by 30 µm": 0.9}


@pytest.fixture(scope="module")
def section(shared):
    """A part of a real section at 8 µm a pixel, and its tissue."""
    (path,) = (shared / "data/her2st/ST-imgs/C/C5").glob("*.jpg")
    with open_slide(path, 0.687) as slide:
        mask = tissue_mask(slide).mask
        image = np.asarray(Image.fromarray(slide.thumbnail(max(mask.shape))))
    place = slice(60, 440), slice(180, 640)
    return image[place], mask[place], UM


@pytest.mark.parametrize("name", DISTURBANCES)
def test_tissue_is_found_all_the_same(section, name):
    scene = Scene(*section)
    DISTURBANCES[name](scene)
    mask = find_tissue(scene.image, UM)
    counted = ~scene.ignored
    assert (scene.tissue & counted).sum() > 15_000
    overlap = (mask & scene.tissue & counted).sum() / ((mask | scene.tissue) & counted).sum()
    assert overlap > LESS.get(name, LEAST)
    off = np.asarray(scene.ignored & mask).sum()
    if "pen across" in name:  # what lies below ink is no tissue to predict at
        assert off < 0.2 * scene.ignored.sum()
