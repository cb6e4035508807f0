"""Patches in the layout of HEST: cut from a real slide, told apart by barcode."""

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from genar import pp
from genar.errors import DataError
from genar.slide import chunks
from genar.slide.open import open_slide
from genar.slide.patches import PatchDataset, patch_barcodes
from genar.slide.tiles import TileDataset, open_tiles, tile_file

MPP = 0.499


@pytest.fixture(scope="module")
def section(shared):
    return pp.spots(shared / "data/wsi/CMU-1-Small-Region.svs", "st")[:6].copy()


@pytest.fixture(scope="module")
def tiles(section, read_all):
    (library,) = section.uns["spatial"].values()
    with open_slide(library["metadata"]["source_image_path"], MPP) as slide:
        return read_all(TileDataset(slide, section.obsm["spatial"], 112.0, 224))


def write(path, tiles, barcodes, **attributes):
    """As HEST's patcher writes: a chunk a patch, barcodes as a column of bytes."""
    with h5py.File(path, "w") as file:
        file.create_dataset("img", data=tiles.permute(0, 2, 3, 1).numpy(), chunks=(1, *tiles.shape[2:], 3))
        file["img"].attrs.update(attributes)
        file["barcode"] = np.array(barcodes, dtype="S")[:, None]
        file["coords"] = np.zeros((len(tiles), 2), dtype=np.int64)
    return path


@pytest.fixture
def patches(tmp_path, section, tiles):
    return write(tmp_path / "TENX1.h5", tiles.flip(0), section.obs_names[::-1])


def test_patches_are_matched_by_barcode(patches, section, tiles, read_all, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 4)
    found = PatchDataset(patches, list(section.obs_names), 112.0, 224, MPP)
    assert [len(chunk) for chunk in found.chunks] == [4, 2]
    assert torch.equal(read_all(found), tiles)
    some = PatchDataset(patches, list(section.obs_names[[4, 1]]), 112.0, 224, MPP)
    assert torch.equal(read_all(some), tiles[[4, 1]])
    there = DataLoader(found, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(torch.cat(list(there)), tiles)


def test_a_smaller_input_shrinks_them(patches, section, tiles):
    small = PatchDataset(patches, list(section.obs_names), 112.0, 112, MPP)[0][2]
    assert small.shape == (3, 112, 112)
    assert small.dtype == torch.uint8
    blocks = tiles[2].float().reshape(3, 112, 2, 112, 2).mean(dim=(2, 4))
    assert (small.float() - blocks).abs().mean() < 3


def test_another_side_says_what_to_do(patches, section):
    with pytest.raises(DataError, match=r"TENX1.h5: its patches are 112 µm wide, not 154 µm; set tile_um to 112, or"):
        PatchDataset(patches, list(section.obs_names), 154.0, 224, MPP)


def test_the_file_tells_its_side(tmp_path, section, tiles):
    """Newer files say how many pixels of the slide a patch spans."""
    path = write(tmp_path / "a.h5", tiles, section.obs_names, patch_size_src=448, pixel_size=MPP)
    with pytest.raises(DataError, match=r"are 223.6 µm wide, not 112 µm"):
        PatchDataset(path, list(section.obs_names), 112.0, 224, MPP)
    assert len(PatchDataset(path, list(section.obs_names), 224.0, 224, MPP)[0]) == 6


def test_spots_without_a_patch(tmp_path, section, tiles):
    path = write(tmp_path / "a.h5", tiles[1:], section.obs_names[1:])
    with pytest.raises(DataError, match=rf"1 of the section's 6 spots have no patch in it, {section.obs_names[0]} for"):
        PatchDataset(path, list(section.obs_names), 112.0, 224, MPP)
    assert patch_barcodes(path) == list(section.obs_names[1:])


def test_files_that_are_not_patches(tmp_path, section, tiles):
    text = tmp_path / "text.h5"
    text.write_text("no HDF5")
    lacking = tmp_path / "lacking.h5"
    with h5py.File(lacking, "w") as file:
        file["img"] = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    numbers = write(tmp_path / "numbers.h5", tiles, section.obs_names)
    with h5py.File(numbers, "a") as file:
        del file["barcode"]
        file["barcode"] = np.arange(6)
    for path in (text, lacking, numbers, tmp_path / "missing.h5"):
        with pytest.raises(DataError, match=rf"{path.name}: its patches cannot be read \(.+\); give HEST's file"):
            patch_barcodes(path)
    with pytest.raises(DataError, match="are not square RGB patches"):
        patch_barcodes(write(tmp_path / "narrow.h5", tiles[:, :, :, :100].contiguous(), section.obs_names))
    with pytest.raises(DataError, match="a barcode stands in it twice"):
        patch_barcodes(write(tmp_path / "twice.h5", tiles, [section.obs_names[0]] * 6))


def test_a_cut_file_is_an_error_when_its_patch_is_read(patches, section):
    found = PatchDataset(patches, list(section.obs_names), 112.0, 224, MPP)
    patches.write_bytes(patches.read_bytes()[:100_000])
    with pytest.raises(DataError, match="cannot be read"):
        found[0]


def test_a_section_takes_its_slide_where_it_has_one(section, patches, tiles, read_all):
    known = section.uns["spatial"]["CMU-1-Small-Region"]["metadata"]
    known["patches_path"] = str(patches)
    with open_tiles(section, 112.0, 224) as cut:
        assert isinstance(cut, TileDataset)
        assert torch.equal(read_all(cut), tiles)
    bare = section.copy()
    del bare.uns["spatial"]["CMU-1-Small-Region"]["metadata"]["source_image_path"]
    assert tile_file(bare) == patches
    with open_tiles(bare, 112.0, 224) as read:
        assert isinstance(read, PatchDataset)
        assert torch.equal(read_all(read), tiles)
    del bare.uns["spatial"]["CMU-1-Small-Region"]["metadata"]["patches_path"]
    with pytest.raises(DataError, match=r"^CMU-1-Small-Region: the section has neither a slide nor patches"):
        tile_file(bare)
