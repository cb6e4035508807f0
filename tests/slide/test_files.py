"""Slides of several files: a change in any of them makes another slide."""

import hashlib
import shutil

import pytest

from genar.encoders.content import content
from genar.slide.files import files_of, sha256_of
from genar.slide.open import Slide


def lone(folder):
    (folder / "a.svs").write_bytes(b"1")
    (folder / "a.txt").write_bytes(b"2")
    return folder / "a.svs", {""}


def mirax(folder):
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for name in ("a.mrxs", "a/Slidedat.ini", "a/Data0000.dat", "b/Data0000.dat"):
        (folder / name).write_bytes(name.encode())
    return folder / "a.mrxs", {"", "Slidedat.ini", "Data0000.dat"}


def hamamatsu(folder):
    text = "[Virtual Microscope Specimen]\nNoLayers=1\nImageFile=a.jpg\nImageFile(1,0)=b.jpg\nMapFile=../c.jpg\n"
    (folder / "a.vms").write_text(text)
    for name in ("a.jpg", "b.jpg", "d.jpg"):
        (folder / name).write_bytes(name.encode())
    return folder / "a.vms", {"", "a.jpg", "b.jpg"}


def dicom(folder):
    def instance(series):
        value = series.encode()
        return bytes(128) + b"DICM" + b"\x08\x00" * 9 + b"\x20\x00\x0e\x00UI" + len(value).to_bytes(2, "little") + value

    (folder / "a.dcm").write_bytes(instance("1.2.3"))
    (folder / "b.dcm").write_bytes(instance("1.2.3") + b"pixels")
    (folder / "c.dcm").write_bytes(instance("1.2.4"))
    (folder / "d.txt").write_bytes(b"d")
    return folder / "a.dcm", {"", "b.dcm"}


@pytest.fixture(params=[lone, mirax, hamamatsu, dicom])
def slide(request, tmp_path):
    (tmp_path / "here").mkdir()
    return request.param(tmp_path / "here")


def test_which_files_there_are(slide):
    path, names = slide
    assert set(files_of(path)) == names
    assert files_of(path)[""] == path


def test_a_change_in_any_file_is_another_slide(slide, tmp_path):
    path, names = slide
    memory = tmp_path / "hashes.json"
    digests = {content(Slide(path, 0.5, ""), memory)}
    for one in files_of(path).values():
        with one.open("ab") as file:
            file.write(b"!")
        digests.add(content(Slide(path, 0.5, ""), memory))
    assert len(digests) == 1 + len(names)


def test_a_slide_moved_with_its_files_is_the_same(slide, tmp_path):
    path, _ = slide
    first = sha256_of(path)
    assert first == Slide(path, 0.5, "").sha256()
    shutil.copytree(path.parent, tmp_path / "there")
    assert sha256_of(tmp_path / "there" / path.name) == first


def test_one_file_has_its_own_hash(tmp_path):
    path, _ = lone(tmp_path)
    assert sha256_of(path) == hashlib.sha256(b"1").hexdigest()


def test_a_mirax_slide_may_be_renamed_with_its_folder(tmp_path):
    path, _ = mirax(tmp_path)
    first = sha256_of(path)
    path.rename(tmp_path / "n.mrxs")
    (tmp_path / "a").rename(tmp_path / "n")
    assert sha256_of(tmp_path / "n.mrxs") == first


def test_real_dicom_files_of_one_series(shared, tmp_path):
    for name in ("boxes_0.dcm", "boxes_1.dcm"):
        shutil.copyfile(shared / "data/wsi" / name, tmp_path / name)
    assert set(files_of(tmp_path / "boxes_0.dcm")) == {"", "boxes_1.dcm"}


def test_a_link_is_the_slide_that_lies_beside_it(tmp_path):
    """OpenSlide looks for the other files beside the path that it is given, and so does the hash that is kept."""
    path, _ = mirax(tmp_path)
    link = tmp_path / "links" / path.name
    link.parent.mkdir()
    link.symlink_to(path)
    memory = tmp_path / "hashes.json"
    alone, whole = (content(Slide(one, 0.5, ""), memory) for one in (link, path))
    assert (alone, whole) == (sha256_of(link), sha256_of(path))
    assert alone != whole
