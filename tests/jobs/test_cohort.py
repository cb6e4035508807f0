"""A cohort on this machine: what is done, what is left alone, and what is done again."""

import csv
import os
import shutil
from dataclasses import replace
from pathlib import Path

import anndata as ad
import numpy as np
import pytest

from genar import keys, tl
from genar.cli import app
from genar.errors import ConfigError, OutputError, SlideError
from genar.jobs import predict_file as job
from genar.jobs.cohort import predict_all
from genar.jobs.existing import present, read
from genar.jobs.options import Options
from genar.jobs.slides import Task
from genar.jobs.work import Outcome, work
from genar.write.report.index import summary_of
from scripts.soak_cohort import differences, make_slides

OPTIONS = Options(spots="grid", pitch=150.0, device="cpu")


@pytest.fixture(scope="module")
def made(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with slides, of which the third is broken, and their results."""
    folder = tmp_path_factory.mktemp("cohort")
    slides = make_slides(folder / "slides", shared / "data/wsi/CMU-1-Small-Region.svs", good=2, broken=1)
    slides[0].rename(folder / "slides" / "x.tif")
    outcomes = predict_all(tasks(folder), folder / "out", OPTIONS)
    assert [o.status for o in outcomes] == ["done", "done", "failed"]
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, of which dates are kept."""
    return shutil.copytree(made, tmp_path / "copy")


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "predict_checked", lambda *_, **__: pytest.fail("the work began"))


def tasks(folder: Path) -> list[Task]:
    slides = [folder / "slides" / f"{name}.tif" for name in ("good00", "good01", "x")]
    return [Task(slides[0], "good00"), Task(slides[1], "A 1", 0.499), Task(slides[2], "x")]


def told(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.task.name: outcome.status for outcome in outcomes}


def test_each_slide_has_its_result_and_its_line(made: Path) -> None:
    assert sorted(p.name for p in (made / "out").iterdir()) == [
        "A 1.h5ad", "A 1.png", "good00.h5ad", "good00.png", "summary.csv"
    ]  # fmt: skip
    with (made / "out/summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["status"] for line in lines] == ["done", "done", "failed"]
    assert lines[2]["error"].startswith(f"{made}/slides/x.tif: it is not an image that can be read")
    for line in lines[:2]:
        adata = ad.read_h5ad(line["output"])
        assert int(line["spots"]) == adata.n_obs > 0
        assert float(line["seconds"]) > 0
        assert 0.1 < float(line["peak_memory_gb"]) < 8
    assert list(ad.read_h5ad(made / "out/A 1.h5ad").uns[keys.SPATIAL]) == ["A_1"]
    assert ad.read_h5ad(made / "out/A 1.h5ad").obs[keys.LIBRARY_ID].unique().tolist() == ["A_1"]


def test_what_is_there_is_left_as_it_is(folder: Path, no_work: None) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir() if path.suffix != ".csv"}
    other = replace(OPTIONS, batch_size=7, workers=1, cache=folder / "cache")
    assert told(predict_all(tasks(folder)[:2], folder / "out", other)) == {"good00": "present", "A 1": "present"}
    assert before == {path: path.stat().st_mtime_ns for path in before}
    with (folder / "out/summary.csv").open() as file:
        assert [line["status"] for line in csv.DictReader(file)] == ["present", "present", "failed"]


def test_a_slide_that_was_copied_is_the_same_and_a_changed_one_is_not(folder: Path, no_work: None) -> None:
    slide = folder / "slides/good00.tif"
    os.utime(slide, (1, 1))
    assert work(tasks(folder)[0], folder / "out", OPTIONS, overwrite=False).status == "present"
    slide.write_bytes(slide.read_bytes() + b"\0")
    outcome = work(tasks(folder)[0], folder / "out", OPTIONS, overwrite=False)
    assert outcome.status == "failed"
    assert "good00.h5ad: it exists and was made from other content of the slide; add --overwrite" in outcome.error


def test_a_result_of_other_options_is_not_touched(folder: Path, no_work: None) -> None:
    table = folder / "out/good00.h5ad"
    before = table.read_bytes()
    for options in (replace(OPTIONS, pitch=100.0), replace(OPTIONS, estimator="mean"), replace(OPTIONS, mpp=0.5)):
        with pytest.raises(OutputError, match=r"it exists and was made with other options or another model; add --ov"):
            job.predict_to_file(tasks(folder)[0].slide, folder / "out", options)
    assert table.read_bytes() == before


def test_a_result_of_another_program_is_not_touched(folder: Path, no_work: None) -> None:
    table = folder / "out/good00.h5ad"
    ad.AnnData(np.ones((2, 2))).write_h5ad(table)
    with pytest.raises(OutputError, match=r"it exists and was not written by this version's genar predict"):
        job.predict_to_file(tasks(folder)[0].slide, folder / "out", OPTIONS)


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "gone"])
def test_a_damaged_result_counts_as_missing(folder: Path, damage: str) -> None:
    table = folder / "out/good00.h5ad"
    content = table.read_bytes()
    assert present(table, tasks(folder)[0].slide, read(table).request).spots > 0  # type: ignore[union-attr]
    table.write_bytes({"cut": content[:-5000], "empty": b"", "zeros": bytes(9000), "gone": b""}[damage])
    if damage == "gone":
        table.unlink()
    assert present(table, tasks(folder)[0].slide, "") is None


def test_a_damaged_result_is_made_anew(made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = folder / "out/good00.h5ad"
    table.write_bytes(table.read_bytes()[:-5000])
    whole = ad.read_h5ad(made / "out/good00.h5ad")
    monkeypatch.setattr(job, "predict_checked", lambda *_, **__: whole)
    assert work(tasks(folder)[0], folder / "out", OPTIONS, overwrite=False).status == "done"
    assert not list(differences(made / "out/good00.h5ad", table))
    assert not (folder / "out/.genar").exists()


def test_a_picture_that_was_removed_is_drawn_again(folder: Path, no_work: None) -> None:
    picture = folder / "out/good00.png"
    before = picture.read_bytes()
    picture.unlink()
    assert work(tasks(folder)[0], folder / "out", OPTIONS, overwrite=False).status == "present"
    assert picture.read_bytes() == before


def test_a_page_that_is_missing_or_old_is_written(folder: Path, no_work: None) -> None:
    page, options = folder / "out/good00.html", replace(OPTIONS, report=True)
    for _ in range(2):
        assert work(tasks(folder)[0], folder / "out", options, overwrite=False).status == "present"
        before = page.stat().st_mtime_ns
        assert before > 10**9
        work(tasks(folder)[0], folder / "out", options, overwrite=False)
        assert page.stat().st_mtime_ns == before
        os.utime(page, (1, 1))
    page.write_text("mine")
    os.utime(page, (1, 1))
    outcome = work(tasks(folder)[0], folder / "out", options, overwrite=False)
    assert "good00.html: it exists; add --overwrite" in outcome.error
    assert page.read_text() == "mine"


def test_a_page_is_written_with_a_new_result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ad.read_h5ad(folder / "out/good00.h5ad")
    monkeypatch.setattr(job, "predict_checked", lambda *_, **__: whole)
    outcomes = predict_all(tasks(folder)[:1], folder / "new", replace(OPTIONS, report=True))
    assert told(outcomes) == {"good00": "done"}
    assert sorted(p.suffix for p in (folder / "new").iterdir()) == [".csv", ".h5ad", ".html", ".png"]
    assert summary_of(folder / "new/good00.html")["spots"] == whole.n_obs


def test_overwrite_makes_all_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ad.read_h5ad(folder / "out/good00.h5ad")
    monkeypatch.setattr(job, "predict_checked", lambda *_, **__: whole.copy())
    assert told(predict_all(tasks(folder)[:1], folder / "out", OPTIONS, overwrite=True)) == {"good00": "done"}


def test_an_interrupted_slide_goes_on_from_its_features(
    made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "new"
    with monkeypatch.context() as patch:
        patch.setattr(tl, "predict", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            predict_all(tasks(folder)[:1], out, OPTIONS)
    assert list(out.glob(".genar/good00/*.h5"))
    assert [p.name for p in out.iterdir()] == [".genar"]
    monkeypatch.setattr("genar.encoders.cache.create", lambda *_: pytest.fail("encoded again"))
    assert told(predict_all(tasks(folder)[:1], out, OPTIONS)) == {"good00": "done"}
    assert not list(differences(made / "out/good00.h5ad", out / "good00.h5ad"))
    assert sorted(p.name for p in out.iterdir()) == ["good00.h5ad", "good00.png", "summary.csv"]


def test_another_process_may_be_faster(made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "new"
    whole = ad.read_h5ad(made / "out/good00.h5ad")

    def slow(*_: object, **__: object) -> ad.AnnData:
        for name in ("good00.h5ad", "good00.png"):
            shutil.copy(made / "out" / name, out / name)
        return whole

    monkeypatch.setattr(job, "predict_checked", slow)
    assert work(tasks(folder)[0], out, OPTIONS, overwrite=False).status == "present"
    assert sorted(p.name for p in out.iterdir()) == ["good00.h5ad", "good00.png"]


def test_what_is_wrong_for_all_is_said_once(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--depth: model her2st-mini is not conditioned"):
        predict_all(tasks(folder), folder / "new", replace(OPTIONS, depth=500.0))
    assert not (folder / "new").exists()


def test_model_and_encoder_are_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from genar.encoders import registry, reuse

    loaded: list[str] = []
    for module, name in ((registry, "create"), (job, "load")):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=function, n=name: loaded.append(n) or f(*a))
    reuse._kept.cache_clear()
    job._loaded.cache_clear()
    outcomes = predict_all(tasks(folder)[:2], folder / "new", OPTIONS)
    assert [o.status for o in outcomes] == ["done", "done"]
    assert sorted(loaded) == ["create", "load"]


def test_features_that_are_there_give_the_same_counts(made: Path, folder: Path) -> None:
    task = tasks(folder)[0]
    first = work(task, folder / "kept", replace(OPTIONS, cache=folder / "cache"), overwrite=False)
    assert not (folder / "kept/.genar").exists()
    (features,) = (folder / "cache").glob("*.h5")
    (folder / "features").mkdir()
    features.rename(folder / "features/good00.h5")
    second = work(task, folder / "others", Options(features=folder / "features", device="cpu"), overwrite=False)
    a, b = (ad.read_h5ad(outcome.output) for outcome in (first, second))
    assert not list(differences(made / "out/good00.h5ad", folder / "kept/good00.h5ad"))
    np.testing.assert_allclose(a.obsm[keys.SPATIAL], b.obsm[keys.SPATIAL], atol=1)  # corners are whole pixels
    assert (a.X != b.X).nnz == 0


def test_the_command_puts_what_is_there_together(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    lines = ["slide,name,mpp", "slides/good00.tif,,", "slides/x.tif,,", "slides/good01.tif,A 1,0.499"]
    (folder / "slides.csv").write_text("\n".join(lines))
    command = ["predict", "slides.csv", "-o", "out", "--spots", "grid", "--pitch", "150", "--device", "cpu", "--concat"]
    monkeypatch.setattr(
        job, "predict_checked", lambda slide, *_, **__: (_ for _ in ()).throw(SlideError(slide, "no", "go"))
    )
    with pytest.raises(SystemExit) as left:
        app.main(command)
    out, err = capsys.readouterr()
    assert left.value.code == 1
    assert out.splitlines() == [
        "1 of 3: out/good00.h5ad is there already",
        "2 of 3: slides/x.tif failed",
        "3 of 3: out/A 1.h5ad is there already",
        "2 present, 1 failed; see out/summary.csv",
        "wrote out/cohort.h5ad",
    ]
    said = ["genar: error: slides/x.tif: no; go", "genar: out/cohort.h5ad lacks what failed, 1 of 3 slides"]
    assert err.splitlines() == said
    whole = ad.read_h5ad(folder / "out/cohort.h5ad")
    assert whole.obs[keys.LIBRARY_ID].cat.categories.tolist() == ["good00", "A_1"]
    assert set(whole.uns[keys.SPATIAL]) == {"good00", "A_1"}
