"""Spots on a scanned slide: what every reader of the table may count on."""

import re
import shutil

import anndata as ad
import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.sparse import issparse
from scipy.spatial import cKDTree

from genar import pp
from genar.encoders.registry import create
from genar.errors import ConfigError, DataError
from genar.slide.tiles import open_tiles

LATTICES = {"visium": (None, 55.0, 100.0), "st": (None, 100.0, 200.0), "grid": (80.0, 80.0, 80.0)}
MPP = 0.499


@pytest.fixture(scope="session")
def scanned(shared):
    path = shared / "data/wsi/CMU-1-Small-Region.svs"
    return {kind: pp.spots(path, kind, pitch_um=pitch) for kind, (pitch, _, _) in LATTICES.items()}


@pytest.fixture(params=LATTICES)
def kind(request):
    return request.param


def test_keys_and_kinds_of_columns(scanned, kind):
    spots = scanned[kind]
    dtypes = {column: str(dtype) for column, dtype in spots.obs.dtypes.items()}
    assert dtypes == {
        "in_tissue": "int64",
        "array_row": "int64",
        "array_col": "int64",
        "tissue_fraction": "float32",
        "blur_um": "float32",
        "in_focus": "bool",
        "library_id": "category",
    }
    assert set(spots.obsm) == set(spots.uns) == {"spatial"}
    assert spots.obsm["spatial"].dtype == np.float64
    assert spots.obsm["spatial"].shape == (spots.n_obs, 2)
    assert issparse(spots.X)
    assert spots.X.dtype == np.int32
    assert spots.obs_names.is_unique


def test_geometry_is_that_of_the_lattice(scanned, kind):
    _, spot_um, pitch_um = LATTICES[kind]
    spots = scanned[kind]
    library = spots.uns["spatial"]["CMU-1-Small-Region"]
    factors = library["scalefactors"]
    assert set(factors) == {
        "tissue_hires_scalef",
        "tissue_lowres_scalef",
        "spot_diameter_fullres",
        "fiducial_diameter_fullres",
    }
    assert factors["spot_diameter_fullres"] == pytest.approx(spot_um / MPP)
    assert factors["fiducial_diameter_fullres"] > factors["spot_diameter_fullres"]
    for name, longest in (("hires", 2000), ("lowres", 600)):
        assert library["images"][name].shape == (longest, round(2220 * longest / 2967), 3)
        assert factors[f"tissue_{name}_scalef"] == pytest.approx(longest / 2967)
    assert library["metadata"]["pitch_um"] == pitch_um
    nearest = cKDTree(spots.obsm["spatial"]).query(spots.obsm["spatial"], k=2)[0][:, 1]
    assert nearest.min() * MPP == pytest.approx(pitch_um)
    assert (spots.obsm["spatial"] >= 0).all()
    assert (spots.obsm["spatial"] <= [2220, 2967]).all()


def test_spots_are_the_same_every_time(shared, scanned, kind):
    again = pp.spots(shared / "data/wsi/CMU-1-Small-Region.svs", kind, pitch_um=LATTICES[kind][0])
    assert again.obs.equals(scanned[kind].obs)
    np.testing.assert_array_equal(again.obsm["spatial"], scanned[kind].obsm["spatial"])


def test_spots_survive_a_file(scanned, kind, tmp_path):
    spots = scanned[kind]
    spots.write_h5ad(tmp_path / "a.h5ad")
    back = ad.read_h5ad(tmp_path / "a.h5ad")
    assert back.shape == spots.shape
    assert back.obs["library_id"].tolist() == spots.obs["library_id"].tolist()
    np.testing.assert_array_equal(back.obs["tissue_fraction"], spots.obs["tissue_fraction"])
    np.testing.assert_array_equal(back.obsm["spatial"], spots.obsm["spatial"])
    library, want = (a.uns["spatial"]["CMU-1-Small-Region"] for a in (back, spots))
    assert library["scalefactors"] == want["scalefactors"]
    assert library["metadata"] == want["metadata"]
    for name in ("hires", "lowres"):
        np.testing.assert_array_equal(library["images"][name], want["images"][name])


@pytest.mark.parametrize(
    "stem", ["Gewebe ä 组织", "组织", "__hidden", "____", "a b (1) [2]", "a:b*c", ".x.y"]
)  # fmt: skip
def test_any_file_name_makes_a_library_that_can_be_written(tmp_path, tissue_image, stem):
    path = tmp_path / f"{stem}.png"
    Image.fromarray(tissue_image(300, 120)).save(path)
    spots = pp.spots(path, "st", mpp=4.0)
    (library,) = spots.uns["spatial"]
    assert re.fullmatch(r"(?!__)[A-Za-z0-9_.-]+", library)
    assert set(spots.obs["library_id"]) == {library}
    assert spots.uns["spatial"][library]["metadata"]["slide_name"] == path.name
    spots.write_h5ad(tmp_path / "out.h5ad")
    back = ad.read_h5ad(tmp_path / "out.h5ad")
    assert list(back.uns["spatial"]) == [library]


def test_a_scanned_slide_may_have_any_name(shared, scanned, tmp_path):
    path = tmp_path / "__Schnitt é 1.svs"
    shutil.copyfile(shared / "data/wsi/CMU-1-Small-Region.svs", path)
    spots = pp.spots(path)
    (library,) = spots.uns["spatial"]
    assert re.fullmatch(r"(?!__)[A-Za-z0-9_.-]+", library)
    np.testing.assert_array_equal(spots.obsm["spatial"], scanned["visium"].obsm["spatial"])


@pytest.fixture
def few(scanned):
    return scanned["st"][:4].copy()


def test_embedding_with_and_without_a_cache_agree(few, tmp_path):
    pp.embed(few)
    plain = few.obsm.pop("X_efficientnet_lite0")
    pp.embed(few, cache=tmp_path, views=1)
    kept = few.obsm["X_efficientnet_lite0"]
    np.testing.assert_array_equal(kept, plain)
    assert kept.dtype == np.float32
    (entry,) = tmp_path.glob("*.h5")
    before = entry.stat().st_mtime_ns
    pp.embed(few, cache=tmp_path, views=1)
    assert entry.stat().st_mtime_ns == before
    few.write_h5ad(tmp_path / "few.h5ad")
    np.testing.assert_array_equal(ad.read_h5ad(tmp_path / "few.h5ad").obsm["X_efficientnet_lite0"], plain)
    known = few.uns["spatial"]["CMU-1-Small-Region"]["metadata"]
    assert known["tile_um"] == 154.0
    fingerprint = create("efficientnet_lite0").fingerprint()
    np.testing.assert_allclose(known["encoder_fingerprint_efficientnet_lite0"], fingerprint, rtol=1e-5)


def test_views_are_kept_in_a_cache_alone(few):
    with pytest.raises(ConfigError, match="views"):
        pp.embed(few, views=2)


@pytest.mark.parametrize("cached", [False, True])
def test_embedding_patches_where_there_is_no_slide(few, tmp_path, read_all, cached):
    """Patches cut by HEST's measure give the features of the slide's own tiles."""
    metadata = few.uns["spatial"]["CMU-1-Small-Region"]["metadata"]
    pp.embed(few, tile_um=112.0)
    wanted = few.obsm.pop("X_efficientnet_lite0")
    with open_tiles(few, 112.0, 224) as tiles, h5py.File(tmp_path / "patches.h5", "w") as file:
        file["img"] = read_all(tiles).permute(0, 2, 3, 1).numpy()[::-1]
        file["barcode"] = few.obs_names[::-1].to_numpy().astype("S")
    metadata["patches_path"] = str(tmp_path / "patches.h5")
    del metadata["source_image_path"]
    options = {"cache": tmp_path / "cache"} if cached else {}
    pp.embed(few, tile_um=112.0, **options)
    np.testing.assert_allclose(few.obsm["X_efficientnet_lite0"], wanted, atol=1e-4)
    with pytest.raises(DataError, match="set tile_um to 112"):
        pp.embed(few, tile_um=154.0, **options)
