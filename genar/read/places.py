"""Spots that lie where the user says: at those of a measured section, or of a file of places."""

from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import DataError
from genar.read.points import points
from genar.read.source import section
from genar.slide.backends import origin
from genar.slide.lattice import Lattice
from genar.slide.open import Slide
from genar.slide.section import place

PLACES = (".csv", ".tsv", ".geojson", ".json")


def spots_at(path: Path, slide: Slide, geometry: Lattice) -> AnnData:
    """Lay spots where a file says.

    Parameters
    ----------
    path
        A measured section of any format, whose spots keep their barcodes; a table of places or GeoJSON, as
        :func:`genar.read.points` takes.
    slide
        The slide that the places are in pixels of.
    geometry
        What is said of the spots of a table or GeoJSON.

    Returns
    -------
    Spots by no genes: ``obs``, centres in ``obsm["spatial"]``, and the slide in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If the file cannot be read, or a place lies outside the slide.
    """
    if path.suffix.lower() in PLACES:
        xy = points(path, offset=origin(slide.backend))
        obs = pd.DataFrame({keys.IN_TISSUE: np.ones(len(xy), dtype=np.int64)}, index=xy.index.rename(None))
        spots = AnnData(csr_matrix((len(xy), 0), dtype=np.int32), obs=obs)
        spots.obsm[keys.SPATIAL] = xy.to_numpy(np.float64)
        place(spots, slide, geometry)
    else:
        measured = section(path, image=slide.path, mpp=slide.mpp)
        spots = AnnData(csr_matrix((measured.n_obs, 0), dtype=np.int32), obs=measured.obs)
        spots.obsm[keys.SPATIAL] = measured.obsm[keys.SPATIAL]
        spots.uns[keys.SPATIAL] = measured.uns[keys.SPATIAL]
    outside = ((spots.obsm[keys.SPATIAL] < 0) | (spots.obsm[keys.SPATIAL] > slide.dimensions)).any(axis=1)
    if outside.any():
        width, height = slide.dimensions
        why = f"{outside.sum()} of {len(outside)} spots lie outside {slide.path.name}, {width} x {height} px"
        raise DataError(path, why, "give places in level-0 pixels of this slide (x, y), or the slide that they are of")
    return spots
