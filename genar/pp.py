"""Preprocessing, in scanpy's sense: spots on a slide and the features of their tiles."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.device import device_of
from genar.encoders import cache as cached
from genar.encoders.registry import create, encode
from genar.errors import ConfigError, SlideError
from genar.slide.lattice import Lattice, lay
from genar.slide.lattice import lattice as lattice_of
from genar.slide.open import Slide, open_slide
from genar.slide.section import metadata, place
from genar.slide.tiles import check_tile, open_tiles
from genar.slide.tissue import tissue_mask

__all__ = ["embed", "spots"]

TILE_UM = 154.0  # 224 px at 0.687 µm/px, the resolution that her2st was scanned at


def spots(
    slide: Slide | str | Path,
    lattice: str | Lattice = "visium",
    *,
    pitch_um: float | None = None,
    tile_um: float = TILE_UM,
    min_tissue: float = 0.5,
    mpp: float | None = None,
) -> AnnData:
    """Lay spots on the tissue of a slide.

    Parameters
    ----------
    slide
        An open slide, or its file.
    lattice
        ``"visium"``, ``"st"``, ``"grid"`` or a lattice.
    pitch_um
        Distance of spots in µm, for ``"grid"``.
    tile_um
        Side in µm of the square around a spot that must show tissue.
    min_tissue
        Smallest share of it that does.
    mpp
        Resolution in µm per pixel, where ``slide`` is a file that does not carry it.

    Returns
    -------
    Spots by no genes yet: ``obs`` with ``array_row``, ``array_col``, ``in_tissue``, ``tissue_fraction`` and
    ``library_id``; centres in level-0 pixels in ``obsm["spatial"]``; the image, the geometry and the tissue mask in
    ``uns["spatial"]``.

    Raises
    ------
    SlideError
        If no spot lies on tissue.
    ConfigError
        If the lattice, ``tile_um`` or ``min_tissue`` is not valid.

    Examples
    --------
    >>> adata = genar.pp.spots("slide.svs", "visium")
    """
    check_tile(tile_um)
    if not 0 <= min_tissue <= 1:
        raise ConfigError("min_tissue", f"{min_tissue:g} is not a share", "give a number from 0 to 1")
    if not isinstance(slide, Slide):
        with open_slide(slide, mpp) as opened:
            return spots(opened, lattice, pitch_um=pitch_um, tile_um=tile_um, min_tissue=min_tissue)
    geometry = lattice if isinstance(lattice, Lattice) else lattice_of(lattice, pitch_um)
    width, height = slide.dimensions
    centres_um, row, col = lay(geometry, width * slide.mpp, height * slide.mpp)
    xy = centres_um / slide.mpp
    mask = tissue_mask(slide)
    fraction = mask.fraction(xy, tile_um / slide.mpp)
    kept = fraction >= min_tissue
    if not kept.any():
        size = f"{width * slide.mpp:.0f} x {height * slide.mpp:.0f} µm at {slide.mpp:g} µm/px"
        found = "no spot lies on enough of its tissue" if mask.mask.any() else "no tissue found"
        why = f"{found} (the slide is {size})"
        raise SlideError(slide.path, why, "check that it is an H&E slide and that its resolution (--mpp) is right")
    adata = AnnData(
        csr_matrix((int(kept.sum()), 0), dtype=np.int32),
        obs=pd.DataFrame(
            {
                keys.IN_TISSUE: np.ones(int(kept.sum()), dtype=np.int64),
                keys.ARRAY_ROW: row[kept],
                keys.ARRAY_COL: col[kept],
                keys.TISSUE_FRACTION: fraction[kept],
            },
            index=[f"{r}x{c}" for r, c in zip(row[kept], col[kept], strict=True)],
        ),
    )
    adata.obsm[keys.SPATIAL] = xy[kept]
    place(adata, slide, geometry)
    section = adata.uns[keys.SPATIAL][str(adata.obs[keys.LIBRARY_ID].iloc[0])]
    metadata(adata)[keys.TILE_UM] = float(tile_um)
    section[keys.TISSUE_MASK] = mask.resized(section[keys.IMAGES][keys.LOWRES].shape[:2])
    return adata


def embed(
    adata: AnnData,
    slide: Slide | None = None,
    *,
    encoder: str = "efficientnet_lite0",
    tile_um: float | None = None,
    cache: Path | None = None,
    views: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int = 0,
    progress: bool = False,
) -> None:
    """Encode the tile around each spot, and put the features in ``obsm["X_<encoder>"]`` (float32 [N, D]).

    Parameters
    ----------
    adata
        Spots of one slide, from :func:`spots` or a reader.
    slide
        The open slide; by default it is opened from the path in ``uns["spatial"]``, or the tiles are read from the
        file of patches named there.
    encoder
        Name of the encoder.
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
        Processes that read tiles beside this one.
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
    if cache is not None:
        found = cached.features(
            adata, slide, encoder=encoder, tile_um=tile_um, cache=cache, views=views, device=device,
            batch_size=batch_size, workers=workers, progress=progress,
        )  # fmt: skip
        values = np.asarray(found.plain)
    elif views:
        raise ConfigError("views", "they are kept in the cache alone", "name a folder for it: cache=...")
    else:
        network = create(encoder)
        with open_tiles(adata, tile_um, network.spec.input_px, slide) as tiles:
            values = encode(network, tiles, device=device, batch_size=batch_size, workers=workers, progress=progress)
    adata.obsm[keys.features(encoder)] = values
    metadata(adata)[keys.TILE_UM] = tile_um  # looked up again: to set obsm copies what was a view
