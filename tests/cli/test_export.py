from pathlib import Path

import pytest

from genar.errors import DataError


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    calls: list[tuple] = []

    def export(result: Path, to: str, output: Path | None, **options: object) -> list[Path]:
        calls.append((result, to, output, {k: v for k, v in options.items() if v}))
        if result.stem == "bad":
            raise DataError(result, "it is\nno result", "give another")
        return [result.with_suffix(f".{to}")]

    monkeypatch.setattr("genar.jobs.export.export", export)
    return calls


def test_options(genar, job) -> None:
    words = "export a.h5ad --to geojson -o out --genes A B --layer std --object tile --classify ood --slide s.svs"
    assert genar(*words.split(), "--overwrite") == (0, "wrote a.geojson\n", "")
    options = {"genes": ["A", "B"], "layer": "std", "object": "tile", "classify": "ood", "slide": Path("s.svs"),
               "overwrite": True}  # fmt: skip
    assert job == [(Path("a.h5ad"), "geojson", Path("out"), options)]


def test_one_that_fails_does_not_stop_the_others(genar, job) -> None:
    status, out, err = genar("export", "bad.h5ad", "b.h5ad", "--to", "csv", "--top", "3")
    assert (status, out) == (2, "wrote b.csv\n")
    assert err == "genar: error: bad.h5ad: it is no result; give another\n"
    assert job[1][3] == {"top": 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.h5ad"], "required: --to"),
        (["a.h5ad", "b.h5ad", "--to", "csv", "-o", "x.csv"], "2 results would be written to it; give a folder"),
        (["a/x.h5ad", "b/x.h5ad", "--to", "csv", "-o", "out", "--overwrite"], "two results of one name"),
        (["a.h5ad", "b.h5ad", "--to", "geojson", "--slide", "s.svs"], "export each with its slide"),
    ],
)
def test_what_cannot_be(genar, job, words: list[str], said: str) -> None:
    status, out, err = genar("export", *words)
    assert (status, out, job) == (2, "", [])
    assert said in err
    assert err.count("\n") == 1
