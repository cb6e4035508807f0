import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from genar.read.report import SectionReport
from genar.read.show import lines
from genar.slide.lattice import ST, lay


@pytest.fixture(autouse=True)
def _wide(genar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def data(tmp_path: Path, tissue_image: Callable[..., np.ndarray]) -> Path:
    """Two small sections in her2st's layout, 200 µm apart at 2 µm/px; K2's spots lie off tissue."""
    xy, row, col = lay(ST, 700, 700)
    image = Image.fromarray(tissue_image())
    names = [f"{x}x{y}" for x, y in zip(col, row, strict=True)]
    for name, left in (("K1", 225), ("K2", 0)):
        for part in ("ST-cnts", "ST-spotfiles", f"ST-imgs/K/{name}"):
            (tmp_path / part).mkdir(parents=True, exist_ok=True)
        counts = pd.DataFrame({"A": 300, "B": 7, f"only {name}": 1}, index=names)
        counts.to_csv(tmp_path / f"ST-cnts/{name}.tsv", sep="\t")
        px, py = (xy / 2 + left).T
        spots = pd.DataFrame({"x": col, "y": row, "pixel_x": px, "pixel_y": py, "selected": 1})
        spots.to_csv(tmp_path / f"ST-spotfiles/{name}_selection.tsv", sep="\t", index=False)
        image.save(tmp_path / f"ST-imgs/K/{name}/slide.png")
    return tmp_path


def test_a_section_that_cannot_be_used(genar, data: Path) -> None:
    status, out, err = genar("check", str(data), "--mpp", "2", "--csv", str(data / "new/found.csv"))
    assert (status, err) == (2, "")
    header, k1, k2, fault, summary = out.splitlines()
    assert header.split() == "section patient spots genes library counts µm/px from pitch tissue names".split()
    assert k1.split() == "K1 K 16 3 308 K1.tsv 2 given by the user 200/200 100% symbols ok".split()
    assert k2.split()[-1] == "error"
    assert k1.index("200/200") == k2.index("200/200")
    assert re.fullmatch(r"K2: error: only \d+% of its spots lie on tissue: .*; look at them with --overlay.*", fault)
    assert summary == "1 of 2 sections can be trained on: 16 spots, 1 patient, 3 genes in all of them, 0 in only some"
    found = pd.read_csv(data / "new/found.csv", index_col="section")
    assert list(found.index) == ["K1", "K2"]
    assert found.loc["K2", "errors"] in fault


def test_sections_that_can_be_used(genar, data: Path) -> None:
    status, out, err = genar("check", str(data), "--sections", "K1", "--overlay", str(data / "pictures"))
    assert (status, err) == (0, "")
    assert [p.name for p in (data / "pictures").iterdir()] == ["K1.png"]
    _, k1, summary = out.splitlines()
    assert " measured " in k1
    assert k1.endswith(" ok")
    assert summary.startswith("1 of 1 sections can be trained on: 16 spots, 1 patient, 3 genes")


def test_sections_of_one_patient_are_named(genar, data: Path) -> None:
    image = str(data / "ST-imgs/K/K1/slide.png")
    (data / "ST-spotfiles/K2_selection.tsv").write_text((data / "ST-spotfiles/K1_selection.tsv").read_text())
    _, out, _ = genar("check", str(data), "--mpp", "2")
    assert out.endswith(
        "32 spots, 1 patient, 2 genes in all of them, 2 in only some\npatient K: sections K1, K2\n"
        "one patient cannot be split by patient: train with --split.method leave_one_section_out"
        " --split.validation section --split.shared_patients '[K]'\n"
    )
    status, _, err = genar("check", str(data), "--image", image)
    assert status == 2
    assert "--image: it is one image for 2 sections; choose one with --sections" in err
    assert genar("check", str(data), "--image", image, "--sections", "K2", "--mpp", "2")[0] == 0


def test_a_section_that_is_not_there(genar, data: Path) -> None:
    status, out, err = genar("check", str(data), "--sections", "K1", "K9")
    assert (status, out) == (2, "")
    assert err == "genar: error: --sections: there is no section 'K9'; choose among K1, K2\n"


def test_pictures_that_cannot_be_written_are_told_before_the_work(genar, data: Path) -> None:
    (data / "file").write_text("")
    status, out, err = genar("check", str(data), "--overlay", str(data / "file"))
    assert (status, out) == (2, "")
    assert "file/section.png" in err


def test_a_narrow_terminal_loses_where_figures_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SectionReport(
        "TENX95", "Patient 1", 4992, 36601, 5508.5, "layers/counts", 0.2738, "HEST's pixel_size_um_estimated", 100,
        99.8, 0.871, identifiers="mixed", match_rate=0.93,
    )  # fmt: skip
    reports = [report, SectionReport("x", errors=("a; b",))]
    monkeypatch.setenv("COLUMNS", "120")
    wide = lines(reports).splitlines()
    assert max(map(len, wide)) <= 120
    assert "layers/counts 0.2738 HEST's pixel_size_u… 100/100    87% mixed 93% ok" in wide[1]
    monkeypatch.setenv("COLUMNS", "80")
    narrow = lines(reports).splitlines()
    assert max(map(len, narrow)) <= 80
    assert narrow[1] == "TENX95  Patient 1 4,992 36,601   5,508 0.2738 100/100    87% mixed 93% ok"
    assert narrow[2].split() == ["x", "-", "0", "0", "-", "-", "-", "-", "-", "error"]


def test_real_sections(genar, shared: Path) -> None:
    status, out, _ = genar("check", str(shared / "data/her2st"), "--sections", "C2")
    assert status == 0
    assert re.search(r"^C2 +C +187 15,706 +8,508 C2.tsv.gz 0.6\d+ measured \d+/200 +99% symbols", out, re.MULTILINE)
