import json
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import shapely
from anndata import AnnData

import genar
from genar import keys
from genar.errors import ConfigError, DataError, OutputError, SlideError

geopandas = pytest.importorskip("geopandas")
BOUNDS = np.array([4, 7])


def features(path: Path) -> list[dict]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["type"] == "FeatureCollection"
    return found["features"]


def test_detections(result: AnnData, tmp_path: Path) -> None:
    (path,) = genar.export(result, "geojson", tmp_path, genes=["GNAS", "ERBB2"], classify=keys.OOD)
    assert path == tmp_path / "one.geojson"
    found = features(path)
    frame = geopandas.read_file(path)
    assert frame.geometry.is_valid.all()
    bounds = frame.bounds.to_numpy() + np.tile(BOUNDS, 2)  # what QuPath makes the ellipse from
    centres = result.obsm[keys.SPATIAL]
    np.testing.assert_allclose(bounds, np.hstack([centres - 10, centres + 10]))
    assert len({UUID(f["id"]) for f in found}) == 6
    for feature, (name, obs), row in zip(found, result.obs.iterrows(), result.X.toarray(), strict=True):
        assert feature["geometry"]["isEllipse"] is True
        properties = feature["properties"]
        assert (properties["objectType"], properties["name"]) == ("detection", name)
        measured = properties["measurements"]
        assert (measured["GNAS"], measured["ERBB2"]) == (row[1], row[0])
        assert measured[keys.TOTAL_COUNTS] == obs[keys.TOTAL_COUNTS]
        assert properties["classification"]["name"].startswith("unlike" if obs[keys.OOD] >= 99 else "like")
    assert [keys.BLUR_UM in f["properties"]["measurements"] for f in found] == [False] + [True] * 5
    again = genar.read.points(path, offset=(4, 7))
    np.testing.assert_allclose(again, centres, atol=0.01)
    assert list(again.index) == list(result.obs_names)


def test_tiles_of_a_grid_are_squares_in_the_colours_of_clusters(result: AnnData, tmp_path: Path) -> None:
    result.uns[keys.SPATIAL]["one"][keys.METADATA] |= {keys.LATTICE: "grid", keys.PITCH_UM: 10.0}
    result.obs["leiden"] = list("010101")
    result.uns["leiden_colors"] = ["#ff0000", "#0000ff"]
    (path,) = genar.export(result, "geojson", tmp_path / "a.geojson", layer=keys.EXPECTED, object="tile",
                           classify="leiden")  # fmt: skip
    found = features(path)
    assert {f["properties"]["objectType"] for f in found} == {"tile"}
    assert shapely.area(geopandas.read_file(path).geometry.to_numpy()).tolist() == [400] * 6
    assert found[1]["properties"]["classification"] == {"name": "leiden 1", "color": [0, 0, 255]}
    assert found[0]["properties"]["measurements"]["MUC1"] == result.layers[keys.EXPECTED][0, 2]


def test_a_cohort_is_a_file_a_section(cohort: AnnData, tmp_path: Path) -> None:
    paths = genar.export(cohort, "geojson", tmp_path / "out")
    assert [p.name for p in paths] == ["one.geojson", "two.geojson"]
    names = [[f["properties"]["name"] for f in features(p)] for p in paths]
    assert names == [[n for n in cohort.obs_names if n.endswith(s)] for s in ("one", "two")]
    with pytest.raises(OutputError, match="holds 2 sections, each a file; give a folder"):
        genar.export(cohort, "geojson", tmp_path / "a.geojson")
    with pytest.raises(OutputError, match="it exists; add --overwrite"):
        genar.export(cohort, "geojson", tmp_path / "out")


def test_where_qupath_counts_from_is_asked_of_the_slide(result: AnnData, make_slide, tmp_path: Path) -> None:
    known = result.uns[keys.SPATIAL]["one"][keys.METADATA]
    del known[keys.BOUNDS_X]
    with pytest.raises(DataError, match="does not say where QuPath counts .* give the slide with --slide"):
        genar.export(result, "geojson", tmp_path)
    slide = make_slide(np.full((100, 200, 3), 200, np.uint8))
    (path,) = genar.export(result, "geojson", tmp_path, slide=slide)
    assert genar.read.points(path).to_numpy()[0] == pytest.approx([30, 25], abs=0.01)
    with pytest.raises(SlideError, match="it has 80 x 40 px, the slide of one has 200 x 100 px"):
        genar.export(result, "geojson", slide=make_slide(np.full((40, 80, 3), 200, np.uint8), name="b.tif"))


def test_predicted_spots_say_where_qupath_counts_from(make_slide, tissue_image, monkeypatch) -> None:
    monkeypatch.setattr("genar.slide.section.origin", lambda _: (11.0, 12.0))
    spots = genar.pp.spots(make_slide(tissue_image(), mpp=2.0), "st")
    known = next(iter(spots.uns[keys.SPATIAL].values()))[keys.METADATA]
    assert (known[keys.BOUNDS_X], known[keys.BOUNDS_Y]) == (11, 12)


def test_spots_of_which_nothing_is_known_have_no_class(result: AnnData, tmp_path: Path) -> None:
    result.obs[keys.OOD] = np.array([np.nan, 50, 99, 100, 1, 2], dtype=np.float32)
    result.obs["kept"] = pd.array([None, True, False] * 2, dtype="boolean")
    expected = {
        keys.OOD: [None, "like the training tissue", "unlike the training tissue"],
        "kept": [None, "kept", "not kept"],
    }
    for column, names in expected.items():
        (path,) = genar.export(result, "geojson", tmp_path / f"{column}.geojson", classify=column)
        found = [f["properties"].get("classification", {}).get("name") for f in features(path)]
        assert found[:3] == names


@pytest.mark.parametrize(
    ("column", "said"), [("none", "there is no column 'none' in obs"), (keys.BLUR_UM, "holds measurements")]
)
def test_what_is_no_class(result: AnnData, tmp_path: Path, column: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        genar.export(result, "geojson", tmp_path, classify=column)
