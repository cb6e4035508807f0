"""Spots that lie where the user says: at those of a measured section, or of a file of places."""

from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.points import points
from genar.read.source import section
from genar.slide.backends import origin
from genar.slide.lattice import Lattice
from genar.slide.open import Slide
from genar.slide.section import bare, centres, metadata, place

PLACES = (".csv", ".tsv", ".geojson", ".json")


def spots_of(path: Path, slide: Path, mpp: float | None) -> AnnData:
    """Lay spots at those of a measured section, under their barcodes.

    Parameters
    ----------
    path
        The section, of any format that :func:`genar.read.section` reads.
    slide
        The slide that its places are in pixels of.
    mpp
        Resolution of the slide in µm per pixel; by default what the section says or measures.

    Returns
    -------
    Spots by no genes: ``obs``, centres in ``obsm["spatial"]``, and the slide in ``uns["spatial"]``.

    Raises
    ------
    DataError, SlideError
        If the section or the slide cannot be read, or a spot lies outside the slide.
    """
    measured = section(path, image=slide, mpp=mpp)
    spots = bare(measured.obsm[keys.SPATIAL], measured.obs)
    spots.uns[keys.SPATIAL] = measured.uns[keys.SPATIAL]
    known = metadata(spots)
    _check_inside(spots, path, slide, (int(known[keys.SLIDE_WIDTH]), int(known[keys.SLIDE_HEIGHT])))
    return spots


def spots_at(path: Path, slide: Slide, geometry: Lattice) -> AnnData:
    """Lay spots at the places in a file.

    Parameters
    ----------
    path
        A table of places or GeoJSON, as :func:`genar.read.points` takes.
    slide
        The slide that the places are in pixels of.
    geometry
        What is said of the spots.

    Returns
    -------
    As :func:`spots_of`.

    Raises
    ------
    DataError
        If the file cannot be read, or a place lies outside the slide.
    """
    xy = points(path, offset=origin(slide.backend))
    obs = pd.DataFrame({keys.IN_TISSUE: np.ones(len(xy), dtype=np.int64)}, index=xy.index.rename(None))
    spots = bare(xy.to_numpy(np.float64), obs)
    place(spots, slide, geometry)
    _check_inside(spots, path, slide.path, slide.dimensions)
    return spots


def _check_inside(spots: AnnData, path: Path, slide: Path, size: tuple[int, int]) -> None:
    """Raise if a spot lies outside the slide."""
    xy = centres(spots)
    outside = np.any((xy < 0) | (xy > size), axis=1)
    if outside.any():
        why = f"{outside.sum()} of {len(xy)} spots lie outside {slide.name}, {size[0]} x {size[1]} px"
        raise DataError(path, why, "give places in level-0 pixels of this slide (x, y), or the slide that they are of")
