"""Files that the tests of formats read: writers of kinds that no library here writes by itself."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from scipy import ndimage

TILES = {"tile": (128, 128), "photometric": "rgb", "metadata": None}
STRIPS = {"photometric": "rgb", "rowsperstrip": 32, "metadata": None}
APERIO = "Aperio Image Library v10.0\n333x241 [0,0 333x241] (128x128) JPEG/RGB|AppMag = 40|MPP = 0.25"


def picture(height: int = 241, width: int = 333, seed: int = 0) -> np.ndarray:
    """Make a smooth pink picture that a lossy codec keeps, RGB uint8 [height, width, 3]."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(0, 1, (height, width, 3)), (6, 6, 0))
    return (np.array([180, 120, 170]) + 25 * noise / noise.std()).clip(0, 255).astype(np.uint8)


def pyramid(path: Path, pixels: np.ndarray, *, levels: int = 3, subifds: bool = False, **options: Any) -> None:
    """Write a TIFF of several levels, in pages of their own or in SubIFDs."""
    with tifffile.TiffWriter(path) as writer:
        for level in range(levels):
            within = {"subifds": levels - 1} if subifds and level == 0 else {}
            kind = {"subfiletype": int(level > 0)}
            writer.write(pixels[:: 2**level, :: 2**level], **{**TILES, **options}, **within, **kind)


def leica(path: Path, pixels: np.ndarray, *, mpp: float, corner: tuple[int, int], size: tuple[int, int]) -> None:
    """Write a Leica SCN: ``pixels`` scanned at ``corner`` (x, y) of a slide of ``size``, transparent elsewhere."""

    def image(corner: tuple[int, int], size: tuple[int, int], levels: list[tuple[int, int, int]], power: float) -> str:
        x, y, width, height = (round(value * mpp * 1000) for value in (*corner, *size))  # nm
        sizes = "".join(f'<dimension sizeX="{w}" sizeY="{h}" r="{r}" ifd="{i}"/>' for r, (w, h, i) in enumerate(levels))
        return (
            f'<image><pixels sizeX="{levels[0][0]}" sizeY="{levels[0][1]}">{sizes}</pixels>'
            f'<view sizeX="{width}" sizeY="{height}" offsetX="{x}" offsetY="{y}" spacingZ="0"/><scanSettings>'
            f"<objectiveSettings><objective>{power}</objective></objectiveSettings><illuminationSettings>"
            "<illuminationSource>brightfield</illuminationSource></illuminationSettings></scanSettings></image>"
        )

    height, width = pixels.shape[:2]
    macro = image((0, 0), size, [(128, 96, 0)], 0.6)
    scan = image(corner, (width, height), [(width, height, 1), (width // 2, height // 2, 2)], 20)
    nm = [round(side * mpp * 1000) for side in size]
    xml = '<?xml version="1.0"?><scn xmlns="http://www.leica-microsystems.com/scn/2010/10/01"><collection '
    xml += f'sizeX="{nm[0]}" sizeY="{nm[1]}"><barcode/>{macro}{scan}</collection></scn>'
    pages = [(np.full((96, 128, 3), 240, np.uint8), 100.0), (pixels, 1e4 / mpp), (pixels[::2, ::2], 5e3 / mpp)]
    with tifffile.TiffWriter(path, bigtiff=True) as writer:
        for number, (page, per_cm) in enumerate(pages):
            text = {} if number else {"description": xml}
            writer.write(page, resolution=(per_cm, per_cm), resolutionunit="CENTIMETER", **text, **TILES)


def ngff(path: Path, pixels: np.ndarray, *, version: int = 3, axes: str = "cyx", **attributes: Any) -> None:
    """Write an OME-NGFF image of two levels; ``unit`` and ``scale`` say what a pixel of the finer spans."""
    unit, scale = attributes.pop("unit", None), attributes.pop("scale", 1.0)
    group = zarr.open_group(path, mode="w", zarr_format=version)
    datasets = []
    for level in range(2):
        array = np.moveaxis(pixels[:: 2**level, :: 2**level], 2, 0)
        array = array.reshape((1,) * (len(axes) - 3) + array.shape)
        group.create_array(f"s{level}", data=array, chunks=(1,) * (len(axes) - 2) + (64, 64))
        steps = [{"type": "scale", "scale": [1.0] * (len(axes) - 2) + [scale * 2**level] * 2}]
        datasets.append({"path": f"s{level}", "coordinateTransformations": steps})
    described = [{"name": axis} | ({"unit": unit} if unit and axis in "xy" else {}) for axis in axes]
    ome = {"multiscales": [{"axes": described, "datasets": datasets}], **attributes}
    group.attrs.update({"ome": ome} if version == 3 else ome)


def pickled(path: Path, pixels: np.ndarray) -> None:
    """Write a zarr store of which a chunk, decoded as its header says, would be unpickled."""
    ngff(path, pixels, version=2)
    header = path / "s0" / ".zarray"
    header.write_text(json.dumps({**json.loads(header.read_text()), "compressor": {"id": "pickle", "protocol": 4}}))


def png_bomb(path: Path, side: int = 60_000) -> None:
    """Write a small PNG whose header gives a huge image."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(2**20))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def pages(path: Path, number: int, *, loop: bool = False) -> None:
    """Write a TIFF of many pages of one grey pixel; in a ``loop`` the last is followed by the first."""
    size = 2 + 8 * 12 + 4
    chain = bytearray(struct.pack("<2sHI", b"II", 42, 8))
    for page in range(number):
        last = page == number - 1
        following = (8 if loop else 0) if last else 8 + (page + 1) * size
        tags = ((256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 0), (278, 1), (279, 1))
        chain += struct.pack("<H", 8) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
        chain += struct.pack("<I", following)
    path.write_bytes(chain)


def overwrite_tag(path: Path, tag: str, value: int, page: int = 0) -> None:
    """Overwrite a tag of a TIFF that lies in the header itself."""
    with tifffile.TiffFile(path) as file:
        found = file.pages[page].tags[tag]  # type: ignore[union-attr]
        at, code, order = found.offset + (12 if file.is_bigtiff else 8), found.dtype, file.byteorder
    data = bytearray(path.read_bytes())
    kind = {3: "H", 4: "I", 16: "Q"}[int(code)]
    struct.pack_into(order + kind, data, at, value)
    path.write_bytes(data)
