"""Features that another program computed, as spots that genar predicts from."""

from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.errors import DataError
from genar.read.foreign import Foreign, canonical, known_encoder
from genar.read.geometry import nearest_px, pitch_px
from genar.read.trident import read_hdf5
from genar.read.wsidata import read_store
from genar.slide.lattice import Lattice, check_tile
from genar.slide.open import Slide
from genar.slide.section import bare, metadata, place
from genar.units import TILE_TOLERANCE

STORE_FILES = ("zarr.json", ".zgroup")  # what makes a folder a zarr store


def features(
    path: Path | str,
    slide: Slide,
    *,
    encoder: str | None = None,
    tile_um: float | None = None,
    wanted_um: float | None = None,
) -> AnnData:
    """Read the features of a slide's tiles from a file of TRIDENT or CLAM, or a store of LazySlide.

    Nothing is computed: the features go to ``obsm`` as they are. Spots lie at the tiles' centres.

    Parameters
    ----------
    path
        HDF5 with ``features`` and ``coords`` (TRIDENT, CLAM, genar's own cache), or a zarr store (LazySlide), or a
        folder of such, of which the one is taken that is named as the slide.
    slide
        The open slide that the tiles were cut from.
    encoder
        Name of the encoder, in genar's, LazySlide's or TRIDENT's spelling. By default what the file says: an attribute
        ``encoder`` of the features, TRIDENT's folder ``features_<encoder>``, the name of LazySlide's table. Of several
        tables, that of this encoder is taken.
    tile_um
        Side of a tile in µm, where the file does not tell.
    wanted_um
        Side of a tile in µm that a model takes: other tiles are refused, and where a store has tiles of several sides,
        these are taken.

    Returns
    -------
    Spots by no genes, in the order of the file and named by their number in it: ``obs`` with ``array_row``,
    ``array_col``, ``in_tissue`` and ``library_id``; centres in level-0 pixels in ``obsm["spatial"]``; features,
    float32 [N, D], in ``obsm["X_<encoder>"]``; the image and the geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If the file cannot be read; if it does not tell the encoder or the tiles' side, or another one than is said;
        if features and places do not fit each other, the encoder or the slide, or are not finite.

    Examples
    --------
    >>> slide = genar.read.slide("slide.svs")
    >>> adata = genar.read.features("20x_224px_0px_overlap/features_uni_v1/slide.h5", slide)
    """
    path = file_of(Path(path), slide.path)
    for side in filter(None, (tile_um, wanted_um)):
        check_tile(side)
    side_um = wanted_um or tile_um
    if path.is_dir():
        found = read_store(path, encoder=encoder, side_px=None if side_um is None else side_um / slide.mpp)
    else:
        found = read_hdf5(path, slide)
    name = _encoder(path, found, encoder)
    side_px = _side_px(path, found, slide, tile_um, wanted_um)
    _check_values(path, found, name)
    centres = found.corners + side_px / 2
    _check_places(path, found, centres, slide)
    spots = _spots(centres, slide, side_px)
    spots.obsm[keys.features(name)] = found.values
    known = metadata(spots)
    known.update({keys.TILE_UM: side_px * slide.mpp, keys.FEATURES_SOURCE: str(path.resolve())})
    if found.fingerprint is not None:
        known[keys.fingerprint(name)] = found.fingerprint
    return spots


def file_of(path: Path, slide: Path) -> Path:
    """Return the file or store that is meant for a slide: in a folder, the one named as the slide.

    Raises
    ------
    DataError
        If there is none.
    """
    if not path.exists():
        raise DataError(path, "there is no such file", "check the path of the features")
    if not path.is_dir() or any((path / name).is_file() for name in STORE_FILES):
        return path
    stem = slide.stem
    for name in (f"{stem}.h5", f"{stem}.zarr"):
        if (path / name).exists():
            return path / name
    why = f"the folder has neither {stem}.h5 nor {stem}.zarr"
    raise DataError(path, why, "give the file of this slide's features, or name it as the slide")


def _encoder(path: Path, found: Foreign, given: str | None) -> str:
    """Return the encoder's name; a name in the file that nobody knows does not outweigh the one given."""
    told = found.encoder
    if given is None and told is None:
        raise DataError(path, "it does not tell which encoder its features are of", "name it: encoder=...")
    if given and told and known_encoder(told) and canonical(told) != canonical(given):
        why = f"its features are those of {canonical(told)}, not of {canonical(given)}"
        raise DataError(path, why, f"give {canonical(given)} features, or a model that takes {canonical(told)}")
    return canonical(given or str(told))


def _side_px(path: Path, found: Foreign, slide: Slide, given: float | None, wanted: float | None) -> float:
    """Return the side of a tile in level-0 pixels, if it is what was said."""
    side_px = found.side_px or (given and given / slide.mpp)
    if side_px is None:
        remedy = "put CLAM's patches/<slide>.h5 beside its folder, or say it in Python: read.features(..., tile_um=154)"
        raise DataError(path, "it does not tell how wide its tiles are", remedy)
    side_um = side_px * slide.mpp
    if given is not None and abs(side_um / given - 1) > TILE_TOLERANCE:
        why = f"its tiles are {side_px:g} px, {side_um:.4g} µm wide, not {given:g} µm"
        raise DataError(path, why, "leave tile_um out, or check the slide's resolution (--mpp)")
    if wanted is not None and abs(side_um / wanted - 1) > TILE_TOLERANCE:
        why = (
            f"its tiles are {side_um:.4g} µm wide ({side_px:g} px of {slide.mpp:.4g} µm), the model takes {wanted:g} µm"
        )
        raise DataError(path, why, f"compute features of {wanted / slide.mpp:.0f} px tiles, or check --mpp")
    return float(side_px)


def _check_values(path: Path, found: Foreign, encoder: str) -> None:
    """Raise unless there is a vector of the encoder's size and of finite numbers for each tile."""
    n, dim = found.values.shape
    if len(found.corners) != n:
        why = f"it has features of {n} tiles and places of {len(found.corners)}"
        raise DataError(path, why, "compute the features again")
    if n == 0:
        raise DataError(path, "it has no tiles", "leave this slide out, or compute its features again")
    spec = known_encoder(encoder)
    if spec is not None and spec.dim != dim:
        why = f"its features have {dim} values, {encoder}'s have {spec.dim}"
        raise DataError(path, why, "name the encoder that they are of, or compute them again")
    bad = ~np.isfinite(found.values).all(axis=1)
    if bad.any():
        why = f"the features of {bad.sum()} of {n} tiles are not finite, tile {int(bad.argmax())} for one"
        raise DataError(path, why, "compute them again")


def _check_places(path: Path, found: Foreign, centres: NDArray[np.float64], slide: Slide) -> None:
    """Raise unless the tiles can be of this slide, in pixels of its level 0."""
    size, other = slide.dimensions, "give the features of this slide, with coords in pixels of its level 0"
    if found.size is not None and found.size != size:
        theirs, ours = (f"{width} x {height} px" for width, height in (found.size, size))
        why = f"its tiles are of a slide of {theirs}, {slide.path.name} has {ours}"
        raise DataError(path, why, other)
    outside = ~((centres >= 0) & (centres <= size)).all(axis=1)  # NaN is outside, too
    if outside.any():
        why = f"{outside.sum()} of its {len(centres)} tiles lie outside {slide.path.name}, {size[0]} x {size[1]} px"
        raise DataError(path, why, other)
    nearest = nearest_px(centres)
    if found.step_px is not None and nearest < 0.9 * found.step_px:
        why = f"its tiles lie {nearest:.0f} px apart where {found.step_px:.0f} px are said, as on a coarser level"
        raise DataError(path, why, other)


def _spots(centres: NDArray[np.float64], slide: Slide, side_px: float) -> AnnData:
    """Lay spots at the tiles' centres, on a grid of the pitch that these have."""
    pitch = pitch_px(centres) or nearest_px(centres)
    pitch = side_px if np.isnan(pitch) else pitch
    place_in_grid = np.rint((centres - centres.min(axis=0)) / pitch).astype(np.int64)
    obs = pd.DataFrame(
        {
            keys.IN_TISSUE: np.ones(len(centres), dtype=np.int64),
            keys.ARRAY_ROW: place_in_grid[:, 1],
            keys.ARRAY_COL: place_in_grid[:, 0],
        },
        index=[str(number) for number in range(len(centres))],
    )
    spots = bare(centres, obs)
    pitch_um = pitch * slide.mpp
    place(spots, slide, Lattice("grid", pitch_um, pitch_um, hexagonal=False))
    return spots
