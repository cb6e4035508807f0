from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData

import genar
from genar import keys
from genar.errors import ConfigError, DataError


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_a_table_holds_what_the_anndata_does(
    cohort: AnnData, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genar.write.table.CELLS", 60)  # several parts
    (path,) = genar.export(cohort, to, tmp_path)  # type: ignore[arg-type]
    assert path == tmp_path / f"cohort.{to}"
    found = pd.read_csv(path, index_col="barcode") if to == "csv" else pd.read_parquet(path)
    assert list(found.index) == list(cohort.obs_names)
    np.testing.assert_array_equal(found[["x_px", "y_px"]], cohort.obsm[keys.SPATIAL])
    np.testing.assert_array_equal(found[["x_um", "y_um"]], cohort.obsm[keys.SPATIAL] * 0.5)
    obs = found[list(cohort.obs)]
    pd.testing.assert_frame_equal(obs, cohort.obs, check_names=False, check_dtype=to == "parquet",
                                  check_categorical=False, check_index_type=False)  # fmt: skip
    np.testing.assert_array_equal(found[list(cohort.var_names)], cohort.X.toarray())
    if to == "parquet":
        assert set(found.dtypes[list(cohort.var_names)]) == {np.dtype(np.int32)}
        assert isinstance(found[keys.LIBRARY_ID].dtype, pd.CategoricalDtype)


def test_genes_and_layers(result: AnnData, tmp_path: Path) -> None:
    (path,) = genar.export(result, "csv", tmp_path / "a.csv", genes=["MUC1", "ERBB2", "MUC1"], layer=keys.EXPECTED)
    found = pd.read_csv(path)
    assert list(found.columns[-2:]) == ["MUC1", "ERBB2"]
    np.testing.assert_array_equal(found[["MUC1", "ERBB2"]], result[:, ["MUC1", "ERBB2"]].layers[keys.EXPECTED])
    (path,) = genar.export(result, "csv", tmp_path / "b.csv", top=1)
    assert list(pd.read_csv(path).columns[-2:]) == [keys.OOD, "ERBB2"]  # of 2 on average, whose logarithm varies most
    result.var[keys.RELIABLE] = [False, False, True]
    (path,) = genar.export(result, "csv", tmp_path / "c.csv", top=2)
    assert list(pd.read_csv(path).columns[-2:]) == ["MUC1", "ERBB2"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"genes": ["ERBB3"]}, DataError, "ERBB3: this gene is not in the result; try ERBB2"),
        ({"layer": "mean"}, ConfigError, "there is no layer 'mean'; give one of: counts, expected"),
        ({"classify": "ood"}, ConfigError, "--classify: it does not go with --to csv"),
        ({"top": 0}, ConfigError, "--top: 0 is too few"),
        ({"top": 2, "genes": ["MUC1"]}, ConfigError, "give one of the two"),
    ],
)
def test_what_cannot_be(result: AnnData, tmp_path: Path, options: dict, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        genar.export(result, "csv", tmp_path / "new/a.csv", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["csv", "geojson", "spatialdata"])
def test_two_genes_of_one_name(result: AnnData, tmp_path: Path, to: str) -> None:
    result.var_names = ["ERBB2", "MUC1", "MUC1"]  # as Space Ranger's files have
    with pytest.raises(DataError, match="MUC1: two genes .* call var_names_make_unique"):
        genar.export(result, to, tmp_path)  # type: ignore[arg-type]


def test_a_column_that_begins_empty(result: AnnData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.write.table.CELLS", 30)  # several parts, the first of them empty there
    result.obs["note"] = pd.Series([None] * 3 + list("xyz"), index=result.obs_names, dtype=object)
    (path,) = genar.export(result, "parquet", tmp_path)
    assert pd.read_parquet(path)["note"].tolist() == [None] * 3 + list("xyz")
    result.obs["note"] = pd.Series([1, 2, 3, *"xyz"], index=result.obs_names, dtype=object)
    with pytest.raises(DataError, match="a column of obs is of no type that Parquet has .*column note"):
        genar.export(result, "parquet", tmp_path / "b.parquet")


def test_two_columns_of_one_name(result: AnnData, tmp_path: Path) -> None:
    result.obs["MUC1"] = 1
    with pytest.raises(DataError, match="MUC1: two columns"):
        genar.export(result, "parquet", tmp_path)


def test_genes_of_a_result_that_was_normalised_vary_by_their_counts(result: AnnData, tmp_path: Path) -> None:
    result.layers["counts"] = result.X.copy()
    result.X = result.X.multiply([0.01, 0.01, 1]).tocsr()  # now MUC1 varies most
    (path,) = genar.export(result, "csv", tmp_path, top=1)
    assert pd.read_csv(path).columns[-1] == "ERBB2"
