"""What a file holds, told by its hash and remembered."""

import json
from contextlib import suppress
from pathlib import Path

from genar.errors import SlideError
from genar.slide.files import stamp
from genar.slide.open import Slide
from genar.write.atomic import beside


def content(slide: Slide, memory: Path) -> str:
    """Return the SHA-256 of a slide, in hexadecimal, as :meth:`genar.slide.open.Slide.sha256` does.

    Parameters
    ----------
    slide
        The slide; it need not be open.
    memory
        JSON in which hashes are remembered, so that a slide of gigabytes is not read at every start: each for as
        long as the file's size and time of change stay. Where it cannot be written, nothing is remembered.

    Raises
    ------
    SlideError
        If the file cannot be read.
    """
    try:
        path = slide.path.resolve(strict=True)
        now = stamp(path)
        known = _remembered(memory).get(str(path), [])
        if known[:-1] == now:
            return str(known[-1])
        digest = slide.sha256()
    except OSError as e:
        remedy = "put it back, or read the section again with its image where it is now"
        raise SlideError(slide.path, f"it cannot be read ({e.strerror})", remedy) from e
    with suppress(OSError), beside(memory) as temporary:  # a cache that others filled may be read-only
        temporary.write_text(json.dumps(_remembered(memory) | {str(path): [*now, digest]}, indent=1))
    return digest


def _remembered(memory: Path) -> dict[str, list[int | str]]:
    """Read the remembered hashes; they only save time, so that a file that cannot be read is as good as none."""
    try:
        found = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
