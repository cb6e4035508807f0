import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData

import genar
from genar import keys
from genar.errors import DataError
from genar.read import Source, find
from genar.slide.section import metadata
from tests.read import layouts

Cut = tuple[AnnData, np.ndarray]


@pytest.fixture(scope="session")
def her2st(cut: Cut, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sections laid out as her2st, and one without an image."""
    root = tmp_path_factory.mktemp("her2st")
    for name, image in (("C2", cut[1]), ("C3", cut[1]), ("A1", None)):
        layouts.write_st(cut[0], root, image, name)
    return root


def test_her2st(her2st: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "genar"):
        found = find(her2st)
    assert [(source.name, source.format) for source in found] == [("C2", "st"), ("C3", "st")]
    assert "1 sections without image or spot file are left out" in caplog.text
    one = find(her2st / "ST-cnts/C2.tsv.gz")
    assert [(source.name, source.format) for source in one] == [("C2", "st")]
    read = Source("C2", "st", her2st).read()
    assert read.shape == (30, 40)
    assert read.obs[keys.PATIENT].unique().tolist() == ["C"]
    assert metadata(read)[keys.MPP] == pytest.approx(0.687, rel=0.01)
    assert metadata(read)[keys.MPP_SOURCE].startswith("measured: spots 200 µm apart")


def test_hest(cut: Cut, tmp_path: Path) -> None:
    for name, wsi, patches in (("A", True, 0), ("B", False, 3), ("C", False, 0)):
        layouts.write_hest(cut[0], tmp_path, cut[1], name, wsi=wsi, patches=patches)
    assert [(source.name, source.format) for source in find(tmp_path)] == [("A", "hest"), ("B", "hest")]
    assert find(tmp_path / "st/A.h5ad")[0].read().n_obs == cut[0].n_obs
    assert Source("B", "hest", tmp_path).read().n_obs == 3


def test_folder_of_sections(on_visium: Cut, cut: Cut, tmp_path: Path) -> None:
    layouts.write_visium_v2(on_visium[0], tmp_path / "02", on_visium[1])
    layouts.write_visium_v1(on_visium[0], tmp_path / "01.a", on_visium[1])
    layouts.write_h5ad(cut[0], tmp_path / "my h5ad.h5ad", cut[1])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.csv").write_text("a,b\n")
    found = find(tmp_path)
    names = [("01.a", "visium"), ("02", "visium"), ("my h5ad", "h5ad")]
    assert [(source.name, source.format) for source in found] == names
    assert found[1].read().obs[keys.LIBRARY_ID].unique().tolist() == ["02"]
    assert [(s.name, s.format) for s in find(tmp_path / "02")] == [("02", "visium")]
    assert [(s.name, s.format) for s in find(tmp_path / "02/outs")] == [("02", "visium")]


def test_centres_and_counts_agree_between_layouts(cut: Cut, tmp_path: Path) -> None:
    section, image = cut
    (tmp_path / "hd").mkdir()
    paths = [
        layouts.write_visium_v1(section, tmp_path / "v1", image),
        layouts.write_visium_v2(section, tmp_path / "v2", image),
        layouts.write_visium_hd(section, tmp_path / "hd/a", image, bins=[8]),
        layouts.write_hest(section, tmp_path / "hest", image, "a"),
        layouts.write_h5ad(section, tmp_path / "a.h5ad", image),
        layouts.write_st(section, tmp_path / "her2st", image, "a"),
    ]
    for path in paths:
        tolerance = 0.5 if path.name == "v1" else 1e-9
        picture = path.with_suffix(".tif") if path.suffix == ".h5ad" and path.parent.name != "st" else None
        read = genar.read.section(path, image=picture, mpp=0.687, patient="1")
        assert list(read.obs_names) == list(section.obs_names)
        assert (read.X != section.X).nnz == 0
        assert np.abs(read.obsm[keys.SPATIAL] - section.obsm[keys.SPATIAL]).max() <= tolerance
        assert metadata(read)[keys.MPP] == 0.687
        lowres = read.uns[keys.SPATIAL][read.obs[keys.LIBRARY_ID].iloc[0]][keys.IMAGES][keys.LOWRES]
        assert lowres.shape == (600, round(600 * image.shape[1] / image.shape[0]), 3)


def sheet(folder: Path, text: str, name: str = "samples.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_sample_sheet(on_visium: Cut, cut: Cut, her2st: Path, tmp_path: Path) -> None:
    layouts.write_visium_v2(on_visium[0], tmp_path / "données/V 1", None)
    layouts.write_image(tmp_path / "slides/007.tif", on_visium[1])
    layouts.write_h5ad(cut[0], tmp_path / "a.h5ad", cut[1])
    lines = [
        "\ufeffpath,section,image,mpp,patient,format",
        "données/V 1,007,slides/007.tif,,01,",
        "a.h5ad,,a.tif,0.687,02,h5ad",
        f"{her2st},C3,,,03,",
    ]
    first, second, third = find(sheet(tmp_path, "\n".join(lines)))
    assert (first.name, first.patient, first.mpp) == ("007", "01", None)
    assert first.image == tmp_path / "slides/007.tif"
    assert (second.name, second.format, second.mpp) == ("a", "h5ad", 0.687)
    assert (third.name, third.format, third.path) == ("C3", "st", her2st / "ST-cnts/C3.tsv.gz")
    read = first.read()
    assert read.obs[keys.LIBRARY_ID].unique().tolist() == ["007"]
    assert read.obs[keys.PATIENT].unique().tolist() == ["01"]
    assert metadata(second.read())[keys.MPP] == 0.687


def test_section_takes_a_name_of_its_own(her2st: Path, tmp_path: Path) -> None:
    file = sheet(tmp_path, f"path\tsection\n{her2st}/ST-cnts/C2.tsv.gz\ttumour 1\n", "samples.tsv")
    read = find(file)[0].read()
    assert read.shape == (30, 40)
    assert list(read.uns[keys.SPATIAL]) == ["tumour_1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("path,pateint\na.h5ad,1\n", "unknown column 'pateint'; did you mean patient?"),
        ("section\na\n", "lacks the column path"),
        ("path\n", "lists no section"),
        ("path,section\n,a\n", "line 2 has no path"),
        ("path\nb.h5ad\n", "b.h5ad: samples.csv lists it, but it is not there"),
        ("path\nsamples.csv\n", "no known section was found"),
        ("path,mpp\na.h5ad,half\n", "'half' in the column mpp"),
        ("path,bin_um\na.h5ad,0\n", "'0' in the column bin_um"),
        ("path,format\na.h5ad,h5\n", "'h5' is not a format; give visium"),
        ("path,format\na.h5ad,visium\n", "no visium section was found"),
        ("path\na.h5ad\na.h5ad\n", "two sections are called 'a'"),
        ("path,section\na.h5ad,a b\na.h5ad,a_b\n", "two sections are called 'a_b' .'a b' and 'a_b'"),
        ("", "cannot be read"),
    ],
)
def test_sample_sheets_that_are_wrong(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.h5ad").touch()
    with pytest.raises(DataError, match=why):
        find(sheet(tmp_path, text))


def test_nothing_and_too_much(her2st: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        find(tmp_path / "a")
    with pytest.raises(DataError, match=r"no section was found in it; give a Space Ranger folder, .* sample sheet"):
        find(tmp_path)
    with pytest.raises(DataError, match=r"2 sections \(C2, C3\); name one"):
        genar.read.section(her2st)
    with pytest.raises(DataError, match=r"none of them 'C9'"):
        genar.read.section(her2st, name="C9")
    with pytest.raises(DataError, match="only Visium HD has bins"):
        genar.read.section(her2st, name="C2", bin_um=8)
    (tmp_path / "ST-cnts").mkdir()
    shutil.copy(her2st / "ST-cnts/A1.tsv.gz", tmp_path / "ST-cnts/A1.tsv.gz")
    with pytest.raises(DataError, match="none of its 1 sections has an image"):
        find(tmp_path)
