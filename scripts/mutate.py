"""Small slides of many kinds, and ways to damage them, for ``fuzz_slide.py``."""

import json
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from PIL import Image, ImageCms
from scipy import ndimage

MPP = 0.5
SIDE = 440  # px
EXTREMES = (0, 1, 2, 3, 7, 255, 256, 32767, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**63, 2**64 - 1)
TEXTS = ("", "nan", "1e308", "../../..", "\x00", "ü" * 300)


def picture() -> np.ndarray:
    """Make a picture of tissue, a textured disc on glass: RGB uint8 [SIDE, SIDE, 3]."""
    noise = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    texture = ndimage.gaussian_filter(noise.normal(0, 1, (SIDE, SIDE)), 5)
    image = 238 + noise.normal(0, 1.5, (SIDE, SIDE, 3))
    disc = x**2 + y**2 < (0.42 * SIDE) ** 2
    image[disc] = (np.array([170, 100, 160]) + 30 * (texture / texture.std())[..., None])[disc]
    return image.clip(0, 255).astype(np.uint8)


def make_seeds(folder: Path) -> None:
    """Write a small slide of each kind."""
    image, tiled = picture(), {"photometric": "rgb", "tile": (128, 128), "metadata": None}
    per_cm = {"resolution": (1e4 / MPP, 1e4 / MPP), "resolutionunit": "CENTIMETER"}
    strips = {"photometric": "rgb", "rowsperstrip": 64, "metadata": None, **per_cm}
    aperio = {"description": f"Aperio Image Library v10.0\n440x440 |AppMag = 20|MPP = {MPP}", **tiled}
    tifffile.imwrite(folder / "aperio-jpeg.svs", image, compression="jpeg", **aperio)
    tifffile.imwrite(folder / "aperio-jpeg2000.svs", image, compression="aperio_jp2000_rgb", **aperio)
    for name, compression in (("plain", None), ("lzw", "lzw"), ("deflate", "zlib"), ("jpeg", "jpeg")):
        tifffile.imwrite(folder / f"strips-{name}.tif", image, compression=compression, **strips)
    tifffile.imwrite(folder / "webp.tif", image, compression="webp", **tiled, **per_cm)
    tifffile.imwrite(folder / "big.tif", image, bigtiff=True, compression="zlib", **tiled, **per_cm)
    with tifffile.TiffWriter(folder / "pyramid.tif") as writer:
        for step in (1, 2, 4):
            writer.write(image[::step, ::step], subfiletype=int(step > 1), compression="jpeg", **tiled, **per_cm)
    size = {f"PhysicalSize{axis}": MPP for axis in "XY"}
    with tifffile.TiffWriter(folder / "ome.ome.tif") as writer:
        options: dict[str, Any] = {"photometric": "rgb", "tile": (128, 128), "compression": "jpeg"}
        writer.write(image, subifds=1, metadata={"axes": "YXS", **size}, **options)
        writer.write(image[::2, ::2], subfiletype=1, **options)
    exif, profile = Image.Exif(), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif[0x010E] = "slide"
    written = Image.fromarray(image)
    written.save(folder / "picture.jpg", exif=exif, icc_profile=profile, dpi=(25400 / MPP, 25400 / MPP))
    written.save(folder / "progressive.jpg", progressive=True, dpi=(25400 / MPP, 25400 / MPP))
    written.save(folder / "picture.png", exif=exif, icc_profile=profile, dpi=(25400 / MPP, 25400 / MPP))
    for version in (2, 3):
        _ngff(folder / f"ngff{version}.zarr", image, version)


def _ngff(path: Path, image: np.ndarray, version: int) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=version)  # type: ignore[arg-type]
    axes = [{"name": "c"}, {"name": "y", "unit": "micrometer"}, {"name": "x", "unit": "micrometer"}]
    datasets = []
    for step in (1, 2):
        array = np.moveaxis(image[::step, ::step], 2, 0)
        group.create_array(f"s{step}", data=array, chunks=(3, 128, 128))
        scale = [{"type": "scale", "scale": [1.0, MPP * step, MPP * step]}]
        datasets.append({"path": f"s{step}", "coordinateTransformations": scale})
    ome: dict[str, Any] = {"multiscales": [{"axes": axes, "datasets": datasets}]}
    group.attrs.update({"ome": ome} if version == 3 else ome)


def mutate(seed: Path, target: Path, rng: random.Random) -> str:
    """Write a damaged copy of a slide to ``target``, and say how it was damaged."""
    if seed.is_dir():
        shutil.copytree(seed, target)
        return _mutate_store(target, rng)
    data = bytearray(seed.read_bytes())
    ways = [truncate, flip, blank, splice, word]
    if data[:2] in (b"II", b"MM"):
        ways += [tag] * 6
    elif data[:4] == b"\x89PNG":
        ways += [chunk] * 4
    elif data[:2] == b"\xff\xd8":
        ways += [marker] * 4
    else:
        ways += [word] * 4
    told = [rng.choice(ways)(data, rng) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
    target.write_bytes(data)
    return ", ".join(told)


def truncate(data: bytearray, rng: random.Random) -> str:
    """Cut the end off."""
    keep = rng.randrange(max(len(data), 1))
    del data[keep:]
    return f"cut to {keep}"


def flip(data: bytearray, rng: random.Random) -> str:
    """Flip some bits anywhere, or near the beginning."""
    if not data:
        return "empty"
    n, reach = rng.choice((1, 4, 32, 256)), rng.choice((512, len(data)))
    for _ in range(n):
        data[rng.randrange(min(reach, len(data)))] ^= 1 << rng.randrange(8)
    return f"{n} bits of {reach}"


def blank(data: bytearray, rng: random.Random) -> str:
    """Overwrite a block with one byte."""
    start, size = rng.randrange(max(len(data), 1)), rng.choice((16, 512, 20_000))
    value = rng.choice((0, 255, rng.randrange(256)))
    data[start : start + size] = bytes([value]) * len(data[start : start + size])
    return f"{size} of {value} at {start}"


def splice(data: bytearray, rng: random.Random) -> str:
    """Remove a block, or repeat it elsewhere."""
    start, size = rng.randrange(max(len(data), 1)), rng.choice((1, 100, 5000))
    block = bytes(data[start : start + size])
    if rng.random() < 0.5:
        del data[start : start + size]
        return f"{size} removed at {start}"
    to = rng.randrange(max(len(data), 1))
    data[to:to] = block
    return f"{size} of {start} repeated at {to}"


def word(data: bytearray, rng: random.Random) -> str:
    """Overwrite a number, of any size and byte order, near the beginning or anywhere, with an extreme one."""
    code = rng.choice("HIQ")
    size = struct.calcsize(code)
    if len(data) <= size:
        return "too short"
    at = rng.randrange(min(len(data) - size, rng.choice((2048, len(data)))))
    value = rng.choice(EXTREMES) % 256**size
    struct.pack_into(rng.choice("<>") + code, data, at, value)
    return f"{value} at {at}"


def tag(data: bytearray, rng: random.Random) -> str:
    """Overwrite a tag's number, type, count or value, or the place of the next page, in a TIFF's header."""
    order = "<" if data[:2] == b"II" else ">"
    fields = list(_fields(bytes(data), order))
    if not fields:
        return word(data, rng)
    name, at, code = rng.choice(fields)
    size = struct.calcsize(code)
    value = rng.choice((*EXTREMES, len(data), len(data) - 1, rng.randrange(len(data)))) % 256**size
    struct.pack_into(order + code, data, at, value)
    return f"{name} = {value}"


def _fields(data: bytes, order: str) -> "list[tuple[str, int, str]]":
    """Find the fields of a TIFF's pages: what each is, where, and its kind of number."""
    found: list[tuple[str, int, str]] = []
    try:
        big = struct.unpack_from(order + "H", data, 2)[0] == 43
        word, length, entry = ("Q", 8, 20) if big else ("I", 2, 12)
        at = struct.unpack_from(order + word, data, 8 if big else 4)[0]
        for page in range(8):
            n = struct.unpack_from(order + ("Q" if big else "H"), data, at)[0]
            for number in range(min(n, 50)):
                here = at + length + number * entry
                code = struct.unpack_from(order + "H", data, here)[0]
                what = f"page {page} tag {code}"
                found += [(f"{what} number", here, "H"), (f"{what} type", here + 2, "H")]
                found += [(f"{what} count", here + 4, word)] + [(what, here + (12 if big else 8), word)] * 4
            link = at + length + n * entry
            found.append((f"link of page {page}", link, word))
            at = struct.unpack_from(order + word, data, link)[0]
            if not at:
                break
    except struct.error:
        pass  # damaged before
    return [field for field in found if field[1] + struct.calcsize(field[2]) <= len(data)]


def marker(data: bytearray, rng: random.Random) -> str:
    """Overwrite two bytes within a segment of a JPEG: its length, or what it says of sizes, tables and profiles."""
    starts = [i for i in range(len(data) - 20) if data[i] == 255 and data[i + 1] not in (0, 255) and data[i + 1] >= 192]
    at = rng.choice(starts or [0])
    offset = rng.choice((1, 2, 4, 5, 7, 9, 10, 12))
    value = rng.choice(EXTREMES) % 2**16
    data[at + offset : at + offset + 2] = struct.pack(">H", value)
    return f"{value} in the segment at {at} + {offset}"


def chunk(data: bytearray, rng: random.Random) -> str:
    """Overwrite a PNG chunk's length, or a number in it, with a checksum that fits."""
    at, starts = 8, []
    while at + 12 <= len(data):
        starts.append(at)
        at += 12 + struct.unpack_from(">I", data, at)[0]
    start = rng.choice(starts or [0])
    size = struct.unpack_from(">I", data, start)[0] if starts else 0
    value = rng.choice(EXTREMES) % 2**32
    if size < 4 or start + 12 + size > len(data) or rng.random() < 0.2:
        struct.pack_into(">I", data, start, value)
        return f"chunk of {value} at {start}"
    inside = start + 8 + rng.randrange(min(size - 3, 16))
    struct.pack_into(">I", data, inside, value)
    struct.pack_into(">I", data, start + 8 + size, zlib.crc32(data[start + 4 : start + 8 + size]))
    return f"{value} at {inside} in the chunk at {start}"


def _mutate_store(store: Path, rng: random.Random) -> str:
    """Damage a file of a zarr store, or edit one of its JSON files."""
    files = sorted(path for path in store.rglob("*") if path.is_file())
    texts = [path for path in files if path.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
    path = rng.choice(texts if rng.random() < 0.7 else files)
    where = str(path.relative_to(store))
    if rng.random() < 0.1:
        path.unlink()
        return f"{where} removed"
    if path in texts and rng.random() < 0.8:
        content = json.loads(path.read_text())
        told = _edit(content, rng)
        path.write_text(json.dumps(content))
        return f"{where}: {told}"
    data = bytearray(path.read_bytes())
    told = rng.choice((truncate, flip, blank, splice, word))(data, rng)
    path.write_bytes(data)
    return f"{where}: {told}"


def _edit(content: Any, rng: random.Random) -> str:
    """Replace or remove one entry of nested JSON."""
    places: list[tuple[Any, Any, str]] = []

    def walk(node: Any, path: str) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key, f"{path}/{key}"))
            if isinstance(value, dict | list):
                walk(value, f"{path}/{key}")

    walk(content, "")
    if not places:
        return "nothing to edit"
    node, key, path = rng.choice(places)
    if rng.random() < 0.15:
        del node[key]
        return f"{path} removed"
    node[key] = rng.choice((*EXTREMES, -1, 1.5, float("nan"), None, [], {}, [[]], *TEXTS))
    return f"{path} = {str(node[key])[:20]!r}"
