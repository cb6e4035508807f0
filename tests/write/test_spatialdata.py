import sys
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData

import genar
from genar import keys
from genar.errors import ConfigError, DataError, OutputError

sd = pytest.importorskip("spatialdata")
pytestmark = [
    pytest.mark.filterwarnings("ignore:zarr v3 autosharding"),
    pytest.mark.filterwarnings("ignore:Call to deprecated class Scaler"),
]


def in_level0(element, xy, system: str = "global") -> np.ndarray:
    """Bring points of an element into level-0 pixels, as the store says."""
    affine = sd.transformations.get_transformation(element, to_coordinate_system=system).to_affine_matrix(
        ("x", "y"), ("x", "y")
    )
    return np.column_stack([xy, np.ones(len(xy))]) @ affine[:2].T


def test_a_store(result: AnnData, tmp_path: Path) -> None:
    (path,) = genar.export(result, "spatialdata", tmp_path, genes=["MUC1", "ERBB2"])
    assert path == tmp_path / "one.spatialdata.zarr"
    assert list(tmp_path.iterdir()) == [path]
    store = sd.read_zarr(path)
    table, circles = store["table"], store["one"]
    assert (table.X != result[:, ["MUC1", "ERBB2"]].X).nnz == 0
    assert table.X.dtype == np.int32
    np.testing.assert_array_equal(table.layers[keys.EXPECTED], result[:, ["MUC1", "ERBB2"]].layers[keys.EXPECTED])
    assert table.uns["spatialdata_attrs"] == {"region": "one", "region_key": "region", "instance_key": "spot_id"}
    matched = circles.loc[table.obs["spot_id"]]
    xy = np.column_stack([matched.geometry.x, matched.geometry.y])
    np.testing.assert_array_equal(in_level0(circles, xy), result.obsm[keys.SPATIAL])
    assert set(matched["radius"]) == {10.0}
    image = store["one_hires_image"]["scale0"].image
    assert list(image.c.values) == ["r", "g", "b"]
    y, x = np.nonzero((image.values == 0).all(axis=0))  # centres are dark
    dark = in_level0(store["one_hires_image"], np.column_stack([x, y]) + 0.5)
    nearest = np.abs(dark[:, None] - result.obsm[keys.SPATIAL]).max(axis=2).min(axis=1)
    assert nearest.max() <= 4  # the dark squares are 4 px of the image wide, 8 of the slide
    part = sd.bounding_box_query(store, ("x", "y"), [0, 0], [100, 50], "global")
    assert list(part["table"].obs_names) == ["0x0", "0x1"]
    again = genar.read.spatialdata(path, mpp=0.5)
    np.testing.assert_allclose(again.obsm[keys.SPATIAL] * 2, result.obsm[keys.SPATIAL])  # in pixels of its image
    with pytest.raises(OutputError, match="it exists; add --overwrite"):
        genar.export(result, "spatialdata", tmp_path)
    genar.export(result, "spatialdata", tmp_path, overwrite=True)
    assert sd.read_zarr(path)["table"].shape == (6, 3)


def test_a_cohort(cohort: AnnData, tmp_path: Path) -> None:
    (path,) = genar.export(cohort, "spatialdata", tmp_path / "a.zarr")
    store = sd.read_zarr(path)
    assert sorted(store.images) == ["one_hires_image", "two_hires_image"]
    assert sorted(store.coordinate_systems) == ["one", "two"]
    assert store["table"].obs["region"].tolist() == ["one"] * 6 + ["two"] * 6
    assert store["two"].index.tolist() == store["table"].obs["spot_id"].tolist()[6:]


def test_the_image_of_the_slide(result: AnnData, make_slide, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("genar.write.spatialdata.BLOCK", 32)
    pixels = np.kron(np.random.default_rng(0).integers(0, 255, (13, 25, 3)), np.ones((8, 8, 1)))[:100].astype(np.uint8)
    slide = make_slide(pixels, mpp=0.5)
    (path,) = genar.export(result, "spatialdata", tmp_path / "b.zarr", slide=slide)
    store = sd.read_zarr(path)
    image = store["one_full_image"]["scale0"].image
    assert image.shape == (3, 50, 100)
    middles = image.values[:, 2::4, 2::4].astype(int)
    np.testing.assert_allclose(
        middles, pixels[4::8, 4::8].transpose(2, 0, 1), atol=8
    )  # of squares, less what resampling adds
    assert in_level0(store["one_full_image"], np.array([[100, 50]]))[0] == pytest.approx([200, 100], rel=0.01)


def test_names_that_a_store_cannot_hold_and_columns_of_its_own(result: AnnData, make_slide, tmp_path: Path) -> None:
    (path,) = genar.export(result, "spatialdata", tmp_path)
    slide = make_slide(np.full((100, 200, 3), 200, np.uint8))
    (path,) = genar.export(sd.read_zarr(path)["table"], "spatialdata", tmp_path / "again.zarr", slide=slide)
    assert sd.read_zarr(path)["table"].obs["region"].tolist() == ["one"] * 6
    for column, said in (("Ground truth", "cannot hold it .*obs/Ground truth"), ("region", "a column of its own")):
        odd = result.copy()
        odd.obs[column] = "tumour"
        with pytest.raises(DataError, match=said):
            genar.export(odd, "spatialdata", tmp_path / "odd.zarr")
    assert not (tmp_path / "odd.zarr").exists()


def test_what_is_not_touched(result: AnnData, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.zarr/images").mkdir(parents=True)
    with pytest.raises(OutputError, match="genar did not write it"):
        genar.export(result, "spatialdata", tmp_path / "a.zarr", overwrite=True)
    result.uns[keys.SPATIAL]["one"][keys.METADATA][keys.SOURCE_IMAGE] = str(tmp_path / "slide.svs")
    with pytest.raises(OutputError, match=r"LazySlide keeps .* call it slide.spatialdata.zarr"):
        genar.export(result, "spatialdata", tmp_path / "a.zarr/../slide.zarr")
    monkeypatch.setattr("genar.jobs.export.write_spatialdata", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        genar.export(result, "spatialdata", tmp_path / "new/b.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
    monkeypatch.setitem(sys.modules, "spatialdata", None)
    with pytest.raises(ConfigError, match=r"genar\[spatialdata\]"):
        genar.export(result, "spatialdata", tmp_path)
