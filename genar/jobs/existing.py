"""Results that are there already, read as far as is needed to tell what they are."""

import json
from dataclasses import dataclass
from pathlib import Path

import h5py

from genar import keys
from genar.encoders.cache import HASHES
from genar.encoders.content import content
from genar.errors import OutputError
from genar.ood import unlike
from genar.slide.files import sha256_of, stamp
from genar.slide.open import Slide
from genar.write.atomic import ELSEWHERE

REQUEST, SLIDE_STAMP, SLIDE_SHA256 = "request", "slide_stamp", "slide_sha256"  # in uns["genar"]


@dataclass(frozen=True)
class Existing:
    """What a result says of how it was made.

    Parameters
    ----------
    request
        What was asked for, as :meth:`genar.jobs.options.Options.request` tells it.
    slide_stamp
        Number of files, bytes and time of change of the slide then, as JSON.
    slide_sha256
        Hash of its content.
    spots
        Number of its spots.
    unlike
        Share of spots that look unlike the training tissue; None where the model does not know.
    """

    request: str
    slide_stamp: str
    slide_sha256: str
    spots: int
    unlike: float | None

    def is_of(self, slide: Path) -> bool:
        """Tell whether the slide is still what it was: by its stamp, else by its content."""
        if self.slide_stamp == json.dumps(stamp(slide)):
            return True
        return self.slide_sha256 == sha256_of(slide)


def provenance(slide: Slide, request: str, cache: Path | None) -> dict[str, str]:
    """Return what a result must say to be found again; the slide's hash is remembered in the cache."""
    digest = slide.sha256() if cache is None else content(slide, cache / HASHES)
    return {REQUEST: request, SLIDE_STAMP: json.dumps(stamp(slide.path)), SLIDE_SHA256: digest}


def read(table: Path) -> Existing | None:
    """Read what a result says of itself; None where it is no whole HDF5 file, as after a power cut.

    Raises
    ------
    OutputError
        If it is something else than a result of ``genar predict``.
    """
    try:
        with h5py.File(table, locking=False) as file:
            spots = len(file["obs"][file["obs"].attrs["_index"]])
            far = unlike(file["obs"][keys.OOD][:]) if keys.OOD in file["obs"] else None
            said = file[f"uns/{keys.GENAR}"]
            request, stamped, digest = (str(said[key].asstr()[()]) for key in (REQUEST, SLIDE_STAMP, SLIDE_SHA256))
    except OSError:
        return None
    except (KeyError, AttributeError, TypeError, ValueError) as e:
        why = "it exists and was not written by this version's genar predict"
        raise OutputError(table, why, f"add --overwrite to replace it, or {ELSEWHERE}") from e
    return Existing(request, stamped, digest, spots, far)


def is_result(table: Path) -> bool:
    """Tell whether ``genar predict`` wrote a file; one that is damaged, or being written, it may not have."""
    try:
        with h5py.File(table, locking=False) as file:
            return f"uns/{keys.GENAR}/{REQUEST}" in file
    except OSError:
        return False


def present(table: Path, slide: Path, request: str) -> Existing | None:
    """Return the result if it is there and of the same request on the same slide; None where it is not there.

    Raises
    ------
    OutputError
        If something else is there.
    """
    if not table.is_file():
        return None
    found = read(table)
    if found is None:
        return None
    if found.request != request or not found.is_of(slide):
        made = "with other options or another model" if found.request != request else "from other content of the slide"
        why = f"it exists and was made {made}"
        raise OutputError(table, why, f"add --overwrite to replace it, or {ELSEWHERE}")
    return found
