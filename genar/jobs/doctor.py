"""Whether genar can work on this machine, and what to mend."""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.requirements import Requirement

Status = Literal["ok", "note", "FIX"]
SHOWN = ("torch", "lightning", "timm", "anndata", "scanpy", "numpy")
LITTLE, TOO_LITTLE = 5e9, 5e8  # bytes on a disk


class Finding(NamedTuple):
    """What a check found.

    Parameters
    ----------
    status
        ``"ok"``, ``"note"`` of what one may want to know, or ``"FIX"``.
    check
        What was checked.
    said
        What was found, and what to do about it.
    """

    status: Status
    check: str
    said: str


def examine(*, offline: bool = False) -> Iterator[Finding]:
    """Yield the findings of each check as it is done.

    Parameters
    ----------
    offline
        Do not ask the Hugging Face hub.
    """
    yield from _of("packages", packages)
    yield from _of("device", device)
    yield from _of("OpenSlide", openslide)
    yield from _of("codecs", codecs)
    yield from _of("disk", disk)
    if not offline:
        yield from _of("hub", hub)
    yield from _of("models", models)


def _of(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Do a check; what it raises, as a broken library does in many ways, is to be mended, too."""
    try:
        yield from check()
    except Exception as e:  # noqa: BLE001 - whatever is broken is what is looked for
        line = " ".join(str(e).split())[:200]
        yield Finding("FIX", name, f"{type(e).__name__}: {line}; reinstall genar and what it needs")


def packages() -> Iterator[Finding]:
    """Check that what genar needs is installed, in versions that it works with."""
    python = f"genar {version('genar')}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield Finding("ok", "versions", python)
    wrong = []
    for needed in map(Requirement, requires("genar") or ()):
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            try:
                found = version(needed.name)
            except PackageNotFoundError:
                found = "nothing"
            if found == "nothing" or not needed.specifier.contains(found, prereleases=True):
                wrong.append((needed, found))
    for needed, found in wrong:
        yield Finding("FIX", needed.name, f"{found} is installed; pip install '{needed.name}{needed.specifier}'")
    if not wrong:
        yield Finding("ok", "packages", ", ".join(f"{name} {version(name)}" for name in SHOWN))


def device() -> Iterator[Finding]:
    """Say what will compute."""
    import torch

    from genar.device import cores

    for i in range(torch.cuda.device_count()):
        known = torch.cuda.get_device_properties(i)
        torch.ones(8, device=f"cuda:{i}").sum().item()  # raises where torch was not built for this GPU
        yield Finding("ok", "device", f"cuda:{i}, {known.name}, {known.total_memory / 1e9:.0f} GB")
    if torch.cuda.is_available():
        return
    if shutil.which("nvidia-smi"):
        said = "there is an NVIDIA driver, but this torch cannot use it; see https://pytorch.org/get-started/locally"
        yield Finding("note", "device", said)
    n = cores()
    yield Finding("ok", "device", f"CPU, {n} core{'s' * (n > 1)}; no GPU that torch can use")
    try:
        yield Finding("ok", "OpenVINO", version("openvino"))
    except PackageNotFoundError:
        said = "not installed; pip install 'genar[openvino]' makes the bundled encoder twice as fast on a CPU"
        yield Finding("note", "OpenVINO", said)


def openslide() -> Iterator[Finding]:
    """Open a small slide with OpenSlide."""
    import numpy as np
    import tifffile

    try:
        import openslide as library
    except (ImportError, OSError) as e:
        remedy = "pip install --force-reinstall openslide-bin openslide-python"
        yield Finding("FIX", "OpenSlide", f"it cannot be loaded ({' '.join(str(e).split())[:120]}); {remedy}")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slide.tif"
        tifffile.imwrite(path, np.full((512, 512, 3), 200, np.uint8), tile=(256, 256), photometric="rgb")
        with library.OpenSlide(path) as slide:
            pixel = np.asarray(slide.read_region((300, 300), 0, (1, 1)))[0, 0, :3]
    if (pixel != 200).any():
        yield Finding("FIX", "OpenSlide", f"{library.__library_version__} misreads a TIFF; reinstall openslide-bin")
        return
    yield Finding("ok", "OpenSlide", f"{library.__library_version__}, reads a tiled TIFF")


def codecs() -> Iterator[Finding]:
    """Decode with each codec that slides are compressed with."""
    import imagecodecs
    import numpy as np
    import simplejpeg

    picture = np.full((64, 64, 3), 90, np.uint8)
    pairs: dict[str, Callable[[], object]] = {
        "JPEG": lambda: simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(picture)),
        "JPEG in TIFF": lambda: imagecodecs.jpeg8_decode(imagecodecs.jpeg8_encode(picture)),
        "JPEG 2000": lambda: imagecodecs.jpeg2k_decode(imagecodecs.jpeg2k_encode(picture)),
        "LZW": lambda: np.frombuffer(imagecodecs.lzw_decode(imagecodecs.lzw_encode(picture.tobytes())), np.uint8),
        "deflate": lambda: np.frombuffer(imagecodecs.zlib_decode(imagecodecs.zlib_encode(picture.tobytes())), np.uint8),
    }
    broken = [name for name, decode in pairs.items() if not _decodes(decode)]
    if broken:
        remedy = "pip install --force-reinstall imagecodecs simplejpeg"
        yield Finding("FIX", "codecs", f"{', '.join(broken)} cannot be decoded; {remedy}")
    else:
        yield Finding("ok", "codecs", ", ".join(pairs))


def _decodes(decode: Callable[[], object]) -> bool:
    """Tell whether a codec gives back the grey of the picture, nearly."""
    import numpy as np

    try:
        return bool(np.abs(np.asarray(decode()).astype(int) - 90).max() <= 4)
    except Exception:  # noqa: BLE001 - a codec that was left out, or that is broken in whatever way
        return False


def disk() -> Iterator[Finding]:
    """Check that there is room where genar writes, and that it may."""
    from huggingface_hub import constants

    from genar.encoders.weights import cache_folder

    places = {"this folder": Path.cwd(), "genar's cache": cache_folder(), "hub's cache": Path(constants.HF_HUB_CACHE),
              "temporary files": Path(tempfile.gettempdir())}  # fmt: skip
    remedies = {"this folder": "give -o", "genar's cache": "set GENAR_CACHE", "hub's cache": "set HF_HOME",
                "temporary files": "set TMPDIR"}  # fmt: skip
    for name, path in places.items():
        there = next(p for p in (path, *path.absolute().parents) if p.exists())
        free = shutil.disk_usage(there).free
        said = f"{free / 1e9:.1f} GB free at {path}"
        if not os.access(there, os.W_OK):
            status: Status = "note" if name == "this folder" else "FIX"
            yield Finding(status, name, f"{path} cannot be written to; {remedies[name]}")
        elif free < LITTLE:
            yield Finding("FIX" if free < TOO_LITTLE else "note", name, f"{said}; free space, or {remedies[name]}")
        else:
            yield Finding("ok", name, said)


def hub() -> Iterator[Finding]:
    """Say whether the Hugging Face hub can be reached; genar works without it."""
    from huggingface_hub import constants, get_token

    from genar.encoders.hub import unreachable

    if why := unreachable():
        said = f"{why}: only what is here can be used; see docs/models.md for models, 'genar encoders' for encoders"
        yield Finding("note", "hub", said)
        return
    login = "a token is set" if get_token() else "no token; 'hf auth login' for private and gated repositories"
    yield Finding("ok", "hub", f"{constants.ENDPOINT} answers; {login}")


def models() -> Iterator[Finding]:
    """Check that each bundled model gives what was recorded of it."""
    from genar.record import fault
    from genar.shelf import BUNDLED, bundled

    if not bundled():
        yield Finding("FIX", "models", "none came with genar; reinstall it")
    for name in bundled():
        error = fault(BUNDLED / name)
        said = "gives its recorded output" if error is None else str(error)
        yield Finding("ok" if error is None else "FIX", f"model {name}", said)
