"""Tissue from a file."""

import json

import numpy as np
import pytest
import shapely
import shapely.geometry
from PIL import Image

from genar.errors import ConfigError, DataError
from genar.slide.open import Slide, open_slide
from genar.slide.outline import tissue_of
from genar.slide.tissue import TissueMask, tissue_mask
from genar.write.outline import pieces, write_outline

SIDE = 800  # px, at 2 µm
RING = shapely.Point(400, 400).buffer(250) - shapely.Point(400, 400).buffer(100)


@pytest.fixture
def slide(make_slide):
    with open_slide(make_slide(np.full((SIDE, SIDE, 3), 240, dtype=np.uint8), mpp=2.0, name="one.tif")) as opened:
        yield opened


def feature(geometry, name=None, **properties):
    if name:
        properties["classification"] = {"name": name, "color": [0, 0, 0]}
    return {"type": "Feature", "geometry": shapely.geometry.mapping(geometry), "properties": properties}


@pytest.fixture
def outlined(tmp_path, slide):
    def mask(found, name="o.geojson") -> TissueMask:
        path = tmp_path / name
        path.write_text(found if isinstance(found, str) else json.dumps(found), encoding="utf-8")
        return tissue_of(slide, path)

    return mask


def area(mask: TissueMask) -> float:
    return mask.mask.sum() * np.prod(mask.downsample)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: {"type": "FeatureCollection", "features": [f]},
        lambda f: [f],
        lambda f: f,
        lambda f: f["geometry"],
        lambda f: {"type": "GeometryCollection", "geometries": [f["geometry"]]},
        lambda f: {"type": "FeatureCollection", "features": [f, f, feature(shapely.Point(3, 3))]},
    ],
)
def test_every_way_to_write_a_polygon_with_a_hole(outlined, wrap):
    mask = outlined(wrap(feature(RING, "Tissue", objectType="annotation")))
    assert mask.mask.dtype == bool
    assert area(mask) == pytest.approx(RING.area, rel=0.01)
    assert mask.fraction(np.array([[400.0, 400], [400, 225], [10, 10]]), 20).tolist() == [0, 1, 0]


def test_islands_pieces_and_what_is_to_be_ignored(outlined):
    island, far = shapely.Point(400, 400).buffer(50), shapely.box(0, 0, 100, 100)
    mask = outlined([feature(shapely.MultiPolygon([RING, island])), feature(far, "Tumor"), feature(far, "Region*")])
    assert area(mask) == pytest.approx((RING | island | far).area, rel=0.01)
    dropped = outlined([feature(RING), feature(shapely.box(0, 0, 400, 800), "Ignore*")])
    assert area(dropped) == pytest.approx(RING.area / 2, rel=0.02)
    assert dropped.fraction(np.array([[225.0, 400], [575, 400]]), 20).tolist() == [0, 1]


def test_cells_beside_annotations_are_no_outlines(outlined):
    cell = feature(shapely.box(0, 0, 50, 50), "Tumor", objectType="detection")
    assert area(outlined([feature(RING, objectType="annotation"), cell])) == pytest.approx(RING.area, rel=0.01)


def test_an_outline_that_crosses_itself(outlined):
    bow = shapely.Polygon([(100, 100), (300, 300), (300, 100), (100, 300)])
    assert area(outlined(feature(bow))) == pytest.approx(200 * 200 / 2, rel=0.02)


def test_qupath_counts_from_the_scanned_area_but_trident_does_not(outlined, monkeypatch):
    monkeypatch.setattr("genar.slide.outline.origin", lambda _: (100.0, 50.0))
    square = shapely.box(200, 200, 300, 300)
    qupath = outlined(feature(square, objectType="annotation"))
    assert qupath.fraction(np.array([[350.0, 300], [250, 215]]), 40).tolist() == [1, 0]
    trident = outlined(feature(square, tissue_id=0))
    assert trident.fraction(np.array([[250.0, 250], [350, 300]]), 40).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "it holds no outlines"),
        ({"type": "FeatureCollection", "features": []}, "it holds no outlines"),
        ({"type": "FeatureCollection"}, "cannot be read"),
        ({"a": 1}, "cannot be read"),
        ("3", "cannot be read"),
        ([feature(shapely.Point(3, 3)), feature(shapely.LineString([(0, 0), (9, 9)]))], "points or lines, no polygons"),
        ({"type": "Feature", "geometry": None, "properties": None}, "no polygons"),
        (feature(shapely.Polygon()), "no polygons"),
        (feature(shapely.box(0, 0, 9000, 9000)), "reach from 0, 0 to 9000, 9000, beyond one.tif, 800 x 800 px"),
        (feature(shapely.box(900, 900, 1000, 1000)), "beyond one.tif"),
        (feature(shapely.box(5.1, 5.1, 5.2, 5.2)), "enclose less than 4 µm"),
        (feature(RING, "Ignore*"), "enclose nothing"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [0, NaN], [9, 9], [0, 0]]]}', "NaN in it is no number"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [0, 1e999], [9, 9], [0, 0]]]}', "not a number|cannot be read"),
    ],
)
def test_outlines_that_cannot_be_used(outlined, found, said):
    with pytest.raises(DataError, match=said) as e:
        outlined(found)
    assert "o.geojson" in str(e.value)


class Large(Slide):
    """A slide of 100,000 x 80,000 px, of which nothing is read."""

    dimensions = (100_000, 80_000)
    backend = None


def test_the_share_of_a_spot_is_right_on_a_large_slide(tmp_path):
    random, mpp = np.random.default_rng(0), 0.25
    blobs = [
        shapely.Point(random.uniform(5000, 75000, 2)).buffer(random.uniform(100, 900) / mpp, quad_segs=6)
        for _ in range(30)
    ]
    area = shapely.union_all(blobs) - shapely.union_all([shapely.Point(b.centroid).buffer(60 / mpp) for b in blobs])
    path = tmp_path / "large.geojson"
    path.write_text(json.dumps(feature(area)), encoding="utf-8")
    mask = tissue_of(Large(tmp_path / "large.svs", mpp, "test"), path)
    edge = np.concatenate([np.asarray(b.exterior.coords)[::2] for b in blobs])
    for side in (154 / mpp, 55 / mpp):
        squares = shapely.box(*(edge - side / 2).T, *(edge + side / 2).T)
        exact = shapely.area(shapely.intersection(squares, area)) / side**2
        assert ((exact > 0.1) & (exact < 0.9)).sum() > 200
        error = mask.fraction(edge, side) - exact
        assert np.quantile(np.abs(error), 0.95) < 0.02
        assert abs(error.mean()) < 0.002


def disc(side=200):
    y, x = np.mgrid[:side, :side] - side / 2 + 0.5
    return x**2 + y**2 < (side * 0.3) ** 2


def palette(mask):
    image = Image.fromarray((mask * 7).astype(np.uint8), mode="P")
    image.putpalette([0, 0, 0] * 7 + [200, 30, 30] + [0, 0, 0] * 248)
    return image


def layered(mask):
    return Image.fromarray(np.dstack([np.zeros_like(mask), mask, mask, mask]).astype(np.uint8) * 90)


def cornered(mask):
    opaque = np.full(mask.shape, 255, dtype=np.uint8)
    opaque[:9, :9] = 0
    return Image.fromarray(np.dstack([(mask * 255).astype(np.uint8)] * 3 + [opaque]))


MASKS = {
    "grey": lambda m: Image.fromarray(m.astype(np.uint8)),
    "bits": Image.fromarray,
    "RGB": lambda m: Image.fromarray(np.dstack([m * 0, m * 0, m * 255]).astype(np.uint8)),
    "palette": palette,
    "alpha": layered,
    "opaque but for a corner": cornered,
    "opaque": lambda m: Image.fromarray(np.dstack([m * 255] * 3 + [m * 0 + 255]).astype(np.uint8)),
    "16 bits": lambda m: Image.fromarray(m.astype(np.uint16) * 3),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("side", [200, 1000])
@pytest.mark.filterwarnings("ignore:'mode' parameter is deprecated:DeprecationWarning")
def test_a_mask_of_any_kind_and_size(tmp_path, slide, kind, side):
    MASKS[kind](disc(side)).save(tmp_path / "m.png")
    mask = tissue_of(slide, tmp_path / "m.png")
    np.testing.assert_array_equal(mask.mask, disc(side))
    assert mask.downsample == (SIDE / side, SIDE / side)


def test_masks_that_cannot_be_used(tmp_path, slide, tissue_image):
    path = tmp_path / "m.png"

    def said(image):
        image.save(path)
        with pytest.raises(DataError, match=r"m\.png: ") as e:
            tissue_of(slide, path)
        return str(e.value)

    assert "all of it is black" in said(Image.new("L", (200, 200)))
    assert "it is 200 x 190 px, of another shape than one.tif" in said(Image.new("L", (200, 190), 1))
    assert "many colours of a picture" in said(Image.fromarray(tissue_image(400, 100)))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"m\.png: it cannot be read"):
        tissue_of(slide, path)


def test_a_folder_for_a_cohort(tmp_path, slide):
    folder = tmp_path / "outlines"
    folder.mkdir()
    with pytest.raises(DataError, match=r"it holds no outline of one\.tif; put one\.geojson or one\.png there"):
        tissue_of(slide, folder)
    for name, geometry in (
        ("one_contours.geojson", shapely.box(0, 0, 100, 100)),
        ("one.tissue.geojson", shapely.box(0, 0, 200, 200)),
        ("one.geojson", shapely.box(0, 0, 300, 300)),
    ):
        (folder / name).write_text(json.dumps(feature(geometry)), encoding="utf-8")
        assert area(tissue_of(slide, folder)) == pytest.approx(geometry.area, rel=0.01)  # the last goes first
    for path in folder.iterdir():
        path.unlink()
    Image.fromarray(disc()).save(folder / "one.png")
    np.testing.assert_array_equal(tissue_of(slide, folder).mask, disc())


def test_other_sources(tmp_path, slide, make_slide, tissue_image):
    assert tissue_of(slide, "none") is None
    with open_slide(make_slide(tissue_image(), mpp=2.0, name="two.tif")) as stained:
        found = tissue_of(stained).mask
        assert found.any()
        np.testing.assert_array_equal(found, tissue_mask(stained).mask)
    with pytest.raises(ConfigError, match="'atuo' is neither auto nor none, and there is no such file"):
        tissue_of(slide, "atuo")
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"a\.txt: it is neither GeoJSON nor PNG"):
        tissue_of(slide, tmp_path / "a.txt")


def test_what_is_written_is_read_back(tmp_path, slide, monkeypatch):
    for module in ("slide", "write"):
        monkeypatch.setattr(f"genar.{module}.outline.origin", lambda _: (30.0, 20.0))
    mask = np.zeros((200, 200), dtype=bool)
    mask[:, :] = disc() & ~np.roll(disc(), 90, axis=0)
    mask[:8, :30] = True  # at the edge of the slide
    mask[90:95, 97:100] = False
    one = TissueMask(mask, (4.0, 4.0))
    path = tmp_path / "o.geojson"
    write_outline(one, slide, path)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["type"] == "FeatureCollection"
    assert len(found["features"]) == len(pieces(one)) == 2
    for f in found["features"]:
        assert f["properties"] == {
            "objectType": "annotation", "classification": {"name": "Tissue", "color": [0, 200, 83]},
        }  # fmt: skip
        assert shapely.geometry.shape(f["geometry"]).is_valid
    assert {f["id"] for f in found["features"]}.__len__() == 2
    assert min(np.asarray(f["geometry"]["coordinates"][0]).min() for f in found["features"]) == -30  # 0 of the slide
    assert sum(len(f["geometry"]["coordinates"]) for f in found["features"]) == 3  # one hole
    back = tissue_of(slide, path).resized(mask.shape)
    assert (back & mask).sum() / (back | mask).sum() > 0.97
