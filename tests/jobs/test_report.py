"""Files in, pages and an index out."""

import os
from pathlib import Path

import anndata as ad
import pytest

from genar import keys
from genar.cli import app
from genar.errors import ConfigError, DataError, OutputError
from genar.jobs.concat import concat
from genar.jobs.report import reports
from genar.write.anndata import write_h5ad
from genar.write.report.index import INDEX, is_current, summary_of, write_index
from tests.write.report.conftest import section


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    for name in ("a", "b é&?"):
        write_h5ad(section(name.replace(" é&?", "")), tmp_path / f"{name}.h5ad")
    return [tmp_path / "a.h5ad", tmp_path / "b é&?.h5ad"]


def test_one_page_lies_beside_its_result(tables: list[Path], tmp_path: Path) -> None:
    assert list(reports(tables[:1])) == [tmp_path / "a.html"]
    assert list(reports(tables[:1], tmp_path / "x.html")) == [tmp_path / "x.html"]
    assert list(reports(tables[:1], tmp_path / "new")) == [tmp_path / "new/a.html"]


def test_several_have_an_index(tables: list[Path], tmp_path: Path) -> None:
    made = list(reports(tables, tmp_path / "out"))
    assert [path.name for path in made] == ["a.html", "b é&?.html", INDEX]
    index = made[-1].read_text()
    assert "2 slides" in index
    assert 'href="b%20%C3%A9%26%3F.html"' in index
    assert index.count("⚠ mind") == 2
    assert index.count('src="data:image/jpeg;base64,') == 2
    assert summary_of(made[-1]) is None
    assert summary_of(made[0])["spots"] == 42


def test_of_a_cohort_each_section_has_a_page(tables: list[Path], tmp_path: Path) -> None:
    concat(tables, tmp_path / "cohort.h5ad")
    made = list(reports([tmp_path / "cohort.h5ad"], tmp_path / "out"))
    assert [path.name for path in made] == ["cohort.a.html", "cohort.b.html", INDEX]
    assert "mind" in made[1].read_text()  # of its own provenance
    with pytest.raises(OutputError, match=r"one page cannot hold several sections; give a folder with -o"):
        list(reports([tmp_path / "cohort.h5ad"], tmp_path / "one.html"))


def test_nothing_is_written_where_something_is_in_the_way(tables: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    list(reports(tables[:1], out / INDEX))
    with pytest.raises(OutputError, match="it exists and is no index of genar's"):  # but the page of a slide
        list(reports(tables, out))
    for name, said in (
        (INDEX, "it exists and is no index of genar's; move it"),
        ("b é&?.html", "it exists; add --overwrite"),
    ):
        (out / name).write_text("mine")
        with pytest.raises(OutputError, match=said):
            list(reports(tables, out))
        (out / name).unlink()
    assert not list(out.iterdir())
    (tmp_path / "x").mkdir()
    tables[0].rename(tmp_path / "x" / tables[1].name)
    with pytest.raises(ConfigError, match=r"its page would be called b é&\?.html, as that of .*; rename it"):
        list(reports([tmp_path / "x" / tables[1].name, tables[1]]))


def test_a_file_of_something_else_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adata = section()
    del adata.uns[keys.SPATIAL]
    ad.AnnData(adata.X).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(SystemExit) as left:
        app.main(["report", str(tmp_path / "a.h5ad")])
    assert left.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert 'a.h5ad: it has no obsm["spatial"] of two columns; give a file of genar predict' in err
    with pytest.raises(DataError, match="there is no such file"):
        list(reports([tmp_path / "none.h5ad"]))


def test_a_page_older_than_its_result_is_not_current(tables: list[Path], tmp_path: Path) -> None:
    page = next(iter(reports(tables[:1])))
    assert is_current(page, tables[0])
    os.utime(page, (1, 1))
    assert not is_current(page, tables[0])
    (tmp_path / "mine.html").write_text("<p>mine")
    assert summary_of(tmp_path / "mine.html") is None
    assert "1 slide<" in write_index(tmp_path).read_text()
