"""What a page shows, taken from an AnnData and checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray
from PIL import Image
from scipy import sparse

from genar import keys
from genar.errors import DataError
from genar.genes.choice import is_counts
from genar.metrics.spatial import adjacent, morans_i
from genar.pl.section import image_of, one_section, provenance_of

IMAGE_PX = 2000  # longest side
BLOCK = 512  # genes taken at once
REMEDY = "give a file of genar predict, or a section that genar.read has read"


@dataclass(frozen=True)
class Shown:
    """One section.

    Parameters
    ----------
    adata
        Its N spots.
    library
        Its ``library_id``.
    metadata
        Of the slide, from ``uns["spatial"]``; may be empty.
    provenance
        ``uns["genar"]`` of this section; empty where it was measured.
    image
        The slide, RGB.
    xy
        Centres of the spots in pixels of the image, float64 [N, 2].
    diameter
        Of a spot, in pixels of the image.
    pitch
        Distance of neighbouring spots, in pixels of the image; None where not known.
    um_per_px
        Resolution of the image in µm per pixel; None where not known.
    counts
        CSC [N, G].
    moran
        Moran's I of log2(count + 1) of each gene, float64 [G], NaN where undefined.
    """

    adata: AnnData
    library: str
    metadata: dict[str, Any]
    provenance: dict[str, Any]
    image: Image.Image
    xy: NDArray[np.float64]
    diameter: float
    pitch: float | None
    um_per_px: float | None
    counts: sparse.csc_matrix
    moran: NDArray[np.float64]

    @property
    def title(self) -> str:
        """What the slide is called."""
        return str(self.metadata.get(keys.SECTION_NAME, self.metadata.get(keys.SLIDE_NAME, self.library)))

    @property
    def model(self) -> str:
        """The model that predicted it; empty where it was measured."""
        return str(self.provenance.get("model", ""))

    @property
    def warnings(self) -> list[str]:
        """What the result warns of."""
        return [str(text) for text in self.provenance.get("warnings", ())]


def shown(adata: AnnData, library_id: str | None, what: object) -> Shown:
    """Take one section of an AnnData.

    Parameters
    ----------
    adata
        One section, or several.
    library_id
        Which one, where there are several.
    what
        What to call it in an error: its file.

    Raises
    ------
    DataError
        If there is no such section, it lacks its positions or its image, or ``X`` holds no counts.
    """
    one, library, entry = _checked(adata, library_id, what)
    picture, scale = image_of(entry)
    image = _image(picture)
    shrink = min(1.0, IMAGE_PX / max(image.size))
    if shrink < 1:
        image = image.resize((round(image.width * shrink), round(image.height * shrink)), Image.Resampling.BOX)
    xy = np.asarray(one.obsm[keys.SPATIAL], dtype=np.float64)
    counts, metadata = _counts(one, what), dict(entry.get(keys.METADATA, {}))
    um_per_px = float(metadata[keys.MPP]) / (scale * shrink) if keys.MPP in metadata else None
    pitch_um = metadata.get(keys.PITCH_UM)
    return Shown(
        adata=one,
        library=library,
        metadata=metadata,
        provenance=dict(provenance_of(adata, library)),
        image=image,
        xy=xy * scale * shrink,
        diameter=float(entry[keys.SCALEFACTORS][keys.SPOT_DIAMETER]) * scale * shrink,
        pitch=float(pitch_um) / um_per_px if pitch_um is not None and um_per_px else None,
        um_per_px=um_per_px,
        counts=counts,
        moran=_moran(counts, xy),
    )


def libraries(adata: AnnData) -> list[str]:
    """List the sections of an AnnData that have an image, in their order."""
    return [str(name) for name in adata.uns.get(keys.SPATIAL, {})]


def _checked(adata: AnnData, library_id: str | None, what: object) -> tuple[AnnData, str, Any]:
    """Return a section that has all that is drawn."""
    spatial = adata.obsm.get(keys.SPATIAL)
    if spatial is None or np.ndim(spatial) != 2 or np.shape(spatial)[1] != 2:
        raise DataError(what, 'it has no obsm["spatial"] of two columns', REMEDY)
    if not adata.uns.get(keys.SPATIAL):
        raise DataError(what, 'it has no image in uns["spatial"]', REMEDY)
    one, library, entry = one_section(adata, library_id)
    factors = entry.get(keys.SCALEFACTORS, {})
    if not entry.get(keys.IMAGES) or keys.SPOT_DIAMETER not in factors:
        why = f'uns["spatial"][{library!r}] lacks its image or the width of a spot'
        raise DataError(what, why, REMEDY)
    if not one.n_obs or not one.n_vars:
        raise DataError(what, f"it holds {one.n_obs} spots and {one.n_vars} genes", "give one that holds some of both")
    return one, library, entry


def _image(picture: NDArray[Any]) -> Image.Image:
    """Return an RGB picture of whole numbers to 255 or of shares to 1, as Visium readers give both."""
    values = np.asarray(picture)
    if np.issubdtype(values.dtype, np.floating):
        values = (values * 255).round().clip(0, 255)
    return Image.fromarray(values[..., :3].astype(np.uint8))


def _counts(adata: AnnData, what: object) -> sparse.csc_matrix:
    """Return ``X``, which must hold counts."""
    counts = sparse.csc_matrix(adata.X)
    if not is_counts(counts):
        raise DataError(what, "X holds values that are no counts", "give the file as it was before it was normalised")
    if counts.data.max(initial=0) >= 2**32:
        raise DataError(what, "X holds counts beyond 32 bits", "give raw counts")
    return counts


def _moran(counts: sparse.csc_matrix, xy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Moran's I of each gene on the spots that touch, some genes at a time."""
    graph = adjacent(xy)
    starts = range(0, counts.shape[1], BLOCK)
    parts = [morans_i(np.log2(counts[:, k : k + BLOCK].toarray() + 1.0), graph) for k in starts]
    return np.concatenate(parts)
