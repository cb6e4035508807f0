"""Where µm per pixel come from when OpenSlide does not say."""

import numpy as np
import pytest
import tifffile

from genar.errors import SlideError
from genar.slide.open import open_slide

RGB = np.random.default_rng(5).integers(0, 256, (90, 120, 3), dtype=np.uint8)


@pytest.mark.parametrize(("unit", "dots"), [("CENTIMETER", 40000), ("INCH", 101600)])
def test_tags_of_a_stripped_tiff(tmp_path, unit, dots):
    tifffile.imwrite(tmp_path / "a.tif", RGB, resolution=(dots, dots), resolutionunit=unit, metadata=None)
    with open_slide(tmp_path / "a.tif") as slide:
        assert (slide.mpp, slide.mpp_source) == (pytest.approx(0.25), "TIFF resolution tags")


def test_tags_without_a_unit_say_nothing(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", RGB, resolution=(40000, 40000), resolutionunit="NONE", metadata=None)
    with pytest.raises(SlideError, match="does not carry its resolution.*--mpp"):
        open_slide(tmp_path / "a.tif")


@pytest.mark.parametrize(("unit", "size"), [("µm", 0.4), ("nm", 400.0), (None, 0.4)])
@pytest.mark.parametrize("tile", [None, (64, 64)], ids=["strips", "tiles"])
def test_ome_xml_goes_before_the_tags(tmp_path, unit, size, tile):
    metadata = {"axes": "YXS", "PhysicalSizeX": size, "PhysicalSizeY": size}
    if unit is not None:
        metadata |= {"PhysicalSizeXUnit": unit, "PhysicalSizeYUnit": unit}
    path = tmp_path / "a.ome.tif"
    tags = {"resolution": (10000, 10000), "resolutionunit": "CENTIMETER"}  # 1 µm
    tifffile.imwrite(path, RGB, photometric="rgb", metadata=metadata, tile=tile, **tags)
    with open_slide(path) as slide:
        assert (slide.mpp, slide.mpp_source) == (pytest.approx(0.4), "OME-XML")
        np.testing.assert_array_equal(slide.read(0, 0, 120, 90), RGB)


@pytest.mark.parametrize(("unit_x", "unit_y"), [("nm", "µm"), ("µm", "nm")])
def test_ome_units_are_those_of_each_axis(tmp_path, unit_x, unit_y):
    sizes = {"nm": 400.0, "µm": 0.4}
    metadata = {"axes": "YXS", "PhysicalSizeX": sizes[unit_x], "PhysicalSizeY": sizes[unit_y]}
    metadata |= {"PhysicalSizeXUnit": unit_x, "PhysicalSizeYUnit": unit_y}
    tifffile.imwrite(tmp_path / "a.ome.tif", RGB, photometric="rgb", metadata=metadata)
    with open_slide(tmp_path / "a.ome.tif") as slide:
        assert slide.mpp == pytest.approx(0.4)
