import json
from pathlib import Path

import pytest

import genar
from genar.errors import DataError


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.csv", "barcode,x,y\n007,1.5,2\nB,3,4\n", ["007", "B"]),
        ("a.csv", "y,x,barcode,more\n2,1.5,007,z\n4,3,B,z\n", ["007", "B"]),
        ("a.csv", ",x,y\nA-1,1.5,2\nB-1,3,4\n", ["A-1", "B-1"]),
        ("a.csv", "x,y\n1.5,2\n3,4\n", ["0", "1"]),
        ("a.tsv", "x\ty\n1.5\t2\n3\t4\n", ["0", "1"]),
    ],
)
def test_tables(tmp_path: Path, name: str, text: str, names: list[str]) -> None:
    table = genar.read.points(write(tmp_path / name, text), offset=(100, 100))  # a table is in the slide's pixels
    assert table.index.tolist() == names
    assert table.columns.tolist() == ["x", "y"]
    assert table.to_numpy().tolist() == [[1.5, 2], [3, 4]]


SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [10, 0], [10, 20], [0, 20], [0, 0]]]}
FEATURES = [
    {"type": "Feature", "id": "5e1f", "geometry": SQUARE, "properties": {"objectType": "annotation"}},
    {"type": "Feature", "id": "77", "geometry": {"type": "Point", "coordinates": [3, 4]}, "properties": {"name": "P"}},
    {"type": "Feature", "geometry": {"type": "MultiPoint", "coordinates": [[0, 0], [2, 2]]}},
]


@pytest.mark.parametrize("found", [{"type": "FeatureCollection", "features": FEATURES}, FEATURES])
def test_features(tmp_path: Path, found: object) -> None:
    path = write(tmp_path / "a.geojson", json.dumps(found))
    table = genar.read.points(path, offset=(100, 1000))
    assert table.index.tolist() == ["5e1f", "P", "2"]
    assert table.to_numpy().tolist() == [[105, 1010], [103, 1004], [101, 1001]]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "X,y\n1,2\n", "lacks the column x"),
        ("a.csv", "x,y\n", "no spots"),
        ("a.csv", "", "cannot be read"),
        ("a.csv", "x,y\n1,left\n", "not a number"),
        ("a.csv", "barcode,x,y\nA,1,2\nA,3,4\n", "A stands in it twice"),
        ("a.geojson", "{", "cannot be read"),
        ("a.geojson", '{"type": "Polygon"}', "cannot be read"),
        ("a.geojson", '{"features": []}', "no spots"),
        ("a.geojson", '{"features": [{"geometry": null}]}', "cannot be read"),
        ("a.geojson", '{"features": [{"geometry": {"type": "Polygon", "coordinates": []}}]}', "no geometry"),
        ("a.txt", "x,y\n1,2\n", "neither a table nor GeoJSON"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, name: str, text: str, why: str) -> None:
    with pytest.raises(DataError, match=rf"{name}: .*{why}"):
        genar.read.points(write(tmp_path / name, text))


def test_missing_file(tmp_path: Path) -> None:
    for name in ("a.csv", "a.geojson"):
        with pytest.raises(DataError, match="cannot be read"):
            genar.read.points(tmp_path / name)
