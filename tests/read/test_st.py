import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import genar
from genar import keys
from genar.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small section in the published layout: three spots, one not selected, and a fourth without counts."""
    for name in ("ST-cnts", "ST-spotfiles", "ST-imgs/Z/Z1"):
        (tmp_path / name).mkdir(parents=True)
    counts = pd.DataFrame({"A": [1, 0, 3], "B": [0, 5, 7]}, index=["10x11", "10x12", "11x12"])
    write_counts(tmp_path, counts)
    spots = pd.DataFrame(
        {"x": [10, 10, 11, 12], "y": [11, 12, 12, 12], "pixel_x": [20.5, 20, 40, 60], "pixel_y": [30.25, 60, 60, 60],
         "selected": [1, 0, 1, 1]}
    )  # fmt: skip
    spots.to_csv(tmp_path / "ST-spotfiles/Z1_selection.tsv", sep="\t", index=False)
    Image.fromarray(np.full((100, 120, 3), 200, np.uint8)).save(tmp_path / "ST-imgs/Z/Z1/slide.jpg")
    return tmp_path


def write_counts(folder: Path, counts: pd.DataFrame) -> None:
    with gzip.open(folder / "ST-cnts/Z1.tsv.gz", "wt") as file:
        counts.to_csv(file, sep="\t")


def test_selected_spots_with_counts(folder: Path) -> None:
    section = genar.read.st(folder, "Z1", mpp=0.7)
    assert list(section.obs_names) == ["10x11", "11x12"]
    assert section.X.toarray().tolist() == [[1, 0], [3, 7]]
    assert section.X.dtype == np.int32
    assert section.obsm[keys.SPATIAL].tolist() == [[20.5, 30.25], [40, 60]]
    assert section.obs[keys.ARRAY_COL].tolist() == [10, 11]
    assert section.obs[keys.PATIENT].tolist() == ["Z", "Z"]
    geometry = section.uns[keys.SPATIAL]["Z1"]
    assert geometry[keys.SCALEFACTORS][keys.SPOT_DIAMETER] == pytest.approx(100 / 0.7)
    assert geometry[keys.METADATA][keys.MPP] == 0.7


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"A": [1.5, 0, 3]}, "whole"),
        ({"A": [-1, 0, 3]}, "negative"),
        ({"A": [np.nan, 0, 3]}, "NaN"),
        ({"A": ["x", "y", "z"]}, "not numbers"),
    ],
)
def test_what_are_not_counts(folder: Path, counts: dict[str, list[float]], why: str) -> None:
    write_counts(folder, pd.DataFrame(counts, index=["10x11", "10x12", "11x12"]))
    with pytest.raises(DataError, match=why):
        genar.read.st(folder, "Z1", mpp=0.7)


def test_resolution_from_the_pitch(folder: Path) -> None:
    with pytest.raises(DataError, match=r"Z1.tsv.gz: its spots are too few .* --mpp"):
        genar.read.st(folder, "Z1")  # the two lie on one line


def test_image_patient_and_name_that_are_given(folder: Path) -> None:
    image = (folder / "ST-imgs/Z/Z1/slide.jpg").rename(folder / "other.jpg")
    with pytest.raises(DataError, match="ST-imgs"):
        genar.read.st(folder, "Z1", mpp=0.7)
    section = genar.read.st(folder, "Z1", mpp=0.7, image=image, library_id="a")
    assert section.uns[keys.SPATIAL]["a"][keys.METADATA][keys.SOURCE_IMAGE] == str(image)
    assert section.obs[keys.PATIENT].tolist() == ["Z", "Z"]
    section = genar.read.st(folder, "Z1", mpp=0.7, image=image, patient="007")
    assert section.obs[keys.PATIENT].tolist() == ["007", "007"]


def test_patient_is_the_folder_of_the_image(folder: Path) -> None:
    (folder / "ST-imgs/Z").rename(folder / "ST-imgs/P12")
    assert genar.read.st(folder, "Z1", mpp=0.7).obs[keys.PATIENT].tolist() == ["P12", "P12"]


def test_duplicates(folder: Path) -> None:
    write_counts(folder, pd.DataFrame({"A": [1, 0, 3]}, index=["10x11", "10x11", "11x12"]))
    with pytest.raises(DataError, match="twice"):
        genar.read.st(folder, "Z1", mpp=0.7)


def test_missing_files_and_columns(folder: Path) -> None:
    with pytest.raises(DataError, match="ST-cnts"):
        genar.read.st(folder, "Z2", mpp=0.7)
    path = folder / "ST-spotfiles/Z1_selection.tsv"
    pd.read_csv(path, sep="\t").drop(columns="pixel_x").to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match="pixel_x"):
        genar.read.st(folder, "Z1", mpp=0.7)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"pixel_x": [20.5, np.nan, 40, 60]}, "pixel coordinates that are not numbers"),
        ({"pixel_y": [30.25, 60, np.inf, 60]}, "pixel coordinates that are not numbers"),
        ({"pixel_x": ["20.5", "left", "40", "60"]}, "pixel coordinates that are not numbers"),
        ({"x": [10, 10, 11, 11]}, "spot 11x12 stands in it twice"),
    ],
)
def test_spots_that_cannot_be_placed(folder: Path, changed: dict[str, list[object]], why: str) -> None:
    path = folder / "ST-spotfiles/Z1_selection.tsv"
    pd.read_csv(path, sep="\t").assign(**changed).to_csv(path, sep="\t", index=False)
    with pytest.raises(DataError, match=f"Z1_selection.tsv: .*{why}"):
        genar.read.st(folder, "Z1", mpp=0.7)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("ST-cnts/Z1.tsv.gz", b"no gzip"),
        ("ST-cnts/Z1.tsv.gz", gzip.compress(b"\tA\n10x11\t1\n" * 99)[:30]),
        ("ST-cnts/Z1.tsv.gz", gzip.compress(b"x")[:10] + b"\xff" * 20),
        ("ST-cnts/Z1.tsv.gz", gzip.compress(b"\tA\n10x11\t\xff\n")),
        ("ST-cnts/Z1.tsv.gz", gzip.compress(b"")),
        ("ST-spotfiles/Z1_selection.tsv", b""),
        ("ST-spotfiles/Z1_selection.tsv", b"x\ty\n1\t2\n1\t2\t3\n"),
    ],
    ids=["no gzip", "cut", "damaged", "not text", "empty counts", "empty spots", "ragged"],
)
def test_files_that_cannot_be_read(folder: Path, file: str, content: bytes) -> None:
    (folder / file).write_bytes(content)
    with pytest.raises(DataError, match=rf"{file}: it cannot be read \(.+\)") as e:
        genar.read.st(folder, "Z1", mpp=0.7)
    assert "\n" not in str(e.value)


def test_a_section_whose_spots_have_no_counts(folder: Path) -> None:
    write_counts(folder, pd.DataFrame({"A": [1]}, index=["1x1"]))
    with pytest.raises(DataError, match="no selected spot"):
        genar.read.st(folder, "Z1", mpp=0.7)


def test_real_section(shared: Path) -> None:
    section = genar.read.st(shared / "data/her2st", "C2", mpp=0.687)
    assert section.shape == (187, 15706)
    assert np.median(section.X.toarray().sum(axis=1)) == 8508
    xy = section.obsm[keys.SPATIAL]
    pitch_px = np.polyfit(section.obs[keys.ARRAY_COL], xy[:, 0], 1)[0]
    assert abs(pitch_px) * 0.687 == pytest.approx(200, rel=0.01)  # µm, as the array was printed
