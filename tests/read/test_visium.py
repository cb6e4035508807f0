import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

import genar
from genar import keys
from genar.errors import DataError
from genar.slide.section import metadata
from tests.read import layouts

Cut = tuple[AnnData, np.ndarray]


def same(read: AnnData, section: AnnData, *, tolerance: float = 0.0) -> None:
    assert list(read.obs_names) == list(section.obs_names)
    assert list(read.var_names) == list(section.var_names)
    assert (read.X != section.X).nnz == 0
    assert read.X.dtype == np.int32
    assert read.X.format == "csr"
    assert np.abs(read.obsm[keys.SPATIAL] - section.obsm[keys.SPATIAL]).max() <= tolerance
    for column in (keys.ARRAY_ROW, keys.ARRAY_COL):
        assert read.obs[column].tolist() == section.obs[column].tolist()


def test_version_1(on_visium: Cut, tmp_path: Path) -> None:
    read = genar.read.visium(layouts.write_visium_v1(*_of(on_visium, tmp_path / "V1 Ü")))
    same(read, on_visium[0], tolerance=0.5)  # it writes whole pixels
    known = metadata(read)
    assert known[keys.MPP] == pytest.approx(1.0, rel=1e-3)
    assert "measured" in known[keys.MPP_SOURCE]
    assert known[keys.COUNTS_SOURCE] == "filtered_feature_bc_matrix"
    assert (known[keys.LATTICE], known[keys.PITCH_UM], known[keys.SPOT_UM]) == ("visium", 100, 55)
    assert read.obs[keys.LIBRARY_ID].unique().tolist() == ["V1__"]
    assert known[keys.SECTION_NAME] == "V1 Ü"
    assert read.obs[keys.PATIENT].unique().tolist() == ["V1 Ü"]
    assert "unknown" in known[keys.PATIENT_SOURCE]


def test_version_2(on_visium: Cut, tmp_path: Path) -> None:
    folder = layouts.write_visium_v2(*_of(on_visium, tmp_path / "007"))
    for path in (folder, folder / "outs"):
        read = genar.read.visium(path, patient="01")
        same(read, on_visium[0])  # so the antibody is left out
        assert read.var[keys.GENE_IDS].tolist() == layouts.gene_ids(on_visium[0])
        assert read.obs[keys.LIBRARY_ID].unique().tolist() == ["007"]
        assert read.obs[keys.PATIENT].unique().tolist() == ["01"]
        assert metadata(read)[keys.SOURCE_IMAGE] == str(folder / "slide.tif")
        assert metadata(read)[keys.MPP] == pytest.approx(1.0, rel=1e-4)


def test_resolution_that_is_given(on_visium: Cut, tmp_path: Path) -> None:
    read = genar.read.visium(layouts.write_visium_v2(*_of(on_visium, tmp_path / "a")), mpp=0.9, library_id="b")
    assert metadata(read)[keys.MPP] == 0.9
    assert metadata(read)[keys.MPP_SOURCE] == "given by the user"
    assert list(read.uns[keys.SPATIAL]) == ["b"]


def test_hd(on_visium: Cut, tmp_path: Path) -> None:
    folder = layouts.write_visium_hd(*_of(on_visium, tmp_path / "hd"))
    read = genar.read.visium(folder)
    same(read, on_visium[0])
    known = metadata(read)
    assert (known[keys.LATTICE], known[keys.PITCH_UM], known[keys.SPOT_UM]) == ("grid", 8, 8)
    assert (known[keys.MPP], known[keys.MPP_SOURCE]) == (0.687, "Space Ranger's microns_per_pixel")
    assert metadata(genar.read.visium(folder, bin_um=16))[keys.PITCH_UM] == 16
    with pytest.raises(DataError, match=r"no bins of 2 µm \(there: 8, 16\)"):
        genar.read.visium(folder, bin_um=2)
    shutil.rmtree(folder / "outs/binned_outputs/square_008um")
    assert metadata(genar.read.visium(folder))[keys.PITCH_UM] == 16  # the only ones
    (folder / "outs/binned_outputs/square_016um/spatial/scalefactors_json.json").write_text(json.dumps({}))
    with pytest.raises(DataError, match="microns_per_pixel"):
        genar.read.visium(folder)


def test_raw_counts_are_cut_to_tissue(on_visium: Cut, tmp_path: Path) -> None:
    folder = layouts.write_visium_v2(*_of(on_visium, tmp_path / "a"))
    (folder / "outs/filtered_feature_bc_matrix.h5").unlink()
    glass = on_visium[0][:3].copy()
    glass.obs_names = [f"GGGG{i:04d}-1" for i in range(3)]
    both = AnnData(
        csr_matrix(np.vstack([glass.X.toarray(), on_visium[0].X.toarray()])),
        obs=pd.DataFrame(index=[*glass.obs_names, *on_visium[0].obs_names]),
        var=on_visium[0].var,
    )
    layouts.write_matrix_h5(folder / "outs/raw_feature_bc_matrix.h5", both)
    same(genar.read.visium(folder), on_visium[0])


def test_spots_of_the_matrix_outside_of_tissue(
    on_visium: Cut, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = layouts.write_visium_v2(*_of(on_visium, tmp_path / "a"))
    file = folder / "outs/spatial/tissue_positions.csv"
    table = pd.read_csv(file)
    table.loc[5, "in_tissue"] = 0
    table.to_csv(file, index=False)
    assert genar.read.visium(folder).n_obs == on_visium[0].n_obs - 1
    assert "1 of its spots are not in tissue" in caplog.text


def test_symbols_that_stand_twice(on_visium: Cut, tmp_path: Path) -> None:
    section = on_visium[0].copy()
    section.var_names = ["TBCE", "TBCE", *section.var_names[2:]]
    read = genar.read.visium(layouts.write_visium_v2(section, tmp_path / "a", on_visium[1]))
    assert read.var_names[:2].tolist() == ["TBCE", "TBCE-1"]


def test_downloads_with_a_prefix(on_visium: Cut, tmp_path: Path) -> None:
    folder = layouts.write_visium_v2(*_of(on_visium, tmp_path / "a"))
    outs = folder / "outs"
    (outs / "filtered_feature_bc_matrix.h5").rename(outs / "GSM1_filtered_feature_bc_matrix.h5")
    (outs / "spatial/tissue_positions.csv").rename(outs / "spatial/GSM1_tissue_positions.csv")
    same(genar.read.visium(folder), on_visium[0])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda outs: shutil.rmtree(outs / "spatial"), "no Space Ranger output"),
        (lambda outs: (outs.parent / "slide.tif").unlink(), "no full-resolution image"),
        (lambda outs: shutil.copy(outs.parent / "slide.tif", outs / "other.tif"), r"2 images .*other.tif"),
        (lambda outs: (outs / "filtered_feature_bc_matrix.h5").unlink(), "no filtered_feature_bc_matrix"),
        (lambda outs: (outs / "filtered_feature_bc_matrix.h5").write_bytes(b"x"), "cannot be read"),
        (lambda outs: _positions(outs, lambda t: t.assign(in_tissue=0)), "no spot in tissue"),
        (lambda outs: _positions(outs, lambda t: t.assign(barcode="A")), "stands in it twice"),
        (lambda outs: _positions(outs, lambda t: t.assign(pxl_row_in_fullres="x")), "not numbers"),
        (lambda outs: _positions(outs, lambda t: t.drop(columns="array_row")), "lacks the columns"),
        (lambda outs: _positions(outs, lambda t: t.assign(pxl_col_in_fullres=t.pxl_col_in_fullres / 99,
                                                          pxl_row_in_fullres=t.pxl_row_in_fullres / 99)),
         "px apart, which cannot be 100 µm"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(on_visium: Cut, tmp_path: Path, spoil: Callable[[Path], object], why: str) -> None:
    folder = layouts.write_visium_v2(*_of(on_visium, tmp_path / "a"))
    spoil(folder / "outs")
    with pytest.raises(DataError, match=why) as e:
        genar.read.visium(folder)
    assert str(tmp_path) in str(e.value)
    assert "\n" not in str(e.value)


def test_bins_are_of_hd_alone(on_visium: Cut, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not Visium HD"):
        genar.read.visium(layouts.write_visium_v2(*_of(on_visium, tmp_path / "a")), bin_um=8)


def _of(on_visium: Cut, folder: Path) -> tuple[AnnData, Path, np.ndarray]:
    return on_visium[0], folder, on_visium[1]


def _positions(outs: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    file = outs / "spatial/tissue_positions.csv"
    change(pd.read_csv(file)).to_csv(file, index=False)
