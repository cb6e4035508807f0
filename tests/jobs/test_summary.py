"""The table of a cohort's slides."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from genar.errors import OutputError
from genar.jobs import summary as module
from genar.jobs.slides import Task
from genar.jobs.summary import COLUMNS, Summary
from genar.jobs.work import Outcome


def done(name: str, status: str = "done", **more: object) -> Outcome:
    values: dict[str, object] = {"spots": 7, "unlike": 0.12345, "seconds": 1.5, "peak_memory_gb": 0.5}
    values["output"] = Path(f"o/{name}.h5ad")
    return Outcome(Task(Path(f"in/{name}.svs"), name), status, **values | more)  # type: ignore[arg-type]


def table(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "summary.csv", keep_default_na=False, dtype=str).set_index("name")


def test_a_line_a_slide_in_their_order(tmp_path: Path) -> None:
    summary = Summary(tmp_path / "new", ["a", "b", "c"])
    summary.add(done("c"))
    assert list(table(tmp_path / "new").index) == ["c"]  # current from the first on
    failure = Outcome(Task(Path("in/a.svs"), "a"), "failed", 'in/a.svs: "it", µ; do', seconds=0.1)
    summary.add(failure)
    summary.write()
    found = table(tmp_path / "new")
    assert tuple(found.reset_index()[list(COLUMNS)].columns) == COLUMNS
    assert list(found.index) == ["a", "c"]
    assert found.loc["a"].tolist() == ["in/a.svs", "failed", 'in/a.svs: "it", µ; do', "", "", "0.1", "", ""]
    assert found.loc["c"].tolist() == ["in/c.svs", "done", "", "7", "0.123", "1.5", "0.5", "o/c.h5ad"]


def test_a_later_run_keeps_other_lines_and_what_the_first_took(tmp_path: Path) -> None:
    first = Summary(tmp_path, ["a", "b"])
    first.add(done("a"))
    first.add(done("b", "failed", error="x"))
    first.write()
    later = Summary(tmp_path, ["c", "a"])
    later.add(done("a", "present", spots=8, seconds=0.0, peak_memory_gb=9.0))
    later.add(done("c", "present", seconds=0.0))
    later.write()
    found = table(tmp_path)
    assert found["status"].to_dict() == {"c": "present", "a": "present", "b": "failed"}
    assert found.loc["a", ["spots", "seconds", "peak_memory_gb"]].tolist() == ["7", "1.5", "0.5"]
    assert found.loc["c", "seconds"] == "0.0"
    last = Summary(tmp_path, ["b"])
    last.add(done("b", "present", spots=9, seconds=0.0))  # whose failure does not say what making it took
    assert table(tmp_path).loc["b", ["spots", "seconds"]].tolist() == ["9", "0.0"]
    assert [p.name for p in tmp_path.iterdir()] == ["summary.csv"]


def test_processes_take_turns(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: Summary(tmp_path, [name]).add(done(name)), "abcd"))
    assert sorted(table(tmp_path).index) == list("abcd")


def test_a_folder_that_is_not_utf8(tmp_path: Path) -> None:
    Summary(tmp_path, ["a"]).add(done("a", output=Path("o\udcff/a.h5ad")))
    assert table(tmp_path).loc["a", "output"] == r"o\udcff/a.h5ad"


def test_another_table_of_that_name_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text("name,x\na,1\n")
    Summary(tmp_path, []).add(done("b"))
    assert list(table(tmp_path).index) == ["b"]


def test_writing_takes_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, *([1.0, 3.0, 3.0, 3.0]), *[40.0] * 2, *[44.0] * 9])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    written = []
    beside = module.beside
    monkeypatch.setattr(module, "beside", lambda path: written.append(path) or beside(path))
    summary = Summary(tmp_path, ["a", "b", "c"])
    summary.add(done("a"))  # writing takes 2 s: not again before 3 + 40
    summary.add(done("b"))
    assert len(written) == 1
    summary.due = 0
    summary.add(done("c"))
    assert len(written) == 2


def test_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"summary.csv: it cannot be written"):
        Summary(tmp_path / "file" / "x", ["a"]).add(done("a"))
