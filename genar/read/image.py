"""Finding a section's full-resolution image where its layout does not tell."""

from collections.abc import Sequence
from pathlib import Path

from genar.errors import DataError

SUFFIXES = frozenset(
    ".tif .tiff .btf .svs .ndpi .scn .mrxs .vms .vmu .bif .svslide .dcm .jpg .jpeg .png".split()
)  # of what genar.slide opens
DERIVED = (  # smaller or annotated pictures that Space Ranger writes
    "tissue_hires_image", "tissue_lowres_image", "aligned_fiducials", "detected_tissue_image",
    "aligned_tissue_image", "cytassist_image",
)  # fmt: skip
REMEDY = "name the full-resolution image (column image of a sample sheet, --image, or image= in Python)"


def lone_image(folders: Sequence[Path], section: Path) -> Path:
    """Return the one image that lies directly in ``folders``.

    Raises
    ------
    DataError
        If there is none, or more than one.
    """
    found = sorted(
        path
        for folder in folders
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and path.is_file() and not any(part in path.name for part in DERIVED)
    )
    if not found:
        raise DataError(section, "no full-resolution image lies beside the counts", REMEDY)
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise DataError(section, f"{len(found)} images lie beside the counts ({names})", REMEDY)
    return found[0]
