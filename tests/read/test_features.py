"""Features that TRIDENT, CLAM and LazySlide computed, in files written as these programs write them."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import shapely
import zarr
from anndata import AnnData
from anndata.io import write_elem

from genar import pp, read, tl
from genar.encoders.cache import features as cached
from genar.errors import DataError
from genar.slide.open import open_slide

MPP = 0.499
SIZE = (2220, 2967)
N, DIM = 12, 1024  # UNI's dimension


@pytest.fixture(scope="module")
def slide(shared):
    with open_slide(shared / "data/wsi/CMU-1-Small-Region.svs") as opened:
        yield opened


def grid(side, step=None):
    """Return the corners of twelve tiles, in no order."""
    corners = np.array([(100 + (step or side) * x, 200 + (step or side) * y) for x in range(3) for y in range(4)])
    return np.random.default_rng(1).permutation(corners)


VALUES = np.random.default_rng(0).normal(size=(N, DIM)).astype(np.float32)


def trident(path, *, values=VALUES, corners=None, side=224, **attributes):
    """Write a file of features as TRIDENT does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, data in (("features", values), ("coords", grid(side) if corners is None else corners)):
            file.create_dataset(name, data=data, chunks=True, maxshape=(None, *data.shape[1:]))
            file[name].attrs.update({"name": path.stem, "savetodir": str(path.parent)})
        known = {
            "patch_size": 224,
            "patch_size_level0": side,
            "level0_magnification": 20,
            "target_magnification": 20,
            "overlap": 0,
        }
        file["coords"].attrs.update(known | attributes)
    return path


def clam(path, *, values=VALUES, corners=None):
    """Write a file of features as CLAM does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["features"] = values
        file["coords"] = grid(256) if corners is None else corners
    return path


def clam_patches(path, **attributes):
    """Write a file of patches as CLAM does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["coords"] = grid(256)
        known = {"patch_size": 256, "patch_level": 0, "downsample": [1.0, 1.0], "level_dim": SIZE, "name": path.stem}
        file["coords"].attrs.update(known | attributes)


def lazyslide(path, tables, *, shape=SIZE[::-1]):
    """Write a store as wsidata does: of each table its name, its tiles, their side in pixels, and its values."""
    store = zarr.open_group(path, mode="w")
    specs = {}
    for name, tiles, side, values in tables:
        corners = grid(side)
        squares = shapely.box(*corners.T, *(corners + side).T)
        folder = path / "shapes" / tiles
        folder.mkdir(parents=True, exist_ok=True)
        shapes = {"tile_id": np.arange(N), "tissue_id": 0, "geometry": shapely.to_wkb(squares)}
        pd.DataFrame(shapes).iloc[::-1].to_parquet(folder / "shapes.parquet")  # rows are found by their index
        obs = pd.DataFrame(
            {"tile_id": np.arange(N), "library_id": pd.Categorical([tiles] * N)}, [str(i) for i in range(N)]
        )
        table = AnnData(values, obs=obs)
        table.uns["spatialdata_attrs"] = {"region": tiles, "region_key": "library_id", "instance_key": "tile_id"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="zarr v3 autosharding")
            write_elem(store.require_group("tables"), name, table)
        specs[tiles] = {"height": 224, "width": 224, "mpp": side / 224 * MPP, "base_downsample": side / 224}
    store.attrs.update({"slide_properties": {"shape": list(shape), "mpp": MPP}, "tile_spec": specs})
    return path


def test_a_file_of_trident(tmp_path, slide):
    path = trident(tmp_path / "20x_224px_0px_overlap" / "features_uni_v1" / "CMU-1-Small-Region.h5")
    spots = read.features(path, slide)
    np.testing.assert_array_equal(spots.obsm["X_uni"], VALUES)
    np.testing.assert_array_equal(spots.obsm["spatial"], grid(224) + 112)
    assert spots.shape == (N, 0)
    assert list(spots.obs_names) == [str(i) for i in range(N)]
    row, col = ((grid(224)[:, axis] - offset) // 224 for axis, offset in ((1, 200), (0, 100)))
    np.testing.assert_array_equal(spots.obs["array_row"], row)
    np.testing.assert_array_equal(spots.obs["array_col"], col)
    assert spots.obs["in_tissue"].eq(1).all()
    (library,) = spots.uns["spatial"]
    assert library == "CMU-1-Small-Region"
    known = spots.uns["spatial"][library]["metadata"]
    assert known["tile_um"] == pytest.approx(224 * MPP)
    assert known["pitch_um"] == pytest.approx(224 * MPP)
    assert known["lattice"] == "grid"
    assert known["features_path"] == str(path)
    assert spots.uns["spatial"][library]["images"]["hires"].shape[0] == 2000
    spots.write_h5ad(tmp_path / "s.h5ad")


def test_a_folder_of_files(tmp_path, slide):
    folder = tmp_path / "features_uni_v1"
    trident(folder / "another.h5")
    with pytest.raises(DataError, match=r"neither CMU-1-Small-Region\.h5 nor"):
        read.features(folder, slide)
    trident(folder / "CMU-1-Small-Region.h5")
    np.testing.assert_array_equal(read.features(folder, slide).obsm["X_uni"], VALUES)


@pytest.mark.parametrize(
    ("written", "given", "key"),
    [
        ("features_uni_v1", None, "X_uni"),
        ("features_uni_v1", "uni", "X_uni"),
        ("features_uni_v1", "uni_v1", "X_uni"),
        ("features_first_try", "uni", "X_uni"),
        ("features_our_own", None, "X_our_own"),
        ("results", "our_own", "X_our_own"),
    ],
)
def test_which_encoder_it_is(tmp_path, slide, written, given, key):
    spots = read.features(trident(tmp_path / written / "s.h5"), slide, encoder=given)
    assert set(spots.obsm) == {"spatial", key}


@pytest.mark.parametrize(
    ("values", "dtype"), [(VALUES[None], np.float32), (VALUES.astype(np.float16), np.float16), (VALUES[::1], None)]
)
def test_forms_of_the_values(tmp_path, slide, values, dtype):
    spots = read.features(trident(tmp_path / "features_uni" / "s.h5", values=values), slide)
    assert spots.obsm["X_uni"].dtype == np.float32
    np.testing.assert_array_equal(spots.obsm["X_uni"], VALUES if dtype is None else VALUES.astype(dtype))


def test_overlapping_tiles(tmp_path, slide):
    path = trident(tmp_path / "features_uni" / "s.h5", corners=grid(224, 112), overlap=112)
    spots = read.features(path, slide)
    known = spots.uns["spatial"]["CMU-1-Small-Region"]["metadata"]
    assert known["pitch_um"] == pytest.approx(112 * MPP)
    assert known["tile_um"] == pytest.approx(224 * MPP)
    assert spots.obs[["array_row", "array_col"]].drop_duplicates().shape[0] == N


def test_one_tile(tmp_path, slide):
    path = trident(tmp_path / "features_uni" / "s.h5", values=VALUES[:1], corners=np.array([[10, 20]]))
    assert read.features(path, slide).obsm["spatial"].tolist() == [[122, 132]]


@pytest.mark.parametrize(
    ("attributes", "side"),
    [
        ({}, 256),
        ({"patch_level": 1, "downsample": [4.0, 4.0], "patch_size": 64}, 256),
        ({"downsample": 1.5}, 384),
    ],
)
@pytest.mark.parametrize("folder", ["h5_files", "uni/h5_files"])
def test_a_file_of_clam_beside_its_patches(tmp_path, slide, attributes, side, folder):
    path = clam(tmp_path / folder / "s.h5")
    clam_patches(tmp_path / "patches" / "s.h5", **attributes)
    spots = read.features(path, slide, encoder="uni")
    np.testing.assert_array_equal(spots.obsm["spatial"], grid(256) + side / 2)
    assert spots.uns["spatial"]["CMU-1-Small-Region"]["metadata"]["tile_um"] == pytest.approx(side * MPP)


def test_a_file_of_clam_alone(tmp_path, slide):
    path = clam(tmp_path / "h5_files" / "s.h5")
    with pytest.raises(DataError, match=r"how wide its tiles are; put CLAM's patches/<slide>.h5 beside .*tile_um=154"):
        read.features(path, slide, encoder="uni", wanted_um=256 * MPP)
    spots = read.features(path, slide, encoder="uni", tile_um=256 * MPP)
    np.testing.assert_allclose(spots.obsm["spatial"], grid(256) + 128)


def test_trident_on_coordinates_of_clam(tmp_path, slide):
    path = clam(tmp_path / "features_uni_v1" / "s.h5")
    with h5py.File(path, "a") as file:
        file["coords"].attrs.update({"patch_size": 256, "patch_level": 0})
    np.testing.assert_array_equal(read.features(path, slide).obsm["spatial"], grid(256) + 128)


def test_a_store_of_lazyslide(tmp_path, slide):
    path = lazyslide(tmp_path / "s.zarr", [("uni_tiles", "tiles", 224, VALUES)])
    spots = read.features(path, slide)
    np.testing.assert_array_equal(spots.obsm["X_uni"], VALUES)
    np.testing.assert_array_equal(np.sort(spots.obsm["spatial"], axis=0), np.sort(grid(224) + 112.0, axis=0))
    np.testing.assert_array_equal(spots.obsm["spatial"], grid(224) + 112)
    assert spots.uns["spatial"]["CMU-1-Small-Region"]["metadata"]["tile_um"] == pytest.approx(224 * MPP)


def test_several_tables_of_lazyslide(tmp_path, slide):
    small, wide, other = VALUES, VALUES + 1, VALUES[:, :384]
    tables = [("uni_tiles", "tiles", 224, small), ("uni_wide", "wide", 448, wide), ("mine_tiles", "tiles", 224, other)]
    path = lazyslide(tmp_path / "s.zarr", tables)
    for um, values in ((112, small), (224, wide)):
        spots = read.features(path, slide, encoder="uni_v1", wanted_um=um)
        np.testing.assert_array_equal(spots.obsm["X_uni"], values)
    np.testing.assert_array_equal(read.features(path, slide, encoder="mine").obsm["X_mine"], other)
    for given, why in (
        ({}, "several of its tables fit: mine_tiles, uni_tiles, uni_wide; say the encoder"),
        ({"encoder": "uni"}, "several of its tables fit: uni_tiles, uni_wide; say the side"),
        ({"encoder": "conch"}, r"no table with conch features \(its tables: mine_tiles, uni_tiles, uni_wide\)"),
    ):
        with pytest.raises(DataError, match=why):
            read.features(path, slide, **given)


def broken_store(path, damage):
    lazyslide(path, [("uni_tiles", "tiles", 224, VALUES)])
    if damage == "tile":
        file = path / "shapes/tiles/shapes.parquet"
        pd.read_parquet(file).iloc[:-2].to_parquet(file)
    elif damage == "shapes":
        (path / "shapes/tiles/shapes.parquet").write_bytes(b"PAR1")
    elif damage == "table":
        del zarr.open_group(path, mode="a")["tables"]
    elif damage == "slide":
        lazyslide(path, [("uni_tiles", "tiles", 224, VALUES)], shape=(3000, 2220))
    return path


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("tile", "2 rows of its table uni_tiles have no tile in shapes/tiles"),
        ("shapes", "cannot be read as a store of wsidata"),
        ("table", r"no table of tiles \(its tables: none\)"),
        ("slide", "of a slide of 2220 x 3000 px, CMU-1-Small-Region.svs has 2220 x 2967 px"),
    ],
)
def test_stores_that_cannot_be_used(tmp_path, slide, damage, why):
    with pytest.raises(DataError, match=why) as caught:
        read.features(broken_store(tmp_path / "s.zarr", damage), slide)
    assert caught.value.what == str(tmp_path / "s.zarr")


NAN = np.where(np.arange(N)[:, None] == 3, np.nan, VALUES).astype(np.float32)


@pytest.mark.parametrize(
    ("written", "given", "why"),
    [
        ({"values": VALUES[:, :768]}, {}, "its features have 768 values, uni's have 1024"),
        ({"values": NAN}, {}, "the features of 1 of 12 tiles are not finite, tile 3 for one"),
        ({"values": VALUES[:9]}, {}, "features of 9 tiles and places of 12"),
        ({"values": VALUES[:0], "corners": np.zeros((0, 2))}, {}, "it has no tiles"),
        ({"values": VALUES[0]}, {}, r"its features are \(1024,\) and its coords \(12, 2\)"),
        ({"corners": grid(224)[:, 0]}, {}, r"its coords \(12,\)"),
        ({"corners": grid(224) * 4}, {}, "of its 12 tiles lie outside CMU-1-Small-Region.svs, 2220 x 2967 px"),
        ({"corners": grid(224) - 1000}, {}, "12 of its 12 tiles lie outside"),
        ({"corners": grid(224) // 4}, {}, "lie 56 px apart where 224 px are said, as on a coarser level"),
        ({"level0_width": 46000, "level0_height": 32914}, {}, "a slide of 46000 x 32914 px"),
        ({}, {"encoder": "conch"}, "its features are those of uni, not of conch"),
        ({}, {"wanted_um": 128.0}, r"its tiles are 111.8 µm wide \(224 px of 0.499 µm\), the model takes 128 µm"),
        ({}, {"tile_um": 128.0}, "its tiles are 224 px, 111.8 µm wide, not 128 µm"),
    ],
)
def test_files_that_do_not_fit(tmp_path, slide, written, given, why):
    path = trident(tmp_path / "features_uni_v1" / "s.h5", **written)
    with pytest.raises(DataError, match=why) as caught:
        read.features(path, slide, **given)
    assert caught.value.what == str(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path, slide):
    (tmp_path / "empty.h5").write_bytes(b"")
    (tmp_path / "text.h5").write_text("features")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["img"] = np.zeros(3)
    for name in ("empty.h5", "text.h5", "other.h5"):
        with pytest.raises(DataError, match="cannot be read as HDF5 with features and coords"):
            read.features(tmp_path / name, slide)
    with pytest.raises(DataError, match="there is no such file"):
        read.features(tmp_path / "none.h5", slide)
    with pytest.raises(DataError, match="does not tell which encoder"):
        read.features(trident(tmp_path / "results" / "s.h5"), slide)


def test_a_tile_of_nearly_the_right_size_will_do(tmp_path, slide):
    path = trident(tmp_path / "features_uni_v1" / "s.h5")
    assert read.features(path, slide, wanted_um=112.0).n_obs == N


def test_what_genar_encoded_predicts_the_same_from_its_file(tmp_path, slide):
    """The way round: spots, features in a file of TRIDENT's form, spots again."""
    spots = pp.spots(slide, "visium")[:6].copy()
    kept = cached(spots, slide, encoder="efficientnet_lite0", tile_um=154.0, cache=tmp_path)
    pp.embed(spots, slide, cache=tmp_path)
    again = read.features(kept.path, slide, wanted_um=154.0)
    np.testing.assert_array_equal(again.obsm["X_efficientnet_lite0"], spots.obsm["X_efficientnet_lite0"])
    assert np.abs(again.obsm["spatial"] - spots.obsm["spatial"]).max() <= 0.5  # corners are whole pixels
    known, wanted = (s.uns["spatial"]["CMU-1-Small-Region"]["metadata"] for s in (again, spots))
    assert known["tile_um"] == pytest.approx(wanted["tile_um"], rel=1e-9)
    key = "encoder_fingerprint_efficientnet_lite0"
    np.testing.assert_array_equal(known[key], wanted[key])
    theirs, ours = (tl.predict(s, "her2st-mini") for s in (again, spots))
    np.testing.assert_allclose(theirs.layers["expected"], ours.layers["expected"], rtol=0.02, atol=0.05)
