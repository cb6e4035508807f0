"""Telling formats apart: each function lists the sections at a path, by name and by what the reader takes."""

import glob
import logging
from pathlib import Path

from genar.errors import DataError
from genar.read.hest import wsi_of
from genar.read.visium import outs_of

logger: logging.Logger = logging.getLogger("genar")

Found = list[tuple[str, Path]]


def visium_at(path: Path) -> Found:
    """Recognise a Space Ranger folder: ``outs``, or what holds it."""
    outs = outs_of(path) if path.is_dir() else None
    if outs is None:
        return []
    section = outs.absolute().parent if outs.absolute().name == "outs" else outs.absolute()
    return [(section.name, path)]


def st_at(path: Path) -> Found:
    """Recognise a root laid out as her2st, or one file below its ``ST-cnts``."""
    if path.is_file():
        return [(stem(path), path)] if path.absolute().parent.name == "ST-cnts" and ".tsv" in path.name else []
    counts = sorted(path.glob("ST-cnts/*.tsv*"))
    whole = [
        file
        for file in counts
        if (path / "ST-spotfiles" / f"{stem(file)}_selection.tsv").is_file()
        and any(path.glob(f"ST-imgs/*/{glob.escape(stem(file))}/*"))
    ]
    return _complete(path, counts, whole, "image or spot file")


def hest_at(path: Path) -> Found:
    """Recognise a root laid out as HEST, or one file below its ``st``."""
    root = path if path.is_dir() else path.absolute().parent.parent
    if not ((root / "st").is_dir() and (root / "metadata").is_dir()):
        return []
    if path.is_file():
        return [(stem(path), path)] if path.suffix == ".h5ad" and path.absolute().parent.name == "st" else []
    tables = sorted(path.glob("st/*.h5ad"))
    whole = [file for file in tables if wsi_of(path, stem(file)) or (path / f"patches/{stem(file)}.h5").is_file()]
    return _complete(path, tables, whole, "slide or patches")


def h5ad_at(path: Path) -> Found:
    """Recognise an AnnData file."""
    return [(path.stem, path)] if path.is_file() and path.suffix == ".h5ad" else []


def spatialdata_at(path: Path) -> Found:
    """Recognise a SpatialData store."""
    return [(path.stem, path)] if path.is_dir() and path.suffix == ".zarr" else []


def stem(file: Path) -> str:
    """Return a section's name from its file's."""
    return file.name.split(".tsv")[0].removesuffix(".h5ad")


def _complete(root: Path, files: list[Path], whole: list[Path], lacking: str) -> Found:
    """Leave out the sections that lack something, and say how many."""
    if files and not whole:
        raise DataError(root, f"none of its {len(files)} sections has an {lacking}", "add these, or name one section")
    if len(whole) < len(files):
        logger.info("%s: %d sections without %s are left out", root, len(files) - len(whole), lacking)
    return [(stem(file), file) for file in whole]
