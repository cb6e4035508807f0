"""Features of a slide's tiles as another program left them, before they are checked against the slide."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genar.encoders.registry import EncoderSpec, spec_of
from genar.errors import DataError, ModelError


@dataclass(frozen=True)
class Foreign:
    """Tiles and their features.

    Parameters
    ----------
    values
        Features, float32 [N, D].
    corners
        Top left corners (x, y) of the tiles in level-0 pixels, float64 [N, 2].
    side_px
        Side of a tile in level-0 pixels; None where the file does not tell.
    step_px
        Distance of neighbouring tiles in level-0 pixels; None where the file does not tell.
    encoder
        Name of the encoder as the file has it; None where it does not tell.
    size
        Width and height in pixels of the slide that the tiles were cut from; None where the file does not tell.
    fingerprint
        The encoder's fingerprint, float32 [16]; None but in files of genar's own cache.
    """

    values: NDArray[np.float32]
    corners: NDArray[np.float64]
    side_px: float | None
    step_px: float | None = None
    encoder: str | None = None
    size: tuple[int, int] | None = None
    fingerprint: NDArray[np.float32] | None = None


def known_encoder(name: str) -> EncoderSpec | None:
    """Return what genar knows of an encoder by any of its names; None where it knows none of that name."""
    if name.startswith("hf-hub:"):  # a file does not make us ask the hub
        return None
    try:
        return spec_of(name)
    except ModelError:
        return None


def canonical(name: str) -> str:
    """Return genar's name of an encoder, or the name as it is where genar has none."""
    spec = known_encoder(name)
    return name if spec is None else spec.name


def number(value: object) -> float | None:
    """Return an attribute as a positive number, the first of several; None where it is none."""
    try:
        found = float(np.ravel(np.asarray(value, dtype=np.float64))[0])
    except (TypeError, ValueError, IndexError):
        return None
    return found if np.isfinite(found) and found > 0 else None


@contextmanager
def reading(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Say what was to be read where a library cannot read it.

    Raises
    ------
    DataError
        If the library raises what it raises on damaged or strange files.
    """
    try:
        yield
    except (OSError, KeyError, ValueError, TypeError, IndexError, RuntimeError, AttributeError) as e:
        raise DataError(path, f"it cannot be read as {what} ({' '.join(str(e).split())[:160]})", remedy) from e
