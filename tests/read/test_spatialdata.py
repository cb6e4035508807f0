import sys
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData

import genar
from genar import keys
from genar.errors import DataError
from genar.slide.section import metadata
from tests.read import layouts

Cut = tuple[AnnData, np.ndarray]
pytest.importorskip("spatialdata")
pytestmark = [
    pytest.mark.filterwarnings("ignore:zarr v3 autosharding"),  # of what spatialdata writes
    pytest.mark.filterwarnings("ignore:Call to deprecated class Scaler"),  # of what it imports
]


@pytest.mark.parametrize("v2", [False, True], ids=["zarr 3", "zarr 2"])
def test_a_section(cut: Cut, tmp_path: Path, v2: bool) -> None:
    path = layouts.write_spatialdata(cut[0], tmp_path / "my section.zarr", cut[1], v2=v2)
    assert (path / ("zarr.json" if not v2 else ".zgroup")).is_file()
    read = genar.read.spatialdata(path, mpp=0.687)
    assert list(read.obs_names) == list(cut[0].obs_names)
    assert (read.X != cut[0].X).nnz == 0
    assert np.abs(read.obsm[keys.SPATIAL] - cut[0].obsm[keys.SPATIAL]).max() < 1e-6
    known = metadata(read)
    assert (known[keys.LATTICE], known[keys.PITCH_UM], known[keys.COUNTS_SOURCE]) == ("st", 200, "X")
    assert known[keys.SOURCE_IMAGE] == str(path / "images/he")
    assert list(read.uns[keys.SPATIAL]) == ["my_section"]
    with genar.read.slide(known[keys.SOURCE_IMAGE], known[keys.MPP]) as slide:
        assert slide.dimensions == cut[1].shape[1::-1]
        assert np.array_equal(slide.read(700, 800, 64, 32), cut[1][800:832, 700:764])


def test_image_beside_the_store(cut: Cut, tmp_path: Path) -> None:
    path = layouts.write_spatialdata(cut[0], tmp_path / "a.zarr", cut[1])
    image = layouts.write_image(tmp_path / "a.tif", cut[1], mpp=0.687)
    read = genar.read.spatialdata(path, image=image)
    assert metadata(read)[keys.SOURCE_IMAGE] == str(image)
    assert metadata(read)[keys.MPP] == pytest.approx(0.687, rel=1e-3)
    assert np.abs(read.obsm[keys.SPATIAL] - cut[0].obsm[keys.SPATIAL]).max() < 1e-6


def test_several_images(cut: Cut, tmp_path: Path) -> None:
    import spatialdata as sd
    from spatialdata.models import Image2DModel

    path = layouts.write_spatialdata(cut[0], tmp_path / "a.zarr", cut[1])
    store = sd.read_zarr(path)
    store["small"] = Image2DModel.parse(np.zeros((3, 20, 20), dtype=np.uint8), dims=("c", "y", "x"))
    store.write_element("small")
    with pytest.raises(DataError, match=r"2 images \(he, small\)"):
        genar.read.spatialdata(path, mpp=0.687)
    read = genar.read.spatialdata(path, mpp=0.687, image=path / "images/he")
    assert np.abs(read.obsm[keys.SPATIAL] - cut[0].obsm[keys.SPATIAL]).max() < 1e-6


def test_what_cannot_be_used(cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = layouts.write_spatialdata(cut[0], tmp_path / "a.zarr", cut[1])
    with pytest.raises(DataError, match="does not carry the resolution"):
        genar.read.spatialdata(path)
    with pytest.raises(DataError, match="no such store"):
        genar.read.spatialdata(tmp_path / "b.zarr", mpp=0.687)
    (tmp_path / "c.zarr").mkdir()
    with pytest.raises(DataError, match=r"c.zarr: it (cannot be read|has)"):
        genar.read.spatialdata(tmp_path / "c.zarr", mpp=0.687)
    monkeypatch.setitem(sys.modules, "spatialdata", None)
    with pytest.raises(DataError, match=r"genar\[spatialdata\]"):
        genar.read.spatialdata(path, mpp=0.687)
