"""Files of features by TRIDENT and CLAM: HDF5 with ``features`` and ``coords``."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from genar import keys
from genar.errors import DataError
from genar.read.foreign import Foreign, number, reading
from genar.slide.open import Slide

FOLDER = "features_"  # TRIDENT's folder of an encoder's features, before its name
WHAT = "HDF5 with features and coords"
REMEDY = "give the .h5 that TRIDENT or CLAM wrote for this slide: features [N, D] and coords [N, 2] of its tiles"


def read_hdf5(path: Path, slide: Slide) -> Foreign:
    """Read a file of features by TRIDENT, CLAM or genar's own cache.

    CLAM's carry no size of the tiles: it is taken from ``patches/<name>.h5`` beside the file or above it, if that is
    there.

    Parameters
    ----------
    path
        The file.
    slide
        The slide, for the pyramid's levels.

    Raises
    ------
    DataError
        If it is no such file.
    """
    with reading(path, WHAT, REMEDY), h5py.File(path, locking=False) as file:
        values, corners = (_array(file[name]) for name in ("features", "coords"))
        known, said = dict(file["coords"].attrs), dict(file["features"].attrs)
        values, corners = values.astype(np.float32, copy=False), corners.astype(np.float64)
    if values.ndim != 2 or corners.ndim != 2 or corners.shape[1] != 2:
        why = f"its features are {values.shape} and its coords {corners.shape}, not [N, D] and [N, 2]"
        raise DataError(path, why, REMEDY)
    if side_px(known, slide) is None:
        known |= _of_patches(path)
    side = side_px(known, slide)
    folder = path.parent.name
    name = said.get("encoder") or (folder.removeprefix(FOLDER) if folder.startswith(FOLDER) else None)
    width, height = number(known.get("level0_width")), number(known.get("level0_height"))
    return Foreign(
        values,
        corners,
        side_px=side,
        step_px=_step_px(known, side),
        encoder=name.decode(errors="replace") if isinstance(name, bytes) else name and str(name),
        size=(int(width), int(height)) if width and height else None,
        fingerprint=said.get(keys.ENCODER_FINGERPRINT),
    )


def _array(dataset: h5py.Dataset) -> NDArray[Any]:
    """Read a dataset without the leading batch of one that some versions write."""
    values = np.asarray(dataset)
    return values[0] if values.ndim == 3 and len(values) == 1 else values


def side_px(known: dict[str, Any], slide: Slide) -> float | None:
    """Return the side of a tile in level-0 pixels from the attributes of its coords; None where these do not tell."""
    if (um := number(known.get(keys.TILE_UM))) and (mpp := number(known.get(keys.MPP))):
        return um / mpp  # genar's own: not rounded to whole pixels
    if side := number(known.get("patch_size_level0")):
        return side
    size = number(known.get("patch_size"))
    if size is None:
        return None
    cut, scanned = number(known.get("target_magnification")), number(known.get("level0_magnification"))
    if cut and scanned:
        return size * scanned / cut
    if "patch_level" not in known:
        return None
    level = int(np.ravel(known["patch_level"])[0])
    downsample = number(known.get("downsample"))
    if downsample is None and 0 <= level < len(slide.downsamples):
        downsample = slide.downsamples[level]
    return size * downsample if downsample else None


def _step_px(known: dict[str, Any], side: float | None) -> float | None:
    """Return the distance of tiles in level-0 pixels, where TRIDENT tells by how much they overlap."""
    size = number(known.get("patch_size"))
    if keys.TILE_UM in known or "overlap" not in known or size is None or side is None:
        return None  # genar's tiles lie where the spots do
    return side * (1 - (number(known["overlap"]) or 0.0) / size)


def _of_patches(path: Path) -> dict[str, Any]:
    """Return the attributes of the coords in the file of patches that belongs to a file of features; none if none."""
    for folder in path.absolute().parents[:3]:
        for name in (f"{path.stem}.h5", f"{path.stem}_patches.h5"):
            patches = folder / "patches" / name
            if patches.is_file() and patches != path.absolute():
                with reading(patches, "HDF5 with coords", REMEDY), h5py.File(patches, locking=False) as file:
                    return dict(file["coords"].attrs)
    return {}
