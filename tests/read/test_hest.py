import json
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


def test_a_section(cut: Cut, tmp_path: Path) -> None:
    layouts.write_hest(cut[0], tmp_path, cut[1], "0012", patches=5)
    read = genar.read.hest(tmp_path, "0012")
    assert (read.X != cut[0].X).nnz == 0
    assert read.X.dtype == np.int32
    assert np.array_equal(read.obsm[keys.SPATIAL], cut[0].obsm[keys.SPATIAL])
    assert read.obs[keys.ARRAY_ROW].tolist() == cut[0].obs[keys.ARRAY_ROW].tolist()
    assert read.obs[keys.PATIENT].unique().tolist() == ["Patient 7"]
    assert list(read.uns[keys.SPATIAL]) == ["0012"]
    known = metadata(read)
    assert (known[keys.MPP], known[keys.MPP_SOURCE]) == (0.687, "HEST's pixel_size_um_estimated")
    assert (known[keys.ONCOTREE], known[keys.TECHNOLOGY]) == ("IDC", "Spatial Transcriptomics")
    assert (known[keys.LATTICE], known[keys.PITCH_UM], known[keys.SPOT_UM]) == ("st", 200, 100)
    assert known[keys.PATCHES] == str(tmp_path / "patches/0012.h5")
    assert known[keys.SOURCE_IMAGE] == str(tmp_path / "wsis/0012.tif")
    assert known[keys.COUNTS_SOURCE] == "X"


def test_patches_without_their_slide(cut: Cut, tmp_path: Path) -> None:
    layouts.write_hest(cut[0], tmp_path, cut[1], "A", patches=5, wsi=False)
    read = genar.read.hest(tmp_path, "A")
    assert list(read.obs_names) == list(cut[0].obs_names[:5])
    known, height, width = metadata(read), *cut[1].shape[:2]
    assert keys.SOURCE_IMAGE not in known
    assert (known[keys.SLIDE_WIDTH], known[keys.SLIDE_HEIGHT]) == (width, height)
    geometry = read.uns[keys.SPATIAL]["A"]
    for image, scale in ((keys.HIRES, keys.HIRES_SCALE), (keys.LOWRES, keys.LOWRES_SCALE)):
        shown = geometry[keys.IMAGES][image]
        assert shown.shape[1] / width == pytest.approx(geometry[keys.SCALEFACTORS][scale], rel=0.01)
    assert max(geometry[keys.IMAGES][keys.LOWRES].shape) <= 600
    assert set(genar.read.hest(tmp_path, "A", mpp=0.5).uns[keys.SPATIAL]["A"]) == set(geometry)


def test_geometry_is_that_of_a_section_with_its_slide(cut: Cut, tmp_path: Path) -> None:
    layouts.write_hest(cut[0], tmp_path, cut[1], "A", wsi=True)
    layouts.write_hest(cut[0], tmp_path, cut[1], "B", patches=3, wsi=False)
    known = [metadata(genar.read.hest(tmp_path, name)) for name in "AB"]
    assert set(known[0]) - set(known[1]) == {keys.SOURCE_IMAGE}
    for key in (keys.MPP, keys.LATTICE, keys.SLIDE_WIDTH, keys.SLIDE_HEIGHT, keys.SPOT_UM, keys.CHEMISTRY):
        assert known[0][key] == known[1][key]


@pytest.mark.parametrize(
    ("known", "lattice"),
    [
        ({"st_technology": "Visium", "inter_spot_dist": 100.0}, ("visium", 100, 55)),
        ({"st_technology": "Visium HD", "spot_diameter": 128.0, "inter_spot_dist": 128.0}, ("grid", 128, 128)),
        ({"st_technology": "Xenium", "spot_diameter": 55.0, "inter_spot_dist": 100.0}, ("grid", 100, 55)),
        ({"st_technology": "Xenium", "inter_spot_dist": None, "spot_diameter": None}, ("st", 200, 100)),  # measured
        ({"spot_diameter": 100.0, "inter_spot_dist": 150.0}, ("st", 150, 100)),
    ],
)
def test_technologies(cut: Cut, tmp_path: Path, known: dict[str, object], lattice: tuple[str, int, int]) -> None:
    layouts.write_hest(cut[0], tmp_path, cut[1], "A", **known)
    found = metadata(genar.read.hest(tmp_path, "A"))
    assert (found[keys.LATTICE], found[keys.PITCH_UM], found[keys.SPOT_UM]) == lattice


def test_patients(cut: Cut, tmp_path: Path) -> None:
    for name, patient in (("A", None), ("B", float("nan")), ("C", 7)):
        layouts.write_hest(cut[0], tmp_path, cut[1], name, patient=patient)
    found = [genar.read.hest(tmp_path, name).obs[keys.PATIENT].iloc[0] for name in "ABC"]
    assert found == ["A", "B", "7"]
    assert genar.read.hest(tmp_path, "A", patient="9").obs[keys.PATIENT].iloc[0] == "9"


def test_what_cannot_be_used(cut: Cut, tmp_path: Path) -> None:
    layouts.write_hest(cut[0], tmp_path, cut[1], "A", wsi=False)
    with pytest.raises(DataError, match="neither wsis/A.tif nor patches/A.h5"):
        genar.read.hest(tmp_path, "A")
    layouts.write_hest(cut[0], tmp_path, cut[1], "B", pixel_size_um_estimated=None)
    with pytest.raises(DataError, match="no pixel_size_um_estimated"):
        genar.read.hest(tmp_path, "B")
    assert metadata(genar.read.hest(tmp_path, "B", mpp=0.7))[keys.MPP_SOURCE] == "given by the user"
    (tmp_path / "metadata/B.json").write_text(json.dumps([]))
    with pytest.raises(DataError, match="no JSON object"):
        genar.read.hest(tmp_path, "B")
    (tmp_path / "metadata/B.json").unlink()
    with pytest.raises(DataError, match=r"B.json: it cannot be read"):
        genar.read.hest(tmp_path, "B")
    with pytest.raises(DataError, match=r"C.h5ad: there is no such file"):
        genar.read.hest(tmp_path, "C")
