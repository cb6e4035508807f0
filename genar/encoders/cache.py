"""Features of a section's tiles, computed once and kept on disk, in TRIDENT's form of file."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from anndata import AnnData
from numpy.typing import NDArray
from platformdirs import user_cache_path

from genar import keys
from genar.device import device_of
from genar.encoders.content import content
from genar.encoders.lock import held
from genar.encoders.partial import growing
from genar.encoders.registry import EncoderSpec, spec_of, weights_sha256
from genar.encoders.reuse import create
from genar.encoders.run import batches, order
from genar.encoders.runtime import runtime_of
from genar.encoders.stored import Features, Origin, read_entry, write_entry
from genar.errors import ConfigError, OutputError
from genar.slide.augment import STRENGTH, AugmentedTiles
from genar.slide.chunks import Tiles
from genar.slide.lattice import check_tile
from genar.slide.open import Slide
from genar.slide.section import centres, metadata
from genar.slide.tiles import open_tiles, tile_file
from genar.units import Mpp

__all__ = ["Features", "default_cache", "features"]

logger: logging.Logger = logging.getLogger("genar")

VERSION = 2  # of how tiles are cut and encoded; raised when that changes, so that older entries are left alone
HASHES = "hashes.json"
ENCODING = "Encoding tiles"

Batch = NDArray[np.float32]


def default_cache() -> Path:
    """Return the folder that features are kept in: ``GENAR_CACHE``, or ``features`` in the user's cache of genar."""
    given = os.environ.get("GENAR_CACHE")
    return Path(given) if given else user_cache_path("genar") / "features"


def features(
    spots: AnnData,
    slide: Slide | None = None,
    *,
    encoder: str,
    weights: Path | None = None,
    tile_um: float,
    cache: Path,
    views: int = 0,
    seed: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int | None = None,
    progress: bool = False,
) -> Features:
    """Return the features of a section's tiles from the cache, where they are computed and put if need be.

    They are found again by content: of the slide (or the file of patches), of the encoder's weights, and by the
    spots' centres, the resolution and ``tile_um``; and by ``views`` and ``seed`` where views are asked for.

    Features are kept batch by batch, so that a run that is killed goes on where it stopped, to the same values as one
    that was not (at the same ``batch_size``). A process that wants features which another is computing waits for
    them, and goes on itself if that one dies; see :func:`genar.encoders.lock.held`. Taking what is there needs no lock,
    and no right to write.

    Parameters
    ----------
    spots
        The section.
    slide
        The open slide; by default the file that ``uns["spatial"]`` names, opened only where features are computed.
    encoder
        Name of the encoder.
    weights
        A file of its weights, in place of its own; see :func:`genar.encoders.registry.create`.
    tile_um
        Side of a tile in µm.
    cache
        The folder to keep features in; see :func:`default_cache`.
    views
        How many augmented views of each tile to encode as well; see :func:`genar.slide.augment.augment`.
    seed
        Seed of the views, below 2**63.
    device, batch_size, workers, progress
        As in :func:`genar.encoders.run.batches`.

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
    digest = weights_sha256(encoder, weights)
    numerics = [digest, runtime_of(spec, device), *_numerics(spec)]
    with _storing(cache):
        key = _key(spots, content(source, cache / HASHES), numerics, tile_um, source.mpp, views, seed)
    path, shape = cache / f"{key}.h5", (1 + views, spots.n_obs, spec.dim)
    found = read_entry(path, shape, quiet=True)
    if found is not None:
        return found
    run = partial(batches, device=device, batch_size=batch_size, workers=workers, progress=progress)
    with _storing(cache), held(path.with_suffix(".lock"), f"encoding {source.path.name}"):
        found = read_entry(path, shape)  # one that we waited for may have written it
        if found is not None:
            return found
        network = create(encoder, weights).to(device)
        origin = Origin(spots, source, spec, digest, network.fingerprint(), tile_um)
        with open_tiles(spots, tile_um, spec.input_px, slide) as tiles:
            _fill(path, origin, tiles, partial(run, network), views, seed, batch_size)
    written = read_entry(path, shape)
    if written is None:
        raise OutputError(path, "it was damaged as soon as it was written", "check the disk")
    return written


def _fill(
    path: Path,
    origin: Origin,
    tiles: Tiles,
    run: Callable[..., Iterator[Batch]],
    views: int,
    seed: int,
    batch_size: int,
) -> None:
    """Encode what is not yet encoded of tiles and their views, then write the entry."""
    turn, unfinished = order(tiles), path.with_suffix(".partial")
    n, dim = len(turn), origin.spec.dim
    with growing(unfinished, origin.fingerprint, turn, dim, views, batch_size) as rows:
        if rows.done:
            logger.info("%s of %s tiles were encoded before; going on", f"{rows.done:,}", f"{(1 + views) * n:,}")
        for view in range(rows.done // n, 1 + views):
            seen = AugmentedTiles(tiles, seed=seed, view=view - 1) if view else tiles
            start = max(rows.done - view * n, 0)
            for batch in run(seen, start=start, description=f"Encoding view {view} of {views}" if view else ENCODING):
                rows.append(batch)
        write_entry(path, rows.values((1 + views) * n).reshape(1 + views, n, dim), np.argsort(turn), origin)
    unfinished.unlink(missing_ok=True)


@contextmanager
def _storing(cache: Path) -> Iterator[None]:
    """Make the folder, and say what to do if it cannot be written to."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as e:
        why = f"features cannot be kept there ({e.strerror or e})"
        raise OutputError(cache, why, "free space, or set GENAR_CACHE to another folder") from e


def _numerics(spec: EncoderSpec) -> list[object]:
    """Return what an encoder's features depend on beside its weights."""
    return [spec.timm_name, spec.arguments, spec.swiglu, spec.pooling, spec.input_px, spec.mean, spec.std]


def _key(spots: AnnData, digest: str, numerics: list[object], tile_um: float, mpp: float, views: int, seed: int) -> str:
    """Return the SHA-256, in hexadecimal, of all that the features depend on."""
    parts = {
        "version": VERSION,
        "content": digest,
        "encoder": numerics,
        "tile_um": float(tile_um),
        "mpp": float(mpp),
        "centres": hashlib.sha256(np.ascontiguousarray(centres(spots)).tobytes()).hexdigest(),
        "spots": list(spots.obs_names),  # patches are found by name
        "views": [views, seed, STRENGTH] if views else None,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
