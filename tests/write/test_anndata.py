import json
from pathlib import Path

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.write.anndata import plain, result, write_h5ad

COUNTS = np.array([[0, 3, 1], [2, 0, 0], [0, 0, 0], [70_000, 1, 5]], dtype=np.int64)
PROVENANCE = {
    "model": "m",
    "none": None,
    "path": Path("/a/b"),
    "geometry": {"tile_um": 154.0, "none": None, "deep": {"scales": (1, 4)}},
    "scales": [1, 4, 8],
    "warnings": ["first", "zweite µ"],
    "no_warnings": [],
    "seed": 3,
    "mixed": ["a", 1],
}


@pytest.fixture
def spots() -> AnnData:
    obs = pd.DataFrame(
        {keys.IN_TISSUE: 1, keys.ARRAY_ROW: range(4), keys.LIBRARY_ID: pd.Categorical(["s"] * 4)},
        index=["a", "b", "c", "d"],
    )
    spots = AnnData(obs=obs)
    spots.obsm[keys.SPATIAL] = np.arange(8.0).reshape(4, 2) + 0.5
    spots.obsm[keys.features("enc")] = np.ones((4, 5), np.float32)
    image = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    spots.uns[keys.SPATIAL] = {
        "s": {keys.IMAGES: {keys.HIRES: image}, keys.SCALEFACTORS: {keys.SPOT_DIAMETER: 2.0}, keys.METADATA: {}}
    }
    return spots


@pytest.fixture
def panel() -> pd.DataFrame:
    index = pd.Index(["A", "B", "C"], name="gene")
    return pd.DataFrame({keys.HELDOUT_PCC: [0.5, np.nan, 0.1], keys.group(1): [0, 0, 0]}, index=index)


def make(spots: AnnData, panel: pd.DataFrame, **options: object) -> AnnData:
    expected = COUNTS + 0.25
    return result(
        spots, panel=panel, counts=COUNTS, expected=expected, std=expected / 2, provenance=PROVENANCE, **options
    )


def test_result(spots: AnnData, panel: pd.DataFrame) -> None:
    adata = make(spots, panel)
    assert isinstance(adata.X, csr_matrix)
    assert adata.X.dtype == np.int32
    assert adata.X.toarray().tolist() == COUNTS.tolist()
    assert adata.layers[keys.EXPECTED].dtype == adata.layers[keys.STD].dtype == np.float32
    np.testing.assert_array_equal(adata.layers[keys.EXPECTED], (COUNTS + 0.25).astype(np.float32))
    np.testing.assert_array_equal(adata.layers[keys.STD], ((COUNTS + 0.25) / 2).astype(np.float32))
    assert adata.obs[keys.TOTAL_COUNTS].tolist() == [4, 2, 0, 70_006]
    assert adata.obs[keys.N_GENES].tolist() == [2, 1, 0, 3]
    assert list(adata.obs_names) == ["a", "b", "c", "d"]
    assert list(adata.var_names) == ["A", "B", "C"]
    assert list(adata.obsm) == [keys.SPATIAL]
    np.testing.assert_array_equal(adata.obsm[keys.SPATIAL], spots.obsm[keys.SPATIAL])
    assert adata.obsm[keys.SPATIAL] is not spots.obsm[keys.SPATIAL]
    assert keys.TOTAL_COUNTS not in spots.obs


def test_features_are_kept_on_demand(spots: AnnData, panel: pd.DataFrame) -> None:
    assert set(make(spots, panel, keep_features=True).obsm) == {keys.SPATIAL, "X_enc"}


def test_plain() -> None:
    out = plain(PROVENANCE)
    assert out["path"] == "/a/b"
    assert out["geometry"] == {"tile_um": 154.0, "deep": {"scales": "[1, 4]"}}
    assert json.loads(out["scales"]) == [1, 4, 8]
    assert out["warnings"].tolist() == ["first", "zweite µ"]
    assert json.loads(out["mixed"]) == ["a", 1]
    assert out["seed"] == 3
    assert "none" not in out
    assert PROVENANCE["none"] is None


def test_round_trip(spots: AnnData, panel: pd.DataFrame, tmp_path: Path) -> None:
    adata = make(spots, panel, keep_features=True)
    write_h5ad(adata, tmp_path / "a.h5ad")
    again = ad.read_h5ad(tmp_path / "a.h5ad")
    assert (again.X != adata.X).nnz == 0
    assert isinstance(again.X, csr_matrix)
    assert again.X.dtype == np.int32
    for layer in (keys.EXPECTED, keys.STD):
        assert again.layers[layer].dtype == np.float32
        np.testing.assert_array_equal(again.layers[layer], adata.layers[layer])
    pd.testing.assert_frame_equal(again.obs, adata.obs, check_index_type=False, check_column_type=False)
    pd.testing.assert_frame_equal(again.var, adata.var, check_index_type=False, check_column_type=False)
    for key in (keys.SPATIAL, "X_enc"):
        np.testing.assert_array_equal(again.obsm[key], adata.obsm[key])
    before, after = (a.uns[keys.SPATIAL]["s"] for a in (adata, again))
    np.testing.assert_array_equal(after[keys.IMAGES][keys.HIRES], before[keys.IMAGES][keys.HIRES])
    assert after[keys.IMAGES][keys.HIRES].dtype == np.uint8
    assert after[keys.SCALEFACTORS] == before[keys.SCALEFACTORS]
    made = again.uns[keys.GENAR]
    assert set(made) == set(PROVENANCE) - {"none"}
    assert made["model"] == "m"
    assert made["warnings"].tolist() == ["first", "zweite µ"]
    assert len(made["no_warnings"]) == 0
    assert made["geometry"]["deep"]["scales"] == "[1, 4]"


def test_older_releases_can_read_the_strings(spots: AnnData, panel: pd.DataFrame, tmp_path: Path) -> None:
    spots.obs["text"] = ["p", "q", "r", "s"]
    write_h5ad(make(spots, panel), tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad") as file:
        kinds = {name: file[name].attrs["encoding-type"] for name in ("obs/_index", "obs/text", "var/_index")}
        assert file["X/data"].compression == "gzip"
        assert file["uns/spatial/s/images/hires"].compression == "gzip"
    assert set(kinds.values()) <= {"string-array", "categorical"}
