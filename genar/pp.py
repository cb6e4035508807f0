"""Preprocessing, in scanpy's sense: spots on a slide and the features of their tiles."""

from pathlib import Path

import numpy as np
import torch
from anndata import AnnData

from genar import keys
from genar.device import device_of
from genar.encoders import cache as cached
from genar.encoders.registry import spec_of
from genar.encoders.reuse import create
from genar.encoders.run import encode
from genar.errors import ConfigError
from genar.slide.lattice import check_tile
from genar.slide.open import Slide
from genar.slide.section import metadata
from genar.slide.spots import TILE_UM, spots
from genar.slide.tiles import open_tiles

__all__ = ["TILE_UM", "embed", "spots"]


def embed(
    adata: AnnData,
    slide: Slide | None = None,
    *,
    encoder: str = "efficientnet_lite0",
    weights: Path | None = None,
    tile_um: float | None = None,
    cache: Path | None = None,
    views: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int | None = None,
    progress: bool = False,
) -> None:
    """Encode the tile around each spot, and put the features in ``obsm["X_<encoder>"]`` (float32 [N, D]).

    The tiles' side and the encoder's fingerprint (:meth:`genar.encoders.registry.Encoder.fingerprint`) go to the
    section's metadata.

    Parameters
    ----------
    adata
        Spots of one slide, from :func:`spots` or a reader.
    slide
        The open slide; by default it is opened from the path in ``uns["spatial"]``, or the tiles are read from the
        file of patches named there.
    encoder
        Name of the encoder.
    weights
        A file of its weights, in place of its own; see :func:`genar.encoders.registry.create`.
    tile_um
        Side of a tile in µm; by default the one that the spots were laid with, or 154.
    cache
        A folder to keep features in, and to take them from where they are there already; they are then mapped from
        the file, and cannot be written to. By default nothing is kept. See :func:`genar.encoders.cache.features`.
    views
        How many augmented views of each tile to put in the cache beside its features.
    device
        Where the encoder runs: ``"auto"``, ``"cpu"``, ``"cuda[:i]"`` or a device of torch.
    batch_size
        Tiles encoded at once.
    workers
        Processes that read tiles beside this one; by default none for a CPU, as many as there are cores for a GPU.
    progress
        Show a progress bar.

    Raises
    ------
    SlideError
        If the slide cannot be read.
    DataError
        If the patches cannot be read, or do not fit the spots or ``tile_um``.
    ConfigError
        If ``tile_um``, ``views`` or ``device`` is not valid, or there are views without a cache.
    OutputError
        If the features cannot be kept in ``cache``.
    """
    known = metadata(adata)
    device = device_of(device)
    tile_um = float(known.get(keys.TILE_UM, TILE_UM) if tile_um is None else tile_um)
    check_tile(tile_um)
    encoder = spec_of(encoder).name  # not an alias
    if cache is not None:
        found = cached.features(
            adata, slide, encoder=encoder, weights=weights, tile_um=tile_um, cache=cache, views=views, device=device,
            batch_size=batch_size, workers=workers, progress=progress,
        )  # fmt: skip
        values, fingerprint = np.asarray(found.plain), found.fingerprint
    elif views:
        raise ConfigError("views", "they are kept in the cache alone", "name a folder for it: cache=...")
    else:
        network = create(encoder, weights).to(device)
        fingerprint = network.fingerprint()
        with open_tiles(adata, tile_um, network.spec.input_px, slide) as tiles:
            values = encode(network, tiles, device=device, batch_size=batch_size, workers=workers, progress=progress)
    adata.obsm[keys.features(encoder)] = values
    known = metadata(adata)  # looked up again: to set obsm copies what was a view
    known[keys.TILE_UM] = tile_um
    known[keys.fingerprint(encoder)] = fingerprint
