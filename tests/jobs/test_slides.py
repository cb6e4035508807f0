"""Which slides are predicted: paths or a table, and the mistakes in them."""

from pathlib import Path

import pytest

from genar.errors import GenarError
from genar.jobs.options import Options
from genar.jobs.predict_file import predict_to_file
from genar.jobs.scratch import scratch
from genar.jobs.slides import Task, is_table, tasks_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.svs", "b.svs", "sub/a.svs"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_paths(folder: Path) -> None:
    given = [folder / "b.svs", folder / "a.svs"]
    assert tasks_of(given) == [Task(given[0], "b"), Task(given[1], "a")]


def test_a_table(folder: Path) -> None:
    table = folder / "cohort.CSV"
    table.write_text("\ufeffname,slide,mpp\n A1 ,a.svs,0.25\n,b.svs,\n\nA2,sub/a.svs,.5\n", encoding="utf-8")
    assert is_table([table])
    expected = [Task(folder / "a.svs", "A1", 0.25), Task(folder / "b.svs", "b"), Task(folder / "sub/a.svs", "A2", 0.5)]
    assert tasks_of([table]) == expected
    table.write_text(f"slide\n{folder / 'a.svs'}\n", encoding="utf-8")
    assert tasks_of([table]) == [Task(folder / "a.svs", "a")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slide,names\na.svs,x\n", "it has an unknown column 'names'; did you mean name?"),
        ("slide,,\na.svs,,\n", "it has an unknown column ''; columns are slide, mpp, name"),
        ("path\na.svs\n", "it has an unknown column 'path'; columns are slide, mpp, name"),
        ("name\na\n", "it lacks the column slide"),
        ("", "it lacks the column slide"),
        ("slide\n", "it lists no slide"),
        ("slide,name\na.svs,x\n,y\n", "line 3 has no slide"),
        ("slide,name\na.svs,x,y\n", "line 2 has more cells than there are columns"),
        ("slide,mpp\na.svs,half\n", "line 2: 'half' in the column mpp is not a number above 0"),
        ("slide,mpp\na.svs,nan\n", "line 2: 'nan' in the column mpp is not a number above 0"),
        ("slide,name\na.svs,x/y\n", "line 2: 'x/y' cannot be a file's name"),
        ("slide,name\na.svs,.x\n", "line 2: '.x' cannot be a file's name"),
        ("slide,name\na.svs,..\n", "line 2: '..' cannot be a file's name"),
        ("slide\n/\n", "/: a result cannot be called ''; name it otherwise, in the column name of a CSV"),
        (f"slide\n{'x' * 300}.svs\n", "it cannot be read (File name too long); check the path"),
        ("slide\n~nobody-of-that-name/x.svs\n", "line 2 of t.csv: "),
        ('slide\n"a.svs\n', "it cannot be read (unexpected end of data)"),
        ("slide\na.svs\nnone.svs\n", "none.svs: there is no such file"),
        ("slide\na.svs\nsub/a.svs\n", "sub/a.svs: it and {folder}/a.svs would both be called a; call them"),
        ("slide,name\na.svs,b\nb.svs,\n", "b.svs: it and {folder}/a.svs would both be called b"),
        ("slide,name\na.svs,cohort\n", "a.svs: genar writes another file called cohort.h5ad"),
    ],
)
def test_a_table_with_a_mistake(folder: Path, text: str, said: str) -> None:
    table = folder / "t.csv"
    table.write_text(text, encoding="utf-8")
    with pytest.raises(GenarError) as e:
        tasks_of([table], reserved=["cohort.h5ad"])
    assert said.format(folder=folder) in str(e.value)
    assert "\n" not in str(e.value)


def test_tables_that_cannot_be_read(folder: Path) -> None:
    (folder / "t.csv").write_bytes(b"slide\n\xff\xfe\n")
    for name, said in (("none.csv", "No such file"), ("t.csv", "can't decode")):
        with pytest.raises(GenarError, match=f"{name}: it cannot be read .*{said}"):
            tasks_of([folder / name])
    with pytest.raises(GenarError, match="a table of slides stands among slides; give the table alone"):
        tasks_of([folder / "a.svs", folder / "t.csv"])


def test_slides_with_a_mistake(folder: Path) -> None:
    with pytest.raises(GenarError, match=r"c.svs: there is no such file; check the path"):
        tasks_of([folder / "a.svs", folder / "c.svs"])
    with pytest.raises(GenarError, match=r"sub/a.svs: it and .*a.svs would both be called a"):
        tasks_of([folder / "a.svs", folder / "sub" / "a.svs"])
    (folder / ".a.svs").touch()
    with pytest.raises(GenarError, match=r"a result cannot be called '.a'"):
        tasks_of([folder / ".a.svs"])
    with pytest.raises(GenarError, match="its path is not UTF-8; rename"):
        tasks_of([folder / "a\udcff.svs"])


def test_a_folder_is_called_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub/inner").mkdir()
    monkeypatch.chdir(folder / "sub/inner")
    assert tasks_of([Path()]) == [Task((folder / "sub/inner").resolve(), "inner")]
    assert tasks_of([Path("..")]) == [Task((folder / "sub").resolve(), "sub")]
    (folder / "t.csv").write_text("slide\nsub/inner/..\n")
    assert tasks_of([folder / "t.csv"]) == [Task((folder / "sub").resolve(), "sub")]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/"])
def test_nothing_is_removed_for_a_name_that_is_none(folder: Path, name: str) -> None:
    (folder / ".genar/b").mkdir(parents=True)
    before = sorted(folder.rglob("*"))
    with pytest.raises(GenarError, match="a result cannot be called"), scratch(folder, name):
        pytest.fail("entered")
    assert sorted(folder.rglob("*")) == before


def test_a_slide_that_is_the_folder_above_is_refused_and_the_folder_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "sub")
    before = sorted(folder.rglob("*"))
    for slide, name in ((Path(".."), None), (Path("a.svs"), "..")):
        with pytest.raises(GenarError):
            predict_to_file(slide, Path(), Options(device="cpu"), name=name)
    assert sorted(folder.rglob("*")) == before
