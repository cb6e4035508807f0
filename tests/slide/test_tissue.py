import numpy as np
import pandas as pd
import pytest
from scipy.spatial import cKDTree

from genar.slide.open import open_slide
from genar.slide.tissue import TissueMask, tissue_mask

SIDE = 800
Y, X = np.mgrid[:SIDE, :SIDE] - SIDE / 2


@pytest.fixture
def mask_of(make_slide):
    def find(image: np.ndarray, mpp: float = 4.0) -> np.ndarray:
        with open_slide(make_slide(image.clip(0, 255).astype(np.uint8)), mpp) as slide:
            return tissue_mask(slide).mask

    return find


def glass(level=238.0, sd=2.0):
    return level + np.random.default_rng(0).normal(0, sd, (SIDE, SIDE, 3))


def array_dots():
    dots = (X % 50 - 25) ** 2 + (Y % 50 - 25) ** 2 < 144
    return glass() - 8 * dots[..., None]


def halo():
    return glass() - np.exp(-(X**2 + Y**2) / 2 / 120**2)[..., None] * [0, 60, 20]


def debris():
    image = glass()
    for x, y in np.random.default_rng(1).integers(10, SIDE - 10, (30, 2)):
        image[y - 5 : y + 5, x - 5 : x + 5] = 40
    return image


def pen():
    stroke = np.abs(Y) < 60
    return np.where(stroke[..., None], [40.0, 60.0, 150.0], glass())


BLANK = {
    "white": np.full((SIDE, SIDE, 3), 255.0),
    "glass": glass(),
    "noisy glass": glass(225, 5),
    "gradient": glass(200) + 50 * (X / SIDE)[..., None],
    "stitched": np.where((X < 0)[..., None], 255.0, glass(235)),
    "array dots": array_dots(),
    "halo of stain": halo(),
    "debris": debris(),
    "nothing scanned": np.zeros((SIDE, SIDE, 3)),
}


@pytest.mark.parametrize("name", BLANK)
def test_glass_is_no_tissue(mask_of, name):
    assert not mask_of(BLANK[name]).any()


def overlap(mask, side, radius):
    y, x = (np.indices(mask.shape) + 0.5) * side / len(mask) - side / 2
    true = x**2 + y**2 < radius**2
    return (mask & true).sum() / (mask | true).sum()


@pytest.mark.parametrize("mpp", [1.0, 2.0, 4.0])
def test_the_outline_is_that_of_the_tissue(mask_of, tissue_image, mpp):
    assert overlap(mask_of(tissue_image(SIDE, 250), mpp), SIDE, 250) > 0.97


def test_smooth_tissue_counts_but_pen_does_not_inside(mask_of):
    smooth = np.where((X**2 + Y**2 < 250**2)[..., None], [190.0, 120.0, 170.0], glass())
    assert overlap(mask_of(smooth), SIDE, 250) > 0.97
    assert mask_of(pen())[95:105].mean() < 0.05  # of the middle of the stroke


def test_a_hole_stays_a_hole(mask_of, tissue_image):
    image = tissue_image(SIDE, 300)
    hole = X**2 + Y**2 < 80**2
    image[hole] = 238
    mask = mask_of(image)
    assert mask[len(mask) // 2, len(mask) // 2] == 0
    assert mask.mean() == pytest.approx(np.pi * (300**2 - 80**2) / SIDE**2, rel=0.04)


def test_a_slide_full_of_tissue(mask_of, tissue_image):
    assert mask_of(tissue_image(SIDE, 2 * SIDE)).mean() > 0.99


def test_fraction_is_the_share_of_the_square():
    mask = np.zeros((10, 20), dtype=bool)
    mask[:, 10:] = True
    tissue = TissueMask(mask, (4.0, 4.0))  # a slide of 80 x 40 px, tissue from x = 40
    centres = np.array([[20.0, 20], [60, 20], [40, 20], [41, 20], [80, 20], [80, 40], [500, 500], [-50, 20]])
    fraction = tissue.fraction(centres, 8.0)
    assert fraction.dtype == np.float32
    np.testing.assert_allclose(fraction, [0, 1, 0.5, 0.625, 0.5, 0.25, 0, 0], atol=1e-6)
    assert tissue.fraction(centres[:1], 400.0) == pytest.approx(0.5 * 80 * 40 / 400**2)


@pytest.mark.parametrize("section", ["C2", "C3", "C4", "C5", "C6"])
def test_measured_spots_lie_on_tissue(shared, section):
    folder = shared / "data/her2st"
    (image,) = (folder / f"ST-imgs/C/{section}").glob("*.jpg")
    spots = pd.read_csv(folder / f"ST-spotfiles/{section}_selection.tsv", sep="\t")
    xy = spots[["pixel_x", "pixel_y"]].to_numpy()
    with open_slide(image, 0.687) as slide:
        mask = tissue_mask(slide)
        side, reach = 154 / slide.mpp, 200 / slide.mpp
        lattice = np.stack(np.meshgrid(*(np.arange(0, size, reach) for size in slide.dimensions)), -1).reshape(-1, 2)
    assert (mask.fraction(xy, side) >= 0.5).mean() >= 0.97
    off = lattice[cKDTree(xy).query(lattice)[0] > 1.1 * reach]
    assert len(off) > 500
    assert (mask.fraction(off, side) >= 0.5).sum() <= 2


def test_tissue_of_scanned_slides(shared):
    with open_slide(shared / "data/wsi/TCGA-CR-7395-TS1-no-mpp.svs", 0.5) as slide:
        mask = tissue_mask(slide).mask
        height, width = mask.shape
        assert mask.mean() == pytest.approx(0.64, abs=0.03)
        assert not mask[: height // 8, : width // 3].any()  # white and grey glass, stitched
        assert mask[height // 2, width // 4]
        assert not mask[int(0.58 * height), int(0.634 * width)]  # a hole of some 0.03 mm²
    with open_slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        mask = tissue_mask(slide).mask
        assert mask.mean() == pytest.approx(0.39, abs=0.03)
        assert not mask[:, : mask.shape[1] // 50].any()
