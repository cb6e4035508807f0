import anndata as ad
import numpy as np
import pytest
from PIL import Image
from scipy.sparse import issparse

from genar import pp
from genar.errors import ConfigError, SlideError
from genar.slide.lattice import lattice
from genar.slide.open import open_slide


@pytest.fixture
def slide(make_slide, tissue_image):
    """800 px at 2 µm: a disc of tissue, 500 µm in radius, in the middle of a field of 1.6 mm."""
    return make_slide(tissue_image(800, 250), mpp=2.0, name="a b#1.tif")


@pytest.fixture
def spots(slide):
    return pp.spots(slide)


def test_spots_lie_on_the_tissue(spots):
    radius = np.linalg.norm(spots.obsm["spatial"] - 400, axis=1) * 2.0
    area = np.pi * 500**2
    assert spots.n_obs == pytest.approx(area / (100**2 * np.sqrt(3) / 2), rel=0.15)
    assert radius.max() < 500 + 30  # half of a tile must show tissue
    inner = spots.obs["tissue_fraction"].to_numpy()[radius < 380]
    assert len(inner) > 40
    assert (inner > 0.99).all()
    assert (spots.obs["tissue_fraction"] >= 0.5).all()


def test_the_table_has_the_agreed_shape(spots):
    assert spots.n_vars == 0
    assert issparse(spots.X)
    assert spots.X.dtype == np.int32
    assert spots.obsm["spatial"].dtype == np.float64
    assert spots.obs["tissue_fraction"].dtype == np.float32
    assert (spots.obs["in_tissue"] == 1).all()
    assert ((spots.obs["array_row"] + spots.obs["array_col"]) % 2 == 0).all()
    first = spots.obs.iloc[0]
    assert spots.obs_names[0] == f"{first['array_row']}x{first['array_col']}"
    assert spots.obs_names.is_unique
    assert spots.obs["library_id"].cat.categories.tolist() == ["a_b_1"]


def test_image_and_geometry(spots, slide):
    library = spots.uns["spatial"]["a_b_1"]
    assert set(library) >= {"images", "scalefactors", "metadata"}
    assert {key: image.shape for key, image in library["images"].items()} == {
        "hires": (800, 800, 3),
        "lowres": (600, 600, 3),
    }
    assert all(image.dtype == np.uint8 for image in library["images"].values())
    factors = library["scalefactors"]
    assert factors == {
        "tissue_hires_scalef": 1.0,
        "tissue_lowres_scalef": 0.75,
        "spot_diameter_fullres": 27.5,
        "fiducial_diameter_fullres": pytest.approx(27.5 * 105 / 65),
    }
    metadata = library["metadata"]
    assert metadata["source_image_path"] == str(slide.resolve())
    wanted = {"mpp": 2.0, "slide_width": 800, "slide_height": 800, "lattice": "visium", "spot_um": 55.0}
    wanted |= {"pitch_um": 100.0, "tile_um": 154.0, "mpp_source": "TIFF resolution tags"}
    assert {key: metadata[key] for key in wanted} == wanted


def same(a, b):
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


def test_it_survives_a_file(spots, tmp_path):
    spots.write_h5ad(tmp_path / "s.h5ad")
    back = ad.read_h5ad(tmp_path / "s.h5ad")
    assert back.shape == spots.shape
    assert back.X.dtype == np.int32
    assert back.obs.index.tolist() == spots.obs.index.tolist()
    assert back.obs.dtypes.to_dict() == spots.obs.dtypes.to_dict()
    assert all(back.obs[column].tolist() == spots.obs[column].tolist() for column in spots.obs)
    assert same(dict(spots.uns), dict(back.uns))
    np.testing.assert_array_equal(back.obsm["spatial"], spots.obsm["spatial"])


def test_a_slide_and_its_file_give_the_same(slide, spots):
    with open_slide(slide) as opened:
        again = pp.spots(opened, lattice("visium"))
        np.testing.assert_array_equal(again.obsm["spatial"], spots.obsm["spatial"])
        assert pp.spots(opened, "grid", pitch_um=50).n_obs > 2 * spots.n_obs


def test_the_resolution_given_by_the_user_sets_the_scale(slide):
    assert pp.spots(slide, mpp=4.0).n_obs > 3 * pp.spots(slide, mpp=2.0).n_obs


def test_a_slide_smaller_than_a_tile(make_slide, tissue_image):
    path = make_slide(tissue_image(300, 600), mpp=0.5)  # 150 µm, all tissue
    small = pp.spots(path, "st", tile_um=154)
    assert small.n_obs == 1
    assert small.obs["tissue_fraction"].iloc[0] == pytest.approx((150 / 154) ** 2, abs=0.02)
    with pytest.raises(SlideError, match="no spot lies on enough of its tissue"):
        pp.spots(path, "st", tile_um=1000)


def test_a_slide_without_tissue(make_slide):
    glass = np.full((600, 600, 3), 240, dtype=np.uint8)
    with pytest.raises(SlideError, match="no tissue found"):
        pp.spots(make_slide(glass, mpp=2.0))


@pytest.mark.parametrize(
    "options",
    [{"tile_um": 0}, {"tile_um": float("nan")}, {"min_tissue": 1.5}, {"min_tissue": -0.1}, {"pitch_um": 50}]
    + [{"lattice": "grid"}, {"lattice": "hexagons"}],
)
def test_options_out_of_range(slide, options):
    with pytest.raises(ConfigError):
        pp.spots(slide, **options)


def test_a_scanned_slide(shared):
    spots = pp.spots(shared / "data/wsi/CMU-1-Small-Region.svs")
    assert 40 < spots.n_obs < 90
    assert spots.obs["library_id"].cat.categories.tolist() == ["CMU-1-Small-Region"]


def test_focus_is_judged(spots):
    assert spots.obs["in_focus"].dtype == bool
    assert spots.obs["blur_um"].dtype == np.float32
    assert spots.uns["spatial"]["a_b_1"]["metadata"]["tissue_source"] == "auto"


def test_everywhere(make_slide):
    glass = make_slide(np.full((600, 800, 3), 240, dtype=np.uint8), mpp=2.0)
    everywhere = pp.spots(glass, "grid", pitch_um=100, tissue="none")
    assert everywhere.n_obs == 13 * 17
    assert (everywhere.obs["tissue_fraction"] == 1).all()
    assert everywhere.obs["in_focus"].all()
    (section,) = everywhere.uns["spatial"].values()
    assert "tissue_mask" not in section
    assert section["metadata"]["tissue_source"] == "none"


def test_tissue_from_a_mask(slide, tmp_path):
    right = np.zeros((100, 100), dtype=np.uint8)
    right[:, 50:] = 255
    Image.fromarray(right).save(tmp_path / "right.png")
    laid = pp.spots(slide, tissue=tmp_path / "right.png")
    assert laid.obsm["spatial"][:, 0].min() >= 400 - 1e-6
    (section,) = laid.uns["spatial"].values()
    assert section["metadata"]["tissue_source"] == str(tmp_path / "right.png")
    assert section["tissue_mask"].mean() == pytest.approx(0.5, abs=0.01)
    small = np.zeros((100, 100), dtype=np.uint8)
    small[:3, :3] = 1
    Image.fromarray(small).save(tmp_path / "small.png")
    with pytest.raises(SlideError, match=r"no spot lies on enough of its tissue .*, by small\.png"):
        pp.spots(slide, tissue=tmp_path / "small.png")
