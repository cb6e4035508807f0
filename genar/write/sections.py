"""A result, or a measured section, seen section by section, for those who write it in other formats."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.errors import DataError, SlideError
from genar.slide.open import Slide, open_slide

REMEDY = "give an .h5ad that genar predict wrote, or one of a section that genar.read has read"


@dataclass(frozen=True)
class Section:
    """One section of a result.

    Parameters
    ----------
    name
        Its ``library_id``.
    rows
        The rows of the result that are its spots, int64 [n], rising.
    centres
        Their centres (x, y) in level-0 pixels, float64 [n, 2].
    diameter
        Of a spot, in level-0 pixels.
    entry
        What ``uns["spatial"]`` has of it.
    """

    name: str
    rows: NDArray[np.int64]
    centres: NDArray[np.float64]
    diameter: float
    entry: Mapping[str, Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What is known of the slide; empty where nothing is."""
        found: Mapping[str, Any] = self.entry.get(keys.METADATA, {})
        return found

    def image(self) -> tuple[NDArray[np.uint8], tuple[float, float]]:
        """Return the image, RGB uint8 [h, w, 3], and how many level-0 pixels one of its spans, along x and along y.

        Raises
        ------
        DataError
            If there is none.
        """
        images, factors = self.entry.get(keys.IMAGES) or {}, self.entry.get(keys.SCALEFACTORS, {})
        kind = next((k for k in (keys.HIRES, *images) if k in images and f"tissue_{k}_scalef" in factors), None)
        if kind is None:
            raise DataError(self.name, 'uns["spatial"] holds no image of this section', REMEDY)
        image, known = np.asarray(images[kind])[..., :3], self.metadata
        if image.dtype != np.uint8:
            most = 255 if image.max(initial=0) > 1 else 1  # scanpy's reader of Visium makes it float, 0 to 1
            image = (np.clip(image, 0, most) * (255 / most)).round().astype(np.uint8)
        if keys.SLIDE_WIDTH in known and keys.SLIDE_HEIGHT in known:
            height, width = image.shape[:2]
            return image, (float(known[keys.SLIDE_WIDTH]) / width, float(known[keys.SLIDE_HEIGHT]) / height)
        scale = 1 / float(factors[f"tissue_{kind}_scalef"])
        return image, (scale, scale)

    def open(self, slide: Path) -> Slide:
        """Open the section's slide.

        Raises
        ------
        SlideError
            If it cannot be opened, or has another size than the section's.
        """
        known = self.metadata
        opened = open_slide(slide, float(known[keys.MPP]) if keys.MPP in known else None)
        size = tuple(int(known[key]) for key in (keys.SLIDE_WIDTH, keys.SLIDE_HEIGHT) if key in known)
        if size and size != opened.dimensions:
            theirs, ours = (f"{width} x {height} px" for width, height in (opened.dimensions, size))
            opened.close()
            raise SlideError(slide, f"it has {theirs}, the slide of {self.name} has {ours}", "give that slide")
        return opened


def sections_of(adata: AnnData, what: object) -> list[Section]:
    """List the sections of a result, in the order of its spots.

    Parameters
    ----------
    adata
        The result.
    what
        What to call it in errors.

    Raises
    ------
    DataError
        If it says not of every spot where on which section it lies.
    """
    known = adata.uns.get(keys.SPATIAL)
    xy = adata.obsm.get(keys.SPATIAL)
    if not isinstance(known, Mapping) or not known or xy is None or np.ndim(xy) != 2 or adata.n_obs == 0:
        holds = "no spots" if adata.n_obs == 0 else 'no spots in obsm["spatial"] with their slide in uns["spatial"]'
        raise DataError(what, f"it holds {holds}", REMEDY)
    xy = np.asarray(xy, dtype=np.float64)[:, :2]
    if not np.isfinite(xy).all():
        raise DataError(what, 'not every spot has a place in obsm["spatial"]', REMEDY)
    if keys.LIBRARY_ID in adata.obs:
        of = adata.obs[keys.LIBRARY_ID].astype(str).to_numpy()
    elif len(known) == 1:  # Visium readers leave it out
        of = np.full(adata.n_obs, str(next(iter(known))))
    else:
        why = f"it holds {len(known)} sections, and whose a spot is, is not known"
        raise DataError(what, why, 'add obs["library_id"]')
    names, first = np.unique(of, return_index=True)
    return [_section(str(name), np.flatnonzero(of == name), xy, known, what) for name in names[np.argsort(first)]]


def _section(
    name: str, rows: NDArray[np.int64], xy: NDArray[np.float64], known: Mapping[str, Any], what: object
) -> Section:
    """Put together what is known of one section."""
    entry = known.get(name)
    try:
        diameter = float(entry[keys.SCALEFACTORS][keys.SPOT_DIAMETER])  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as e:
        raise DataError(what, f'uns["spatial"] does not tell how large a spot of section {name!r} is', REMEDY) from e
    return Section(name, rows, xy[rows], diameter, entry or {})
