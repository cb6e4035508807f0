import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from genar.errors import SlideError
from genar.slide.open import open_slide


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (120, 200, 3), dtype=np.uint8)


@pytest.fixture
def store(tmp_path: Path, picture: np.ndarray) -> Callable[..., Path]:
    """Write an OME-NGFF image of two levels."""

    def make(pixels: np.ndarray = picture, version: int = 3, axes: str = "cyx", name: str = "he") -> Path:
        path = tmp_path / name
        group = zarr.open_group(path, mode="w", zarr_format=version)
        for level in range(2):
            array = np.moveaxis(pixels[:: 2**level, :: 2**level], 2, 0)
            group.create_array(f"s{level}", data=array, chunks=(1, 64, 64))
        scales = [
            {"axes": [{"name": axis} for axis in axes], "datasets": [{"path": f"s{level}"} for level in range(2)]}
        ]
        attributes: dict[str, Any] = {"multiscales": scales}
        group.attrs.update({"ome": attributes} if version == 3 else attributes)
        return path

    return make


@pytest.mark.parametrize("version", [2, 3])
def test_windows(store: Callable[..., Path], picture: np.ndarray, version: int) -> None:
    with open_slide(store(version=version), mpp=0.5) as slide:
        assert slide.backend.levels == ((200, 120), (100, 60))
        assert np.array_equal(slide.read(30, 50, 90, 40), picture[50:90, 30:120])
        assert np.array_equal(slide.read(60, 20, 30, 20, level=1), picture[20:60:2, 60:120:2])
        assert slide.read(-10, 0, 5, 5).min() == 255
        assert slide.thumbnail(100).shape == (60, 100, 3)
        again = pickle.loads(pickle.dumps(slide))
        assert np.array_equal(again.read(0, 0, 200, 120), picture)


def test_transparency(store: Callable[..., Path], picture: np.ndarray) -> None:
    alpha = np.zeros((120, 200, 1), dtype=np.uint8)
    with open_slide(store(np.dstack([picture, alpha])), mpp=0.5) as slide:
        assert slide.read(0, 0, 200, 120).min() == 255


def test_resolution_must_be_given(store: Callable[..., Path]) -> None:
    with pytest.raises(SlideError, match="does not carry its resolution"):
        open_slide(store())


def test_sha256_is_of_the_whole_folder(store: Callable[..., Path], picture: np.ndarray) -> None:
    paths = [store(), store(name="same"), store(picture[::-1], name="other")]
    one, same, other = (open_slide(path, mpp=0.5).sha256() for path in paths)
    assert len(one) == 64
    assert one == same
    assert one != other


def test_what_cannot_be_opened(store: Callable[..., Path], picture: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(SlideError, match="a folder, not a file"):
        open_slide(tmp_path, mpp=0.5)
    with pytest.raises(SlideError, match="axes are zyx"):
        open_slide(store(axes="zyx"), mpp=0.5)
    with pytest.raises(SlideError, match="uint16, not 8-bit RGB"):
        open_slide(store(picture.astype(np.uint16)), mpp=0.5)
    with pytest.raises(SlideError, match="not 8-bit RGB"):
        open_slide(store(picture[..., :1]), mpp=0.5)
    zarr.open_group(tmp_path / "bare", mode="w")
    with pytest.raises(SlideError, match="without an OME-NGFF image"):
        open_slide(tmp_path / "bare", mpp=0.5)
    path = store()
    (path / "zarr.json").write_text("{")
    with pytest.raises(SlideError, match="cannot be opened"):
        open_slide(path, mpp=0.5)
