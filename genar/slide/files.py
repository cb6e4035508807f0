"""The files that make up a slide, where it is more than the one that is named, and their hash."""

import hashlib
import re
from pathlib import Path

DICOM_HEAD = 2**18  # bytes in which a DICOM file names its series
SERIES = re.compile(rb"\x20\x00\x0e\x00UI..([0-9.]+)", re.DOTALL)  # (0020,000E) in explicit VR, little endian


def files_of(path: Path) -> dict[str, Path]:
    """Return the files that OpenSlide reads for a slide, each under a name that moving the slide does not change.

    - a folder: all files in it;
    - MIRAX (``.mrxs``): the file, and all in the folder beside it that is named like it;
    - Hamamatsu (``.vms``, ``.vmu``): the file, and those beside it that it names;
    - DICOM: the file, and those beside it that name the same series;
    - all others: the file alone.

    Raises
    ------
    OSError
        If one cannot be read.
    """
    if path.is_dir():
        return _below(path)
    suffix = path.suffix.lower()
    if suffix == ".mrxs":
        return {"": path} | _below(path.with_suffix(""))
    if suffix in {".vms", ".vmu"}:
        values = (line.partition("=")[2].strip() for line in path.read_text(errors="replace").splitlines())
        return {"": path} | {name: path.parent / name for name in sorted(filter(None, values)) if _beside(path, name)}
    return {"": path} | _series(path)


def _below(folder: Path) -> dict[str, Path]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p for p in files}


def _beside(path: Path, name: str) -> bool:
    """Tell whether a value that a slide's file holds is the name of another file in its folder."""
    return "/" not in name and "\\" not in name and "\0" not in name and (path.parent / name).is_file()


def _series(path: Path) -> dict[str, Path]:
    """Return the other files of a DICOM slide; none where the file is no DICOM."""
    series = _named_series(path)
    if not series:
        return {}
    others = (p for p in sorted(path.parent.iterdir()) if p.is_file() and not p.samefile(path))
    return {p.name: p for p in others if series & _named_series(p)}


def _named_series(path: Path) -> set[bytes]:
    """Return the series that a DICOM file belongs or refers to."""
    with path.open("rb") as file:
        if file.read(132)[128:] != b"DICM":
            return set()
        return set(SERIES.findall(file.read(DICOM_HEAD)))


def stamp(path: Path) -> list[int]:
    """Return what tells that a file, or one of several, has changed: number of files, bytes, latest change in ns.

    Raises
    ------
    OSError
        If one cannot be read.
    """
    status = [file.stat() for file in files_of(path).values()]
    return [len(status), sum(s.st_size for s in status), max((s.st_mtime_ns for s in status), default=0)]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a slide, in hexadecimal: of its one file, or of its files' names and digests.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    files = files_of(path)
    digests = {}
    for name, one in files.items():
        with one.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    if list(files) == [""]:
        return digests[""]
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in digests.items()).encode()).hexdigest()
