"""Features of a section's tiles, computed once and kept on disk, in TRIDENT's form of file."""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from anndata import AnnData
from numpy.typing import NDArray
from platformdirs import user_cache_path

from genar import keys
from genar.device import device_of
from genar.encoders.content import content
from genar.encoders.registry import EncoderSpec, batches, create, spec_of
from genar.errors import ConfigError, OutputError
from genar.slide.augment import STRENGTH, AugmentedTiles
from genar.slide.open import Slide
from genar.slide.section import centres, metadata
from genar.slide.tiles import check_tile, open_tiles, tile_file
from genar.units import Mpp
from genar.write.atomic import beside

__all__ = ["Features", "default_cache", "features"]

logger = logging.getLogger("genar")

VERSION = 1  # of how tiles are cut and encoded; raised when that changes, so that older entries are left alone
HASHES = "hashes.json"


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
    """

    path: Path
    plain: NDArray[np.float32]
    views: NDArray[np.float32] | None


def default_cache() -> Path:
    """Return the folder that features are kept in: ``GENAR_CACHE``, or ``features`` in the user's cache of genar."""
    given = os.environ.get("GENAR_CACHE")
    return Path(given) if given else user_cache_path("genar") / "features"


def features(
    spots: AnnData,
    slide: Slide | None = None,
    *,
    encoder: str,
    tile_um: float,
    cache: Path,
    views: int = 0,
    seed: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int = 0,
    progress: bool = False,
) -> Features:
    """Return the features of a section's tiles from the cache, where they are computed and put if need be.

    They are found again by content: of the slide (or the file of patches), of the encoder's weights, and by the
    spots' centres, the resolution and ``tile_um``; and by ``views`` and ``seed`` where views are asked for. Processes
    that compute the same ones at the same time do no harm.

    Parameters
    ----------
    spots
        The section.
    slide
        The open slide; by default the file that ``uns["spatial"]`` names, opened only where features are computed.
    encoder
        Name of the encoder.
    tile_um
        Side of a tile in µm.
    cache
        The folder to keep features in; see :func:`default_cache`.
    views
        How many augmented views of each tile to encode as well; see :func:`genar.slide.augment.augment`.
    seed
        Seed of the views, below 2**63.
    device, batch_size, workers, progress
        As in :func:`genar.encoders.registry.batches`.

    Raises
    ------
    SlideError, DataError
        If the slide, or the file of patches, cannot be read.
    ModelError
        If the encoder is not known, or its weights are not what they should be.
    ConfigError
        If ``tile_um``, ``views``, ``seed`` or ``device`` is not valid.
    OutputError
        If the features cannot be stored.
    """
    spec = spec_of(encoder)
    check_tile(tile_um)
    if views < 0:
        raise ConfigError("views", f"{views} is negative", "give 0 or more views a tile")
    if not 0 <= seed < 2**63:
        raise ConfigError("seed", f"{seed} is out of range", "give a whole number from 0 to 2**63 - 1")
    device = device_of(device)
    source = slide or Slide(tile_file(spots), Mpp(float(metadata(spots)[keys.MPP])), "")  # opens when it is read
    with _storing(cache):
        key = _key(spots, content(source, cache / HASHES), spec, tile_um, source.mpp, views, seed)
    path, shape = cache / f"{key}.h5", (1 + views, spots.n_obs, spec.dim)
    found = _read(path, shape)
    if found is not None:
        return found
    network = create(encoder)
    with _storing(cache), tempfile.TemporaryFile(dir=cache) as scratch:  # nameless: nothing stays if we are killed
        with open_tiles(spots, tile_um, spec.input_px, slide) as tiles:
            augmented = (AugmentedTiles(tiles, seed=seed, view=view) for view in range(views))
            for number, seen in enumerate((tiles, *augmented)):
                for batch in batches(
                    network, seen, device=device, batch_size=batch_size, workers=workers, progress=progress,
                    description=f"Encoding view {number} of {views}" if number else "Encoding tiles",
                ):  # fmt: skip
                    scratch.write(batch.tobytes())
        scratch.flush()
        _write(path, np.memmap(scratch, np.float32, "r", shape=shape), spots, source, spec, tile_um)
    written = _read(path, shape)
    if written is None:
        raise OutputError(path, "it was damaged as soon as it was written", "check the disk")
    return written


@contextmanager
def _storing(cache: Path) -> Iterator[None]:
    """Make the folder, and say what to do if it cannot be written to."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as e:
        why = f"features cannot be kept there ({e.strerror or e})"
        raise OutputError(cache, why, "free space, or set GENAR_CACHE to another folder") from e


def _key(spots: AnnData, digest: str, spec: EncoderSpec, tile_um: float, mpp: float, views: int, seed: int) -> str:
    """Return the SHA-256, in hexadecimal, of all that the features depend on."""
    parts = {
        "version": VERSION,
        "content": digest,
        "encoder": [spec.name, spec.timm_name, spec.sha256, spec.input_px, spec.mean, spec.std],
        "tile_um": float(tile_um),
        "mpp": float(mpp),
        "centres": hashlib.sha256(np.ascontiguousarray(centres(spots)).tobytes()).hexdigest(),
        "spots": list(spots.obs_names),  # patches are found by name
        "views": [views, seed, STRENGTH] if views else None,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _write(
    path: Path, values: NDArray[np.float32], spots: AnnData, source: Slide, spec: EncoderSpec, tile_um: float
) -> None:
    """Write an entry with the attributes that TRIDENT writes, and ours."""
    side = tile_um / source.mpp  # level-0 px
    known = {"name": source.path.stem, "savetodir": str(path.parent)}
    with beside(path) as temporary, h5py.File(temporary, "w") as file:
        # without chunks or compression the values lie in one piece in the file, and can be mapped
        file["features"] = values[0]
        file["features"].attrs.update(known | {"encoder": spec.name, "encoder_sha256": spec.sha256})
        if len(values) > 1:
            file["views"] = values[1:]
        file["coords"] = np.rint(centres(spots) - side / 2).astype(np.int64)
        file["coords"].attrs.update(
            known
            | {
                "patch_size": int(spec.input_px),
                "patch_size_level0": round(side),
                "level0_magnification": 10 / source.mpp,
                "target_magnification": 10 * spec.input_px / tile_um,
                "overlap": 0,
                "tile_um": float(tile_um),
                "mpp": float(source.mpp),
            }
        )


def _read(path: Path, shape: tuple[int, int, int]) -> Features | None:
    """Map an entry; None where there is none, or what is there is damaged, which is logged."""
    if not path.exists():
        return None
    try:
        with h5py.File(path, locking=False) as file:  # locks fail on some network disks
            plain = _mapped(path, file["features"], shape[1:])
            views = _mapped(path, file["views"], (shape[0] - 1, *shape[1:])) if shape[0] > 1 else None
    except (OSError, KeyError, ValueError, RuntimeError) as e:
        logger.warning("%s: cached features are damaged (%s); they are computed again", path, e)
        return None
    return Features(path, plain, views)


def _mapped(path: Path, dataset: h5py.Dataset, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Map a dataset that lies in one piece."""
    offset = dataset.id.get_offset()
    if dataset.shape != shape or dataset.dtype != np.float32 or offset is None:
        msg = f"{dataset.name} is {dataset.dtype} {dataset.shape}, not float32 {shape} in one piece"
        raise ValueError(msg)
    return np.memmap(path, np.float32, "r", offset, shape)
