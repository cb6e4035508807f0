"""What a file holds, told by its hash and remembered."""

import json
from contextlib import suppress
from pathlib import Path

from genar.errors import SlideError
from genar.slide.files import sha256_of, stamp
from genar.slide.open import Slide
from genar.write.atomic import beside


def content(slide: Slide, memory: Path) -> str:
    """Return the SHA-256 of a slide, in hexadecimal, as :meth:`genar.slide.open.Slide.sha256` does.

    Parameters
    ----------
    slide
        The slide; it need not be open.
    memory
        As :func:`remembered` takes it.

    Raises
    ------
    SlideError
        If the file cannot be read.
    """
    try:
        return remembered(slide.path, memory)
    except OSError as e:
        remedy = "put it back, or read the section again with its image where it is now"
        raise SlideError(slide.path, f"it cannot be read ({e.strerror})", remedy) from e


def remembered(path: Path, memory: Path) -> str:
    """Return a file's SHA-256, in hexadecimal, as :func:`genar.slide.files.sha256_of` does.

    Parameters
    ----------
    path
        The file.
    memory
        JSON in which hashes are remembered, so that gigabytes are not read at every start: each for as long as the
        file's size and time of change stay. Where it cannot be written, nothing is remembered.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    path = path.absolute()  # links are not followed: what belongs to a slide of several files lies beside the link
    now = stamp(path)
    known = _read(memory).get(str(path), [])
    if known[:-1] == now:
        return str(known[-1])
    digest = sha256_of(path)
    with suppress(OSError):  # a cache that others filled may be read-only
        memory.parent.mkdir(parents=True, exist_ok=True)
        with beside(memory) as temporary:
            temporary.write_text(json.dumps(_read(memory) | {str(path): [*now, digest]}, indent=1))
    return digest


def _read(memory: Path) -> dict[str, list[int | str]]:
    """Read the remembered hashes; they only save time, so that a file that cannot be read is as good as none."""
    try:
        found = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
