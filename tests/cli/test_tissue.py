"""``genar tissue``."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shapely
import shapely.geometry
from PIL import Image

from genar import pp
from genar.slide.open import open_slide
from genar.slide.outline import tissue_of


@pytest.fixture
def slide(make_slide, tissue_image, monkeypatch, tmp_path) -> Path:
    monkeypatch.chdir(tmp_path)
    image = tissue_image(800, 250).astype(float)
    image[image[..., 1] < 200] += np.random.default_rng(0).normal(0, 15, ((image[..., 1] < 200).sum(), 3))  # sharp
    return make_slide(image.clip(0, 255).astype(np.uint8), mpp=2.0, name="one.tif")


def test_look_correct_and_give_back(genar, slide, tmp_path):
    status, out, err = genar("tissue", "one.tif", "-o", "look")
    assert (status, err) == (0, "")
    assert out == "wrote look/one.tissue.png and look/one.tissue.geojson\n"
    picture = np.asarray(Image.open("look/one.tissue.png").convert("RGB")).astype(int)
    assert min(picture.shape[:2]) > 900
    for colour in ((0, 200, 83), (41, 98, 255)):  # the outline and the spots
        assert (np.abs(picture - colour).max(axis=2) < 40).sum() > 300
    path = tmp_path / "look/one.tissue.geojson"
    (piece,) = json.loads(path.read_text(encoding="utf-8"))["features"]
    area = shapely.geometry.shape(piece["geometry"])
    assert area.area == pytest.approx(np.pi * 250**2, rel=0.05)
    assert area.centroid.distance(shapely.Point(400, 400)) < 5
    found = pp.spots(slide)
    again = pp.spots(slide, tissue=path)  # as it was found
    assert set(found.obs_names) ^ set(again.obs_names) <= set(found.obs_names[found.obs["tissue_fraction"] < 0.6])
    half = shapely.intersection(area, shapely.box(0, 0, 400, 800))  # corrected
    piece["geometry"] = shapely.geometry.mapping(half)
    path.write_text(json.dumps(piece), encoding="utf-8")
    status, _, err = genar("tissue", "one.tif", "-o", "second", "--tissue", "look", "--spots", "grid", "--pitch", "50")
    assert (status, err) == (0, "")
    with open_slide(slide) as opened:
        corrected = tissue_of(opened, tmp_path / "second/one.tissue.geojson")
    assert corrected.mask.mean() == pytest.approx(half.area / 800**2, rel=0.03)


def test_one_that_fails_leaves_nothing_and_the_rest_go_on(genar, slide, tmp_path):
    (tmp_path / "bad.svs").write_bytes(b"no slide")
    status, out, err = genar("tissue", "bad.svs", "one.tif", "-o", "look")
    assert status == 2
    assert err.count("\n") == 1
    assert err.startswith("genar: error: bad.svs: ")
    assert out.startswith("wrote look/one.tissue.png")
    assert sorted(p.name for p in (tmp_path / "look").iterdir()) == ["one.tissue.geojson", "one.tissue.png"]
    status, out, err = genar("tissue", "one.tif", "-o", "look")
    assert (status, out) == (2, "")
    assert "add --overwrite to replace it" in err
    assert genar("tissue", "one.tif", "-o", "look", "--overwrite")[0] == 0


def test_both_files_or_neither(genar, slide, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("genar.jobs.tissue.write_outline", fail)
    status, out, err = genar("tissue", "one.tif", "-o", "look")
    assert (status, out) == (2, "")
    assert "No space left" in err
    assert not (tmp_path / "look").exists()


@pytest.mark.usefixtures("slide")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tissue", "nowhere.png"], "'nowhere.png' is neither auto nor none"),
        (["--pitch", "50"], "it goes with --spots grid alone"),
        (["--pitch", "50", "--spots", "visium"], "visium spots have their own"),
        (["--mpp", "70"], "not within"),
        (["more/one.tif"], "it and one.tif would both be called one"),
    ],
)
def test_what_cannot_be(genar, words, said, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/one.tif").touch()
    status, out, err = genar("tissue", "one.tif", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_everywhere_and_out_of_focus(genar, make_slide, tissue_image, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_slide(tissue_image(800, 250), mpp=2.0, name="two.tif")  # its texture is as coarse as if blurred by 10 µm
    status, _, err = genar("tissue", "two.tif", "--tissue", "none", "--spots", "grid", "--pitch", "50", "-o", ".")
    assert status == 0
    assert "two.tif: " in err
    assert "of the spots are out of focus" in err
    (piece,) = json.loads(Path("two.tissue.geojson").read_text(encoding="utf-8"))["features"]
    assert shapely.geometry.shape(piece["geometry"]).bounds == (0, 0, 800, 800)


def test_it_does_without_torch():
    code = "import sys, genar.jobs.tissue; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_models_spots_are_drawn_of_a_table_of_slides(genar, slide, tmp_path):
    (tmp_path / "slides.csv").write_text("slide,mpp,name\none.tif,0.9,first\n", encoding="utf-8")
    assert genar("tissue", "slides.csv", "-o", "st")[0] == 0
    assert genar("tissue", "slides.csv", "-o", "visium", "--spots", "visium")[0] == 0
    drawn = [
        np.asarray(Image.open(f"{folder}/one.tissue.png").convert("RGB")).astype(int) for folder in ("st", "visium")
    ]
    blue = [(np.abs(picture - (41, 98, 255)).max(axis=2) < 40).sum() for picture in drawn]
    assert 0 < blue[0] < blue[1]  # 200 µm apart, and 100
