# ruff: noqa: PT012 - under test is what a block of several statements leaves behind
import errno
from pathlib import Path

import pytest

from genar.errors import OutputError
from genar.write.atomic import atomic, check_writable


@pytest.fixture
def targets(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "new" / "out" / "a.h5ad", tmp_path / "new" / "out" / "a.png"


def write(paths: tuple[Path, ...], text: str = "new") -> None:
    for path in paths:
        path.write_text(text)


def test_all_files_appear_at_the_end(targets: tuple[Path, Path], tmp_path: Path) -> None:
    with atomic(*targets, overwrite=False) as beside:
        write(beside)
        assert [p.suffix for p in beside] == [".h5ad", ".png"]
        assert [p.parent.parent for p in beside] == [t.parent for t in targets]  # in a folder that is theirs alone
        assert not any(t.exists() for t in targets)
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted(targets)
    assert [t.read_text() for t in targets] == ["new", "new"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_a_failure_leaves_nothing(targets: tuple[Path, Path], tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), atomic(*targets, overwrite=False) as beside:
        write(beside)
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(ValueError, match="x"), atomic(tmp_path / "old/new/a", overwrite=False) as (path,):
        path.write_text("half")
        raise ValueError("x")
    assert list(tmp_path.rglob("*")) == [tmp_path / "old"]


def test_a_failure_keeps_a_made_folder_that_another_uses(targets: tuple[Path, Path]) -> None:
    other = targets[0].with_name("other")
    with pytest.raises(ValueError, match="x"), atomic(*targets, overwrite=False):
        other.touch()
        raise ValueError("x")
    assert list(other.parent.iterdir()) == [other]


def test_a_file_that_was_not_written(targets: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"), atomic(*targets, overwrite=False):
        pass
    assert list(tmp_path.iterdir()) == []


def test_existing_files_need_overwrite(tmp_path: Path) -> None:
    targets = tmp_path / "a", tmp_path / "b"
    targets[1].write_text("old")
    with pytest.raises(OutputError, match=r"b: it exists; add --overwrite"), atomic(*targets, overwrite=False):
        pytest.fail("entered")
    with atomic(*targets, overwrite=True) as beside:
        write(beside)
        assert targets[1].read_text() == "old"
    assert [t.read_text() for t in targets] == ["new", "new"]


def test_a_failed_overwrite_keeps_the_old(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(ValueError, match="x"), atomic(target, overwrite=True) as beside:
        write(beside)
        raise ValueError("x")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    targets = tmp_path / "a", tmp_path / "b"
    with pytest.raises(OutputError, match="b: it exists"), atomic(*targets, overwrite=False) as beside:
        write(beside)
        targets[1].write_text("another's")
    assert list(tmp_path.iterdir()) == [targets[1]]
    assert targets[1].read_text() == "another's"


def test_a_folder_that_appears_meanwhile(tmp_path: Path) -> None:
    targets = tmp_path / "a", tmp_path / "b"
    with pytest.raises(OutputError, match="in the way"), atomic(*targets, overwrite=True) as beside:
        write(beside)
        targets[1].mkdir()
    assert list(tmp_path.iterdir()) == [targets[1]]


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_in_the_way(tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(OutputError, match="a folder of that name is in the way"):
        check_writable(tmp_path, overwrite=overwrite)


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "out" / "a"
    with pytest.raises(OutputError, match=r"its folder cannot be written to \(Not a directory\)"):
        check_writable(target, overwrite=True)
    with pytest.raises(OutputError), atomic(target, overwrite=True):
        pytest.fail("entered")


def test_a_folder_that_nobody_can_write_to() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc here")
    with pytest.raises(OutputError, match="its folder cannot be written to"):
        check_writable(Path("/proc/out/a.h5ad"), overwrite=False)


@pytest.mark.parametrize("folder", ["", "new/out"])
def test_a_name_that_is_too_long(tmp_path: Path, folder: str) -> None:
    with pytest.raises(OutputError, match=r"it cannot be written \(File name too long\); rename the slide"):
        check_writable(tmp_path / folder / ("x" * 300), overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_that_fits(tmp_path: Path) -> None:
    targets = [tmp_path / f"{'x' * 250}{i}.png" for i in range(2)]
    assert len(targets[0].name) == 255
    with atomic(*targets, overwrite=False) as beside:
        write(beside[:1], "first")
        write(beside[1:], "second")
    assert [t.read_text() for t in targets] == ["first", "second"]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=repr)
def test_a_rename_that_fails_takes_back_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    targets = tmp_path / "new" / "a", tmp_path / "new" / "b"
    rename = Path.replace

    def replace(source: Path, target: Path) -> Path:
        if target == targets[1]:
            assert targets[0].read_text() == "new"
            raise error
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    kind = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind), atomic(*targets, overwrite=False) as beside:
        write(beside)
    assert list(tmp_path.iterdir()) == []


def test_checking_writes_nothing(targets: tuple[Path, Path], tmp_path: Path) -> None:
    check_writable(targets[0], overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_full_disk(targets: tuple[Path, Path], tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"a.h5ad: it cannot be written \(No space left on device\); free space"),
        atomic(*targets, overwrite=False) as beside,
    ):
        write(beside)
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_error_without_a_number(targets: tuple[Path, Path]) -> None:
    with pytest.raises(OutputError, match=r"\(Can't write data\)"), atomic(*targets, overwrite=False):
        raise OSError("Can't write data")  # as h5py does
