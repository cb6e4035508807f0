"""When two requests are the same."""

import os
from dataclasses import fields, replace
from pathlib import Path

import h5py
import pytest

from genar.errors import DataError
from genar.jobs.options import HOW_NOT_WHAT, Options
from genar.jobs.slides import Task
from genar.model.decoding import Decoding

SLIDE = Path("scans/a.svs")
OTHER: dict[str, object] = {
    "model": "other", "spots": "st", "pitch": 50.0, "tissue": "none", "mpp": 0.5, "features": Path("f"), "depth": 9.0,
    "encoder_weights": Path("w"), "cache": Path("c"), "seed": 1, "estimator": "mean", "device": "cpu", "batch_size": 1,
    "decoding": Decoding(rule="greedy"), "workers": 3, "report": True,
}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(Options)])
def test_what_changes_the_result_changes_the_request(name: str) -> None:
    same = Options().request(SLIDE, "sha")
    other = replace(Options(), **{name: OTHER[name]}).request(SLIDE, "sha")
    # a model is told by its weights, wherever it lies
    assert (other == same) == (name in (*HOW_NOT_WHAT, "model"))
    assert Options().request(SLIDE, "other") != same


def test_files_count_by_name_and_stamp(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for folder in (tmp_path, tmp_path / "x"):
        (folder / "mask.png").write_text("mask")
        os.utime(folder / "mask.png", (1, 1))
    here, there = (Options(tissue=str(folder / "mask.png")) for folder in (tmp_path, tmp_path / "x"))
    before = here.request(SLIDE, "")
    assert before == there.request(SLIDE, "")
    os.utime(tmp_path / "mask.png", (1, 2))
    assert here.request(SLIDE, "") != before


def test_of_a_folder_the_slides_own_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a.h5").touch()
    options = Options(features=tmp_path)
    before = options.request(SLIDE, "")
    (tmp_path / "b.h5").touch()
    assert options.request(SLIDE, "") == before
    (tmp_path / "a.h5").write_text("more")
    assert options.request(SLIDE, "") != before


def test_files_of_other_slides_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.geojson").touch()
    options = Options(tissue=str(tmp_path))
    before = options.request(SLIDE, "")
    for name in ("a_b.geojson", "a.tissue.geojson", "a.tissue.png", "a.png", "a.h5ad"):  # the first of NAMES is read
        (tmp_path / name).touch()
    assert options.request(SLIDE, "") == before
    for name in ("a.geojson", "a.tissue.geojson", "a.png"):
        (tmp_path / name).unlink()
    with pytest.raises(DataError, match=r"it holds no outline of a.svs"):
        options.request(SLIDE, "")


def test_of_a_section_all_files_count_but_what_genar_wrote(tmp_path: Path) -> None:
    positions = tmp_path / "spatial/tissue_positions.csv"
    positions.parent.mkdir()
    for file in (positions, tmp_path / "a.svs"):  # the slide lies beside
        file.touch()
    options = Options(spots=str(tmp_path))
    before = options.request(tmp_path / "a.svs", "")
    for name in ("summary.csv", "index.html", "out/a.png", "out/a.html", "out/a.tissue.png", ".genar/a/x.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    with h5py.File(tmp_path / "out/a.h5ad", "w") as file:
        file["uns/genar/request"] = "x"
    assert options.request(tmp_path / "a.svs", "") == before
    positions.write_text("other")
    assert options.request(tmp_path / "a.svs", "") != before


def test_a_bundled_name_is_not_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "her2st-mini").mkdir()
    assert Options().absolute().model == "her2st-mini"
    (tmp_path / "her2st-mini/config.json").touch()
    assert Options().absolute().model == f"{tmp_path}/her2st-mini"


def test_for_a_process_elsewhere_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "places.csv").touch()
    (tmp_path / "auto").touch()
    here = Options(spots="places.csv", features=Path("f.h5"), cache=Path("c"))
    there = here.absolute()
    assert there == replace(here, spots=f"{tmp_path}/places.csv", features=tmp_path / "f.h5", cache=tmp_path / "c")
    assert there.request(SLIDE, "") == replace(here, features=tmp_path / "f.h5").request(SLIDE, "")
    assert Options(spots="visium").absolute() == Options(spots="visium")


def test_a_table_may_give_the_resolution() -> None:
    assert Options(mpp=0.5).of(Task(SLIDE, "a")).mpp == 0.5
    assert Options(mpp=0.5).of(Task(SLIDE, "a", 0.25)).mpp == 0.25
