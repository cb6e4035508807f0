"""What is wrong with where a section's spots lie, and what to do about it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from anndata import AnnData

from genar import keys
from genar.errors import SlideError
from genar.read.fit import Points, better_fit, image_size, on_mask, outside, tissue
from genar.read.geometry import pitch_px
from genar.slide.open import open_slide
from genar.slide.section import centres, metadata
from genar.slide.tissue import TissueMask

TOLERANCE = 0.1  # by which a pitch or a resolution may differ from the declared one
LEAST_ON_TISSUE, FEW_ON_TISSUE = 0.5, 0.8
PRINT_FORMATS = (".jpg", ".jpeg", ".png", ".bmp")  # these carry at most a resolution for print
OTHER_IMAGE = "give the image that the coordinates were measured on"


@dataclass(frozen=True)
class Placement:
    """Where a section's spots lie; fields as in :class:`genar.read.validate.SectionReport`."""

    pitch_um: float
    measured_pitch_um: float | None = None
    on_tissue: float | None = None
    better_fit: str | None = None
    mirrored: bool = False
    error: str | None = None
    warning: str | None = None


def placement(section: AnnData) -> Placement:
    """Judge a section's coordinates. The first error that is found explains those that follow, and stands alone.

    Parameters
    ----------
    section
        A section with at least one spot, and its image in ``uns["spatial"]``.
    """
    known, size, xy = metadata(section), image_size(section), centres(section)
    mpp, found = float(known[keys.MPP]), Placement(float(known[keys.PITCH_UM]))
    if lost := int((~np.isfinite(xy)).any(axis=1).sum()):
        why = f"{lost} of {len(xy)} spots have coordinates that are not numbers"
        return replace(found, error=f'{why}; give every spot its place in obsm["spatial"]')
    pixels = pitch_px(xy)
    found = replace(found, measured_pitch_um=None if pixels is None else pixels * mpp, mirrored=_mirrored(section))
    if outside(xy, size).any():
        return replace(found, error=_outside(xy, size, found))
    mask = tissue(section)
    measured = str(known[keys.MPP_SOURCE]).startswith("measured")
    if error := _pitch(xy, size, mask, found, None if measured else mpp):
        return replace(found, error=error, on_tissue=float(on_mask(mask, xy).mean()))
    return _on_tissue(xy, size, mask, found, _own_resolution(known.get(keys.SOURCE_IMAGE), mpp))


def _on_tissue(
    xy: Points, size: tuple[int, int], mask: TissueMask, found: Placement, disagreement: str | None
) -> Placement:
    """Judge the share of spots on tissue, of which a ``disagreement`` on the resolution may be the cause."""
    share, better = float(on_mask(mask, xy).mean()), better_fit(mask, xy, size)
    found = replace(found, on_tissue=share, better_fit=better and better[0])
    if better is not None:
        why = f"{share:.0%} of its spots lie on tissue, but {better[1]:.0%} with coordinates {better[0]}"
        return replace(found, error=f'{why}; change obsm["spatial"] so, or {OTHER_IMAGE}')
    because = f" ({disagreement})" if disagreement else ""
    if share < LEAST_ON_TISSUE:
        why = f"only {share:.0%} of its spots lie on tissue: image or coordinates are another section's{because}"
        return replace(found, error=f"{why}; look at them with --overlay, and {OTHER_IMAGE}")
    if disagreement and found.measured_pitch_um is None:
        return replace(found, error=f"{disagreement}; {OTHER_IMAGE}, or remove the wrong resolution from its file")
    if share < FEW_ON_TISSUE:
        why = f"only {share:.0%} of its spots lie on tissue{because}"
        return replace(found, warning=f"{why}; look at them with --overlay")
    if found.mirrored:
        why = "its array lies mirrored in the image, as when x and y are swapped"
        return replace(found, warning=f"{why}; look at it with --overlay, and swap them if spots are off the tissue")
    if disagreement:  # the pitch, which is as it should be, is the evidence
        right = "the section's is taken, by which its spots are as far apart as they should be"
        return replace(found, warning=f"{disagreement}; {right}")
    return found


def _outside(xy: Points, size: tuple[int, int], found: Placement) -> str:
    """Say that spots lie outside the image, and what would bring them in."""
    out = outside(xy, size)
    (left, top), (right, bottom) = xy.min(axis=0), xy.max(axis=0)
    why = f"{out.sum()} of {len(xy)} spots lie outside the image, which is {size[0]} x {size[1]} px"
    factor = _factor(found)
    if factor is not None and not outside(xy / factor, size).any():
        return f'{why}; they fit when {_undone(factor)}: {OTHER_IMAGE}, or do so in obsm["spatial"]'
    if not outside(xy[:, ::-1], size).any():
        return f'{why}; they fit when x and y are swapped: do so in obsm["spatial"]'
    if min(left, top) >= 0 and (least := max(right / size[0], bottom / size[1])) > 1 + TOLERANCE:
        return f"{why}; they are of an image at least {least:.2g} times as large: {OTHER_IMAGE}"
    reach = f"they reach from ({left:.0f}, {top:.0f}) to ({right:.0f}, {bottom:.0f})"
    return f"{why}; {reach}: leave out those outside, or {OTHER_IMAGE}"


def _factor(found: Placement) -> float | None:
    """Return how many times the declared pitch the measured one is; None where they agree or none was measured."""
    if not found.measured_pitch_um:
        return None
    factor = found.measured_pitch_um / found.pitch_um
    return None if abs(factor - 1) <= TOLERANCE else factor


def _undone(factor: float) -> str:
    """Say what undoes a factor."""
    return f"divided by {factor:.3g}" if factor > 1 else f"multiplied by {1 / factor:.3g}"


def _pitch(xy: Points, size: tuple[int, int], mask: TissueMask, found: Placement, mpp: float | None) -> str | None:
    """Say that the spots' distance is not the declared one, and whether it is the coordinates or the resolution.

    Where that was measured from the array, ``mpp`` is None, and the spots do not lie as on the array.
    """
    factor = _factor(found)
    if factor is None:
        return None
    why = f"its spots lie {found.measured_pitch_um:.4g} µm apart, not {found.pitch_um:g}"
    scaled = xy / factor
    if not outside(scaled, size).any() and on_mask(mask, scaled).mean() > max(on_mask(mask, xy).mean(), FEW_ON_TISSUE):
        return f'{why}, and fit the tissue when {_undone(factor)}; do so in obsm["spatial"], or {OTHER_IMAGE}'
    if mpp is None:
        what = "rows and columns, or the kind of array, are not what the format says"
        return f"{why}, though the resolution was measured by them: {what}; give it as an .h5ad or in its own format"
    return f"{why}; its resolution of {mpp:.4g} µm/px is wrong, {mpp / factor:.4g} would fit: give that as its mpp"


def _mirrored(section: AnnData) -> bool:
    """Tell whether a Visium array, whose columns run right and rows down, lies mirrored in the image."""
    if metadata(section)[keys.LATTICE] != "visium" or not {keys.ARRAY_ROW, keys.ARRAY_COL} <= set(section.obs):
        return False
    array = section.obs[[keys.ARRAY_COL, keys.ARRAY_ROW]].to_numpy(np.float64)
    fit, *_ = np.linalg.lstsq(np.column_stack([array, np.ones(len(array))]), centres(section), rcond=None)
    return bool(np.linalg.det(fit[:2]) < 0)


def _own_resolution(image: str | None, mpp: float) -> str | None:
    """Say that the image's file carries another resolution."""
    if image is None or image.lower().endswith(PRINT_FORMATS):
        return None
    try:
        with open_slide(image) as slide:
            own = float(slide.mpp)
    except SlideError:  # it carries none
        return None
    if abs(own / mpp - 1) <= TOLERANCE:
        return None
    return f"{Path(image).name} says {own:.4g} µm/px, the section {mpp:.4g}"
