import shutil
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from PIL import Image

import genar
from genar import keys
from genar.errors import DataError, SlideError
from genar.slide.section import metadata
from tests.read import layouts

Cut = tuple[AnnData, np.ndarray]


def test_a_section(cut: Cut, tmp_path: Path) -> None:
    path = layouts.write_h5ad(cut[0], tmp_path / "my section.h5ad", cut[1])
    read = genar.read.h5ad(path, image=path.with_suffix(".tif"), mpp=0.687, patient="01")
    assert (read.X != cut[0].X).nnz == 0
    assert np.array_equal(read.obsm[keys.SPATIAL], cut[0].obsm[keys.SPATIAL])
    known = metadata(read)
    assert known[keys.COUNTS_SOURCE] == "layers/counts"
    assert (known[keys.LATTICE], known[keys.PITCH_UM]) == ("st", 200)
    assert known[keys.DATA] == str(path)
    assert list(read.uns[keys.SPATIAL]) == ["my_section"]
    assert read.obs[keys.PATIENT].unique().tolist() == ["01"]


def test_image_and_resolution_that_the_data_give(cut: Cut, tmp_path: Path) -> None:
    path = layouts.write_h5ad(cut[0], tmp_path / "a.h5ad", cut[1])
    assert metadata(genar.read.h5ad(path, mpp=0.687))[keys.SLIDE_NAME] == "a.tif"  # which lies beside it
    with pytest.raises(SlideError, match="--mpp"):
        genar.read.h5ad(path)
    alone = path.rename(tmp_path / "other.h5ad")
    with pytest.raises(DataError, match="neither does it say which image .* nor does one called other lie beside it"):
        genar.read.h5ad(alone)
    path = alone.rename(path)
    own = layouts.write_image(tmp_path / "own.tif", cut[1], mpp=0.687)
    assert metadata(genar.read.h5ad(path, image=own))[keys.MPP] == pytest.approx(0.687, rel=1e-3)
    written = genar.read.h5ad(path, image=own, mpp=0.7, library_id="007")
    written.write_h5ad(tmp_path / "b.h5ad")
    again = genar.read.h5ad(tmp_path / "b.h5ad")  # a file of ours names its image and resolution
    assert metadata(again)[keys.MPP] == 0.7
    assert list(again.uns[keys.SPATIAL]) == ["007"]
    own.unlink()
    with pytest.raises(DataError, match=r"its image, .*own.tif, is not there"):
        genar.read.h5ad(tmp_path / "b.h5ad")


def test_several_sections(cut: Cut, tmp_path: Path) -> None:
    path = layouts.write_h5ad(cut[0], tmp_path / "a.h5ad", cut[1])
    image = path.with_suffix(".tif")
    table = anndata.read_h5ad(path)
    table.obs["library_id"] = pd.Categorical(["one"] * 18 + ["two"] * (table.n_obs - 18))
    table.write_h5ad(path)
    with pytest.raises(DataError, match=r"2 sections \(one, two\); name one"):
        genar.read.h5ad(path, image=image, mpp=0.687)
    read = genar.read.h5ad(path, image=image, mpp=0.687, library_id="two")
    assert list(read.obs_names) == list(cut[0].obs_names[18:])
    assert (read.X != cut[0].X[18:]).nnz == 0


# Made by anndata 0.7.8, pandas 1.5.3 and h5py 3.8.0: 36 made-up spots on a Visium array at 2 µm per pixel, X of
# 3 genes log-normalised, raw of 5 genes with their counts, library "V1 old" of patient "P 007", image "old.png".
def test_file_of_an_old_anndata(tmp_path: Path) -> None:
    path = tmp_path / "old.h5ad"
    shutil.copy(Path(__file__).with_name("old_anndata.h5ad"), path)
    Image.new("RGB", (360, 300), (200, 150, 200)).save(tmp_path / "old.png")
    read = genar.read.h5ad(path)
    assert read.shape == (36, 5)
    assert list(read.var_names) == ["A", "B", "C", "D", "E"]
    assert read.var[keys.GENE_IDS].iloc[4] == "ENSG00000000004"
    assert read.X.max() > 5
    known = metadata(read)
    assert (known[keys.COUNTS_SOURCE], known[keys.MPP], known[keys.LATTICE]) == ("raw", 2.0, "visium")
    assert read.obs[keys.PATIENT].unique().tolist() == ["P 007"]
    assert read.obs[keys.LIBRARY_ID].unique().tolist() == ["V1_old"]


def test_what_cannot_be_used(cut: Cut, tmp_path: Path) -> None:
    path = layouts.write_h5ad(cut[0], tmp_path / "a.h5ad", cut[1])
    image = path.with_suffix(".tif")
    table = anndata.read_h5ad(path)
    del table.obsm[keys.SPATIAL]
    table.write_h5ad(tmp_path / "b.h5ad")
    with pytest.raises(DataError, match=r'no obsm\["spatial"\]'):
        genar.read.h5ad(tmp_path / "b.h5ad", image=image, mpp=0.687)
    table = anndata.read_h5ad(path)
    table.obsm[keys.SPATIAL][3, 1] = np.nan
    table.write_h5ad(tmp_path / "c.h5ad")
    with pytest.raises(DataError, match="no place in the image"):
        genar.read.h5ad(tmp_path / "c.h5ad", image=image, mpp=0.687)
    table = anndata.read_h5ad(path)
    table.obs["in_tissue"] = 0
    table.write_h5ad(tmp_path / "d.h5ad")
    with pytest.raises(DataError, match="no spot in tissue"):
        genar.read.h5ad(tmp_path / "d.h5ad", image=image, mpp=0.687)
    (tmp_path / "e.h5ad").write_bytes(b"no HDF5")
    with pytest.raises(DataError, match="cannot be read"):
        genar.read.h5ad(tmp_path / "e.h5ad", image=image, mpp=0.687)


def test_genes_named_by_ensembl_id(cut: Cut, tmp_path: Path) -> None:
    section = cut[0].copy()
    symbols = ["TBCE", "TBCE", *section.var_names[2:]]
    section.var["feature_name"] = symbols
    section.var_names = layouts.gene_ids(section)
    path = layouts.write_h5ad(section, tmp_path / "a.h5ad", cut[1])
    read = genar.read.h5ad(path, image=path.with_suffix(".tif"), mpp=0.687)
    assert read.var_names.tolist() == ["TBCE", "TBCE-1", *symbols[2:]]
    assert read.var[keys.GENE_IDS].tolist() == list(section.var_names)
