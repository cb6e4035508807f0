"""Whole predictions of the same pixels in several kinds of file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image

import genar
from genar.store import load
from tests.slide import written
from tests.slide.written import APERIO, STRIPS, TILES

CONTAINERS: dict[str, tuple[str, Callable[[Path, np.ndarray], object], float]] = {
    "strips": ("a.tif", lambda path, image: tifffile.imwrite(path, image, compression="lzw", **STRIPS), 0),
    "BigTIFF": ("b.tif", lambda path, image: tifffile.imwrite(path, image, bigtiff=True, **TILES), 0),
    "Aperio, JPEG 2000": (
        "c.svs", lambda path, image: tifffile.imwrite(
            path, image, compression="aperio_jp2000_rgb", description=APERIO, **TILES
        ), 0,
    ),
    "OME-NGFF": ("d.zarr", lambda path, image: written.ngff(path, image), 0),
    "PNG": ("e.png", lambda path, image: Image.fromarray(image).save(path), 0),
    "JPEG": ("f.jpg", lambda path, image: Image.fromarray(image).save(path, quality=95, subsampling=0), 0.5),
}  # fmt: skip


def test_the_same_pixels_give_the_same_counts_in_every_container(tmp_path, tissue_image):
    model, image = load("her2st-mini"), tissue_image(400, 150)

    def predicted(path: Path) -> Any:
        return genar.predict(path, model, mpp=0.5, spots="grid", pitch=50, device="cpu")

    written.pyramid(tmp_path / "tiles.tif", image, levels=1)
    want = predicted(tmp_path / "tiles.tif")
    assert want.n_obs >= 4
    for name, write, off in CONTAINERS.values():
        write(tmp_path / name, image)
        found = predicted(tmp_path / name)
        np.testing.assert_array_equal(found.obsm["spatial"], want.obsm["spatial"])
        difference = np.abs((found.X - want.X).toarray())
        assert difference.mean() <= off * want.X.mean()
        if off == 0:
            np.testing.assert_array_equal(found.layers["expected"], want.layers["expected"])
