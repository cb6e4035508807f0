"""Features of a section as they are kept on disk: a file in TRIDENT's form, mapped rather than read."""

import logging
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.encoders.registry import EncoderSpec
from genar.slide.open import Slide
from genar.slide.section import centres
from genar.write.atomic import beside

logger: logging.Logger = logging.getLogger("genar")

ROWS = 4096  # written at once
WEIGHTS = "encoder_sha256"  # attribute of the features


@dataclass(frozen=True)
class Features:
    """Features of one section's spots, in the order of its ``obs``.

    Parameters
    ----------
    path
        The file that holds them: HDF5 with ``features`` [N, D], ``coords`` [N, 2] (top left corners of the tiles in
        level-0 pixels) and, where there are views, ``views`` [V, N, D].
    plain
        Features of the tiles as they are, float32 [N, D]; mapped from the file, not read, and not to be written to.
    views
        Features of V augmented views of the tiles, float32 [V, N, D], mapped likewise; None where there are none.
    fingerprint
        Features of a fixed input by the encoder that made them, float32 [16]; see
        :meth:`genar.encoders.registry.Encoder.fingerprint`.
    """

    path: Path
    plain: NDArray[np.float32]
    views: NDArray[np.float32] | None
    fingerprint: NDArray[np.float32]


@dataclass(frozen=True)
class Origin:
    """What an entry says of where its features come from.

    Parameters
    ----------
    spots
        The section.
    source
        Its slide, or the file of patches in its stead.
    spec
        The encoder.
    weights_sha256
        SHA-256 of its weights, in hexadecimal.
    fingerprint
        Features of a fixed input, float32 [16].
    tile_um
        Side of a tile in µm.
    """

    spots: AnnData
    source: Slide
    spec: EncoderSpec
    weights_sha256: str
    fingerprint: NDArray[np.float32]
    tile_um: float


def write_entry(path: Path, values: NDArray[np.float32], turn: NDArray[np.int64], origin: Origin) -> None:
    """Write an entry with the attributes that TRIDENT writes, and ours.

    Parameters
    ----------
    path
        The file, which appears whole or not at all.
    values
        Features of the tiles and of their views, float32 [1 + V, N, D].
    turn
        For each spot, which of the N rows is its own, int64 [N].
    origin
        Where they come from.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    known = {"name": origin.source.path.stem, "savetodir": str(path.parent)}
    views, _, dim = values.shape
    with beside(path) as temporary, h5py.File(temporary, "w") as file:
        # without chunks or compression the values lie in one piece in the file, and can be mapped
        plain = file.create_dataset("features", (len(turn), dim), np.float32)
        plain.attrs.update(known | {"encoder": origin.spec.name, WEIGHTS: origin.weights_sha256})
        plain.attrs[keys.ENCODER_FINGERPRINT] = origin.fingerprint
        if views > 1:
            file.create_dataset("views", (views - 1, len(turn), dim), np.float32)
        for start in range(0, len(turn), ROWS):
            rows = slice(start, start + ROWS)
            plain[rows] = values[0][turn[rows]]
            for view in range(1, views):
                file["views"][view - 1, rows] = values[view][turn[rows]]
        _write_coords(file, origin, known)


def _write_coords(file: h5py.File, origin: Origin, known: dict[str, str]) -> None:
    """Write the corners of the tiles and how these were cut."""
    mpp, px, tile_um = float(origin.source.mpp), int(origin.spec.input_px), float(origin.tile_um)
    side = tile_um / mpp  # level-0 px
    coords = file.create_dataset("coords", data=np.rint(centres(origin.spots) - side / 2).astype(np.int64))
    coords.attrs.update(known)
    coords.attrs.update(
        {
            "patch_size": px,
            "patch_size_level0": round(side),
            "level0_magnification": 10 / mpp,
            "target_magnification": 10 * px / tile_um,
            "overlap": 0,
            "tile_um": tile_um,
            "mpp": mpp,
        }
    )


def read_entry(path: Path, shape: tuple[int, int, int], *, quiet: bool = False) -> Features | None:
    """Map an entry with features of this shape, [1 + V, N, D].

    Returns
    -------
    None where there is none, or what is there is damaged, which is logged unless ``quiet``.
    """
    try:
        with h5py.File(path, locking=False) as file:  # locks fail on some network disks
            plain = _mapped(path, file["features"], shape[1:])
            views = _mapped(path, file["views"], (shape[0] - 1, *shape[1:])) if shape[0] > 1 else None
            fingerprint = np.asarray(file["features"].attrs[keys.ENCODER_FINGERPRINT], np.float32)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValueError, RuntimeError) as e:
        if not quiet:
            logger.warning("%s: cached features are damaged (%s); they are computed again", path, e)
        return None
    return Features(path, plain, views, fingerprint)


def _mapped(path: Path, dataset: h5py.Dataset, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Map a dataset that lies in one piece."""
    offset = dataset.id.get_offset()
    if dataset.shape != shape or dataset.dtype != np.float32 or offset is None:
        msg = f"{dataset.name} is {dataset.dtype} {dataset.shape}, not float32 {shape} in one piece"
        raise ValueError(msg)
    return np.memmap(path, np.float32, "r", offset, shape)
