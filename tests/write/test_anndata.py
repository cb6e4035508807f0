import json
import subprocess
import sys
from pathlib import Path

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import DataError
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
    "files": (Path("c"), "d"),
    7: {8: "integer keys"},
    "runs": [{"seed": np.int64(1), "file": Path("e"), "parts": np.arange(2)}],
}

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from anndata import AnnData
from genar.errors import OutputError
from genar.write.anndata import write_h5ad
from genar.write.atomic import atomic
adata = AnnData(np.random.default_rng(0).random((400, 200)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with atomic(Path(sys.argv[1]) / "a.h5ad", overwrite=False) as (path,):
        write_h5ad(adata, path)
except OutputError as e:
    print(e)
"""


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
        spots,
        panel=panel,
        counts=COUNTS,
        layers={keys.EXPECTED: expected, keys.STD: expected / 2},
        provenance=PROVENANCE,
        **options,
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
    adata.uns[keys.SPATIAL]["s"][keys.METADATA]["note"] = "of the result alone"
    assert spots.uns[keys.SPATIAL]["s"][keys.METADATA] == {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"counts": COUNTS[:3]}, r"counts: their shape is \(3, 3\), 4 spots by 3 genes are needed"),
        ({"layers": {"expected": COUNTS[:, :2] + 0.5}}, r"expected: their shape is \(4, 2\)"),
        ({"layers": {"std": COUNTS[0] + 0.5}}, r"std: their shape is \(3,\)"),
        ({"counts": COUNTS + 0.5}, "counts: they are float64"),
        ({"counts": COUNTS - 1}, "counts: they run from -1 to 69999"),
        ({"counts": COUNTS * 100_000}, "counts: they run from 0 to 7000000000"),
        ({"panel": pd.DataFrame(index=["A", "B", "A"])}, "A: the gene stands twice"),
    ],
)
def test_arrays_that_do_not_fit(spots: AnnData, panel: pd.DataFrame, changed: dict[str, object], said: str) -> None:
    layers = dict.fromkeys((keys.EXPECTED, keys.STD), COUNTS + 0.25)
    given = {"panel": panel, "counts": COUNTS, "layers": layers, "provenance": {}}
    assert result(spots, **given).shape == (4, 3)
    with pytest.raises(DataError, match=said):
        result(spots, **given | changed)


@pytest.mark.parametrize("name", ["a/b", "__a", "a b", "größe", ""])
def test_a_section_whose_name_cannot_be_a_key(spots: AnnData, panel: pd.DataFrame, name: str) -> None:
    spots.obs[keys.LIBRARY_ID] = pd.Categorical([name] * 4)
    spots.uns[keys.SPATIAL] = {name: spots.uns[keys.SPATIAL]["s"]}
    with pytest.raises(DataError, match="a section's name may hold only"):
        make(spots, panel)


@pytest.mark.parametrize("name", ["a_b", "-.a", "A__9"])
def test_a_section_whose_name_can(spots: AnnData, panel: pd.DataFrame, name: str) -> None:
    spots.obs[keys.LIBRARY_ID] = pd.Categorical([name] * 4)
    with pytest.raises(DataError, match="holds no image of this section"):
        make(spots, panel)
    spots.uns[keys.SPATIAL] = {name: spots.uns[keys.SPATIAL]["s"]}
    assert list(make(spots, panel).uns[keys.SPATIAL]) == [name]


def test_gene_ids_are_empty_where_the_panel_has_none(spots: AnnData, panel: pd.DataFrame, tmp_path: Path) -> None:
    adata = make(spots, panel)
    assert keys.GENE_IDS not in panel
    assert adata.var[keys.GENE_IDS].tolist() == ["", "", ""]
    write_h5ad(adata, tmp_path / "a.h5ad")
    assert ad.read_h5ad(tmp_path / "a.h5ad").var[keys.GENE_IDS].tolist() == ["", "", ""]
    known = make(spots, panel.assign(**{keys.GENE_IDS: ["ENSG1", "", "ENSG3"]}))
    assert known.var[keys.GENE_IDS].tolist() == ["ENSG1", "", "ENSG3"]


def test_features_are_kept_on_demand(spots: AnnData, panel: pd.DataFrame) -> None:
    assert set(make(spots, panel, keep_features=True).obsm) == {keys.SPATIAL, "X_enc"}


def test_plain() -> None:
    out = plain(PROVENANCE)
    assert out["path"] == "/a/b"
    assert out["geometry"] == {"tile_um": 154.0, "deep": {"scales": "[1, 4]"}}
    assert json.loads(out["scales"]) == [1, 4, 8]
    assert out["warnings"].tolist() == ["first", "zweite µ"]
    assert json.loads(out["mixed"]) == ["a", 1]
    assert out["files"].tolist() == ["c", "d"]
    assert json.loads(out["runs"]) == [{"seed": 1, "file": "e", "parts": [0, 1]}]
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
    assert set(made) == {str(key) for key in PROVENANCE} - {"none"}
    assert made["7"] == {"8": "integer keys"}
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


def test_the_same_result_gives_the_same_bytes(spots: AnnData, panel: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a.h5ad", "b.h5ad"):
        write_h5ad(make(spots, panel), tmp_path / name)
    assert (tmp_path / "a.h5ad").read_bytes() == (tmp_path / "b.h5ad").read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are Unix's")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """HDF5 crashes when it exits after a write that failed, hence a process of its own."""
    done = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a.h5ad: it cannot be written (File too large); free space" in done.stdout
    assert list(tmp_path.iterdir()) == []
