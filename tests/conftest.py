import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from scipy import ndimage

from genar.slide.chunks import Tiles

os.environ["GENAR_RUNTIME"] = "torch"  # the same features whatever extras are installed


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data: GENAR_SHARED, by default ``shared`` beside the checkout."""
    folder = Path(os.environ.get("GENAR_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "data").is_dir():
        reason = f"the real data are not at {folder} (set GENAR_SHARED)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Take back what a command set up, whose stream ends with its test."""
    yield
    logging.getLogger("genar").handlers.clear()


@pytest.fixture
def tissue_image() -> Callable[..., np.ndarray]:
    """Make a picture of tissue: a textured purple disc on grey glass, RGB uint8 [side, side, 3]."""

    def make(side: int = 800, radius: int = 250, seed: int = 0) -> np.ndarray:
        random = np.random.default_rng(seed)
        image = 238 + random.normal(0, 1.5, (side, side, 3))
        y, x = np.mgrid[:side, :side] - side / 2
        texture = ndimage.gaussian_filter(random.normal(0, 1, (side, side)), 6)
        stained = np.array([170, 100, 160]) + 30 * (texture / texture.std())[..., None]
        disc = x**2 + y**2 < radius**2
        image[disc] = stained[disc]
        return image.clip(0, 255).astype(np.uint8)

    return make


@pytest.fixture(scope="session")
def read_all() -> Callable[[Tiles], torch.Tensor]:
    """Read all tiles, uint8 [N, 3, px, px], in the order of the spots."""

    def read(tiles: Tiles) -> torch.Tensor:
        chunks = [tiles[k] for k in range(len(tiles.chunks))]
        assert [len(chunk) for chunk in chunks] == [len(spots) for spots in tiles.chunks]
        spots = np.concatenate(tiles.chunks)
        np.testing.assert_array_equal(np.sort(spots), np.arange(len(spots)))  # every spot is in one chunk
        return torch.cat(chunks)[np.argsort(spots)]

    return read


@pytest.fixture
def make_slide(tmp_path: Path) -> Callable[..., Path]:
    """Write a tiled TIFF that OpenSlide reads; ``levels`` halve its size, and further options go to tifffile."""

    def make(image: np.ndarray, *, mpp: float | None = 0.5, levels: int = 1, name: str = "s.tif", **kw: Any) -> Path:
        options: dict[str, Any] = {"tile": (256, 256), "photometric": "rgb", "metadata": None, **kw}
        path = tmp_path / name
        with tifffile.TiffWriter(path) as writer:
            for level in range(levels):
                if mpp is not None:
                    per_cm = 1e4 / mpp / 2**level
                    options |= {"resolution": (per_cm, per_cm), "resolutionunit": "CENTIMETER"}
                writer.write(image[:: 2**level, :: 2**level], subfiletype=int(level > 0), **options)
        return path

    return make
