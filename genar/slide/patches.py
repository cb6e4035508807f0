"""Tiles that were cut beforehand: HEST's files of patches, for sections whose slide is not at hand."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from genar.errors import DataError
from genar.slide.chunks import in_turn

PATCH_MPP = 0.5  # of HEST's patches, which are 224 px wide, hence 112 µm


class PatchDataset(Dataset[Tensor]):
    """The tiles of spots whose slide is not at hand, from a file of patches as HEST gives it.

    They are :class:`~genar.slide.chunks.Tiles`; the tile of a spot is the patch with its barcode.

    Parameters
    ----------
    path
        HDF5 file with ``img``, uint8 [M, px, px, 3], and ``barcode`` [M].
    barcodes
        The spots' names.
    tile_um
        Side of a tile in µm, which must be that of the patches.
    input_px
        Side of a tile in pixels of the encoder's input.
    mpp
        Resolution in µm per pixel of the slide that the patches were cut from.

    Raises
    ------
    DataError
        If the file cannot be read, its patches have another side, or a spot has none.
    """

    def __init__(self, path: Path, barcodes: Sequence[str], tile_um: float, input_px: int, mpp: float) -> None:
        self.path, self.input_px = path, input_px
        rows = {barcode: row for row, barcode in enumerate(patch_barcodes(path))}
        missing = [barcode for barcode in barcodes if barcode not in rows]
        if missing:
            why = f"{len(missing)} of the section's {len(barcodes)} spots have no patch in it, {missing[0]} for one"
            raise DataError(path, why, "leave these spots out, or give the section's slide")
        self.rows = [rows[barcode] for barcode in barcodes]
        self.chunks = in_turn(len(self.rows))
        side = self._side_um(mpp)
        if abs(side - tile_um) > 0.01 * side:
            why = f"its patches are {side:g} µm wide, not {tile_um:g} µm"
            raise DataError(path, why, f"set tile_um to {side:g}, or give the section's slide")

    def _side_um(self, mpp: float) -> float:
        """Return the side of a patch in µm."""
        with h5py.File(self.path, locking=False) as file:
            source_px = file["img"].attrs.get("patch_size_src")  # in pixels of the slide, in newer files
            side = file["img"].shape[1] * PATCH_MPP if source_px is None else float(source_px) * mpp
        return round(side, 1)

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, index: int) -> Tensor:
        try:
            # opened anew, since a handle must not be shared among processes
            with h5py.File(self.path, locking=False) as file:
                patches = np.stack([file["img"][self.rows[spot]] for spot in self.chunks[index]])
        except OSError as e:
            raise _unreadable(self.path, e) from e
        if patches.shape[1] != self.input_px:
            size = (self.input_px, self.input_px)
            resized = [Image.fromarray(patch).resize(size, Image.Resampling.BICUBIC) for patch in patches]
            patches = np.stack([np.asarray(patch) for patch in resized])
        return torch.from_numpy(patches).permute(0, 3, 1, 2)


def patch_barcodes(path: Path) -> list[str]:
    """Return the barcodes of the spots that a file of patches holds, in its order.

    Raises
    ------
    DataError
        If it is not such a file, or a barcode stands in it twice.
    """
    try:
        with h5py.File(path, locking=False) as file:
            barcodes = [str(name) for name in np.ravel(file["barcode"].asstr()[...])]
            shape, dtype = file["img"].shape, file["img"].dtype
    except (OSError, KeyError, TypeError, AttributeError) as e:
        raise _unreadable(path, e) from e
    if len(shape) != 4 or shape[1] != shape[2] or shape[3] != 3 or dtype != np.uint8 or shape[0] != len(barcodes):
        why = f"its {len(barcodes)} barcodes and its img ({dtype}, {shape}) are not square RGB patches of spots"
        raise DataError(path, why, "give a file of HEST's patches")
    if len(set(barcodes)) < len(barcodes):
        raise DataError(path, "a barcode stands in it twice", "download it again")
    return barcodes


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:160]
    return DataError(path, f"its patches cannot be read ({reason})", "give HEST's file with img, barcode and coords")
