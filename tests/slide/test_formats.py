"""Kinds of files, each read as it was written or refused with a reason."""

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

import genar
from genar.errors import SlideError
from genar.slide.backends import origin
from genar.slide.lattice import lattice
from genar.slide.open import open_slide
from tests.slide import written
from tests.slide.written import APERIO, STRIPS, TILES

RGB = written.picture()
GREY = RGB[..., 1]
AS_GREY = np.repeat(GREY[..., None], 3, axis=2)
OPACITY = np.where(np.arange(RGB.shape[1]) < 100, 0, np.where(np.arange(RGB.shape[1]) < 200, 128, 255))
OPACITY = np.broadcast_to(OPACITY.astype(np.uint8), GREY.shape)
RGBA = np.dstack([RGB, OPACITY])
PREMULTIPLIED = np.dstack([(RGB * (OPACITY[..., None] / 255)).astype(np.uint8), OPACITY])
OVER_WHITE = (255 - (255 - RGB.astype(float)) * OPACITY[..., None] / 255).astype(np.uint8)
GREY_OVER_WHITE = (255 - (255 - AS_GREY.astype(float)) * OPACITY[..., None] / 255).astype(np.uint8)
PALETTE = np.stack([np.arange(256), 255 - np.arange(256), np.arange(256) // 2]).astype(np.uint16) * 257
OF_PALETTE = np.dstack([GREY, 255 - GREY, GREY // 2])
SIX = Image.Exif()
SIX[0x0112] = 6  # turned by 90°
GREY_TILES = {"tile": (128, 128), "metadata": None}
PER_CM = {"resolution": (2e4, 2e4), "resolutionunit": "CENTIMETER"}
OME = {"ome": True, "photometric": "rgb"}
BAND = 6  # grey values that a lossy codec may be off at the mean


@dataclass(frozen=True)
class Case:
    """A kind of file: how to write it, and its pixels or why it is refused."""

    write: Callable[[Path], object]
    want: np.ndarray | None = field(default=None, repr=False)
    suffix: str = "tif"
    mpp: float | None = None  # what the file carries
    off: float = 0.0  # mean difference that is allowed
    refused: str = ""


def tiff(data: np.ndarray = RGB, want: np.ndarray | None = RGB, *, case: Any = None, **kw: Any) -> Case:
    """Make a case that tifffile writes."""
    return Case(lambda path: tifffile.imwrite(path, data, **kw), want, **(case or {}))


def pillow(data: np.ndarray | Image.Image, want: np.ndarray | None, suffix: str, off: float = 0, **kw: Any) -> Case:
    """Make a case that Pillow writes."""
    image = data if isinstance(data, Image.Image) else Image.fromarray(data)
    return Case(lambda path: image.save(path, **kw), want, suffix, off=off)


def no(case: Case, reason: str) -> Case:
    """Expect that a case is refused."""
    return Case(case.write, None, case.suffix, refused=reason)


def ome(**attributes: Any) -> Case:
    """Make an OME-TIFF with the resolution in the text; a case of 0.5 µm."""
    return tiff(**OME, metadata={"axes": "YXS", **attributes}, case={"mpp": 0.5})


LOSSLESS = ("zlib", "lzw", "zstd", "lzma", "packbits", "jpeg2000", "webp", "jpegxl")
CASES = {
    **{f"tiles, {name}": tiff(compression=name, **TILES) for name in LOSSLESS},
    **{f"strips, {name}": tiff(compression=name, **STRIPS) for name in LOSSLESS},
    "tiles, JPEG": tiff(compression="jpeg", case={"off": BAND}, **TILES),
    "tiles, JPEG, RGB": tiff(compression="jpeg", compressionargs={"outcolorspace": "rgb"}, case={"off": BAND}, **TILES),
    "strips, JPEG, 4:2:0": tiff(compression="jpeg", subsampling=(2, 2), case={"off": BAND}, **STRIPS),
    "strips, JPEG, 4:4:4": tiff(compression="jpeg", subsampling=(1, 1), case={"off": BAND}, **STRIPS),
    "BigTIFF, tiles": tiff(bigtiff=True, **TILES),
    "BigTIFF, big-endian, strips": tiff(bigtiff=True, byteorder=">", **STRIPS),
    "planes, tiles": tiff(np.moveaxis(RGB, 2, 0), planarconfig="separate", **TILES),
    "planes, strips": tiff(np.moveaxis(RGB, 2, 0), planarconfig="separate", **STRIPS),
    "16 bits, tiles": tiff(RGB.astype(np.uint16) * 257, **TILES),
    "16 bits, strips": tiff(RGB.astype(np.uint16) * 257, **STRIPS),
    "grey, tiles": tiff(GREY, AS_GREY, **GREY_TILES),
    "grey, strips": tiff(GREY, AS_GREY),
    "grey, JPEG": tiff(GREY, AS_GREY, compression="jpeg", case={"off": BAND}, **GREY_TILES),
    "white is zero, tiles": tiff(255 - GREY, AS_GREY, photometric="miniswhite", **GREY_TILES),
    "palette, tiles": tiff(GREY, OF_PALETTE, photometric="palette", colormap=PALETTE, **GREY_TILES),
    "palette, strips": tiff(GREY, OF_PALETTE, photometric="palette", colormap=PALETTE),
    "opacity, tiles": tiff(RGBA, OVER_WHITE, extrasamples=["unassalpha"], case={"off": 1}, **TILES),
    "opacity, strips": tiff(RGBA, OVER_WHITE, extrasamples=["unassalpha"], case={"off": 1}, **STRIPS),
    "premultiplied, tiles": tiff(PREMULTIPLIED, OVER_WHITE, extrasamples=["assocalpha"], case={"off": 1}, **TILES),
    "premultiplied, strips": tiff(PREMULTIPLIED, OVER_WHITE, extrasamples=["assocalpha"], case={"off": 1}, **STRIPS),
    "grey with opacity": tiff(
        np.dstack([GREY, OPACITY]), GREY_OVER_WHITE, photometric="minisblack", planarconfig="contig",
        extrasamples=["unassalpha"], case={"off": 1},
    ),
    "one pixel, tiles": tiff(RGB[:1, :1], RGB[:1, :1], **TILES),
    "one pixel, strips": tiff(RGB[:1, :1], RGB[:1, :1], photometric="rgb"),
    "one row, tiles": tiff(RGB[:1], RGB[:1], **TILES),
    "one column, strips": tiff(RGB[:, :1], RGB[:, :1], photometric="rgb"),
    "mpp in cm": tiff(**PER_CM, **TILES, case={"mpp": 0.5}),
    "mpp in inches": tiff(resolution=(50800, 50800), resolutionunit="INCH", **STRIPS, case={"mpp": 0.5}),
    "mpp in Aperio's text, tiles": tiff(description="x|AppMag = 40|MPP = 0.25", **TILES, case={"mpp": 0.25}),
    "mpp in Aperio's text, strips": tiff(description="x|MPP = 0.25", **PER_CM, **STRIPS, case={"mpp": 0.25}),
    "mpp in ImageJ's text": tiff(
        imagej=True, resolution=(2, 2), metadata={"unit": "um"}, photometric="rgb", case={"mpp": 0.5}
    ),
    "mpp in OME-XML, default unit": ome(PhysicalSizeX=0.5, PhysicalSizeY=0.5),
    "mpp in OME-XML, nm": ome(PhysicalSizeX=500, PhysicalSizeXUnit="nm", PhysicalSizeY=500, PhysicalSizeYUnit="nm"),
    "mpp in OME-XML, mm": ome(PhysicalSizeX=5e-4, PhysicalSizeXUnit="mm", PhysicalSizeY=5e-4, PhysicalSizeYUnit="mm"),
    "mpp in OME-XML, unit unknown": tiff(
        **OME, **PER_CM, metadata={"axes": "YXS", "PhysicalSizeX": 1, "PhysicalSizeXUnit": "pixel"}, case={"mpp": 0.5}
    ),
    "OME-TIFF, channels": tiff(np.moveaxis(RGB, 2, 0), ome=True, photometric="minisblack", metadata={"axes": "CYX"}),
    "pyramid in pages": Case(lambda path: written.pyramid(path, RGB), RGB),
    "pyramid in SubIFDs": Case(lambda path: written.pyramid(path, RGB, subifds=True), RGB),
    "pyramid, OME-TIFF": Case(lambda path: written.pyramid(path, RGB, subifds=True, metadata={}), RGB, "ome.tif"),
    "Aperio, JPEG": tiff(compression="jpeg", description=APERIO, case={"off": BAND, "mpp": 0.25}, **TILES),
    "Aperio, JPEG 2000": tiff(
        compression="aperio_jp2000_rgb", description=APERIO, case={"mpp": 0.25, "suffix": "svs"}, **TILES
    ),
    "Aperio, strips": tiff(description=APERIO, case={"mpp": 0.25}, **STRIPS),
    "OME-NGFF 0.4": Case(lambda path: written.ngff(path, RGB, version=2, unit="meter", scale=5e-7), RGB, "zarr", 0.5),
    "OME-NGFF 0.5": Case(lambda path: written.ngff(path, RGB, unit="micrometer", scale=0.5), RGB, "zarr", 0.5),
    "OME-NGFF, axes of one entry": Case(lambda path: written.ngff(path, RGB, axes="tzcyx"), RGB, "zarr"),
    "JPEG": pillow(RGB, RGB, "jpg", BAND),
    "JPEG, progressive": pillow(RGB, RGB, "jpg", BAND, progressive=True),
    "JPEG, grey": pillow(GREY, AS_GREY, "jpg", BAND),
    "JPEG, turned by EXIF": pillow(RGB, RGB, "jpg", BAND, exif=SIX),
    "PNG": pillow(RGB, RGB, "png"),
    "PNG, opacity": pillow(RGBA, OVER_WHITE, "png", 1),
    "PNG, grey with opacity": pillow(np.dstack([GREY, OPACITY]), GREY_OVER_WHITE, "png", 1),
    "PNG, 16 bits": pillow(GREY.astype(np.uint16) * 257, AS_GREY, "png"),
    "PNG, palette": pillow(Image.fromarray(RGB).quantize(256), RGB, "png", BAND),
    "BMP": pillow(RGB, RGB, "bmp"),
    "JPEG 2000": pillow(RGB, RGB, "jp2"),
    "WebP": pillow(RGB, RGB, "webp", lossless=True),
    "space and ünïcode": tiff(**TILES, case={"suffix": "søme slide.tif"}),
    "TIFF, 1 bit, tiles": no(tiff(GREY > 128, **GREY_TILES), "values are bool.*convert it to 8-bit RGB"),
    "TIFF, 1 bit, strips": no(tiff(GREY > 128), "values are bool"),
    "TIFF, signed": no(tiff(RGB.view(np.int8), **TILES), "values are int8"),
    "TIFF, 32 bits": no(tiff(RGB.astype(np.uint32), **TILES), "values are uint32"),
    "TIFF, 12 bits in 16, tiles": no(tiff(RGB.astype(np.uint16) * 16, **TILES), "12 bits of 16.*spread them"),
    "TIFF, 12 bits in 16, strips": no(tiff(RGB.astype(np.uint16) * 16, **STRIPS), "12 bits of 16"),
    "TIFF, float, tiles": no(tiff(RGB.astype(np.float32), **TILES), "values are float32"),
    "TIFF, float, strips": no(tiff(RGB.astype(np.float32), **STRIPS), "values are float32"),
    "TIFF, CMYK, tiles": no(tiff(RGBA, photometric="separated", **GREY_TILES), "SEPARATED, neither grey nor RGB"),
    "TIFF, CMYK, strips": no(tiff(RGBA, photometric="separated"), "SEPARATED, neither grey nor RGB"),
    "TIFF, CIELab": no(tiff(photometric="cielab", **GREY_TILES), "CIELAB, neither grey nor RGB"),
    "TIFF, YCbCr, deflate": no(
        tiff(photometric="ycbcr", subsampling=(1, 1), compression="zlib"), "YCbCr in a compression other than JPEG"
    ),
    "TIFF, five channels, tiles": no(tiff(np.dstack([RGBA, GREY]), **TILES), "5 channels, too many for RGB"),
    "TIFF, five channels, strips": no(tiff(np.dstack([RGBA, GREY]), **STRIPS), "5 channels, too many for RGB"),
    "TIFF, stack, tiles": no(tiff(np.stack([RGB] * 3), **TILES), "a stack of 3 pictures.*vips copy"),
    "TIFF, stack, strips": no(tiff(np.stack([RGB] * 3), **STRIPS), "axes are IYXS.*vips copy"),
    "TIFF, channels in pages": no(
        tiff(np.stack([GREY] * 4), photometric="minisblack", **GREY_TILES), "a stack of 4 pictures"
    ),
    "ImageJ, channels": no(tiff(np.stack([GREY] * 3), imagej=True), "axes are CYX"),
    "OME-TIFF, fluorescence": no(
        tiff(np.stack([GREY] * 5), ome=True, photometric="minisblack", metadata={"axes": "CYX"}), "axes are CYX"
    ),
    "OME-TIFF, three stains": no(
        tiff(np.stack([GREY] * 3), ome=True, photometric="minisblack",
             metadata={"axes": "CYX", "Channel": {"Name": ["DAPI", "FITC", "TRITC"]}}),
        "channels are DAPI, FITC, TRITC, not red, green and blue",
    ),
    "OME-TIFF, stack": no(tiff(np.stack([RGB] * 2), ome=True, metadata={"axes": "ZYXS"}, photometric="rgb"), "ZYXS"),
    "OME-NGFF, three stains": no(
        Case(lambda path: written.ngff(path, RGB, omero={"channels": [{"label": s} for s in ("DAPI", "CD3", "CD8")]})),
        "channels are DAPI, CD3, CD8",
    ),
    "OME-NGFF, pickles": no(Case(lambda path: written.pickled(path, RGB)), "pickle"),
    "JPEG, CMYK": no(pillow(Image.fromarray(RGB).convert("CMYK"), None, "jpg"), "CMYK, not grey or RGB"),
    "PNG, 1 bit": no(pillow(GREY > 128, None, "png"), "the kind 1, not grey or RGB"),
    "PNG, bomb": no(Case(written.png_bomb, suffix="png"), "60000 x 60000 px are too many for a PNG.*vips tiffsave"),
    "EPS": no(pillow(RGB, None, "eps"), "not an image that can be read"),
    "PDF": no(pillow(RGB, None, "pdf"), "not an image that can be read"),
    "text": no(Case(lambda path: path.write_text("slide,mpp\n" * 9), suffix="svs"), "not an image that can be read"),
    "TIFF, pages in a ring": no(Case(lambda path: written.pages(path, 300, loop=True)), "more than 10000 pages"),
}  # fmt: skip


def _path(folder: Path, name: str) -> Path:
    suffix = CASES[name].suffix
    return folder / (suffix if " " in suffix else f"a.{suffix}")


@pytest.mark.parametrize("name", CASES)
def test_a_kind_is_read_as_written_or_refused(tmp_path, name):
    case, path = CASES[name], _path(tmp_path, name)
    case.write(path)
    began = time.perf_counter()
    if case.refused:
        with pytest.raises(SlideError, match=case.refused) as caught:
            open_slide(path, 0.5)
        assert caught.value.what == str(path)
        assert "\n" not in str(caught.value)
        assert time.perf_counter() - began < 5
        return
    assert case.want is not None
    with open_slide(path, 0.5) as slide:
        assert slide.dimensions == case.want.shape[1::-1]
        whole = slide.read(0, 0, *slide.dimensions)
        assert np.abs(whole.astype(int) - case.want).mean() <= case.off
        window = slide.read(130, 77, 60, 50)
        inside = window[: max(case.want.shape[0] - 77, 0), : max(case.want.shape[1] - 130, 0)]
        np.testing.assert_array_equal(inside, whole[77:127, 130:190])
        assert slide.thumbnail(100).shape[2] == 3
    if case.mpp is None:
        return
    with open_slide(path) as slide:
        assert slide.mpp == pytest.approx(case.mpp, rel=1e-4)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("pyramid", "OME-NGFF 0"))])
def test_coarser_levels(tmp_path, name):
    path = _path(tmp_path, name)
    CASES[name].write(path)
    with open_slide(path, 0.5) as slide:
        assert len(slide.backend.levels) == (2 if "NGFF" in name else 3)
        for level in range(1, len(slide.backend.levels)):
            want = RGB[:: 2**level, :: 2**level]
            np.testing.assert_array_equal(slide.read(0, 0, want.shape[1], want.shape[0], level), want)


RESOLUTIONS = {
    "none": ({}, "does not carry its resolution"),
    "zero": ({"resolution": ((0, 1), (0, 1)), "resolutionunit": "CENTIMETER"}, "does not carry its resolution"),
    "no unit": ({"resolution": (2e4, 2e4), "resolutionunit": "NONE"}, "does not carry its resolution"),
    "72 per inch": ({"resolution": (72, 72), "resolutionunit": "INCH"}, r"352\.8 µm/px .*implausible"),
    "huge": ({"resolution": (4e9, 4e9), "resolutionunit": "INCH"}, "implausible"),
    "not square": ({"resolution": (2e4, 1e4), "resolutionunit": "CENTIMETER"}, "pixels are not square"),
    "NaN in Aperio's text": ({"description": "|MPP = eee"}, "does not carry its resolution"),
    "zero in Aperio's text": ({"description": "|MPP = 0.0"}, "does not carry its resolution"),
    "negative in Aperio's text": ({"description": "|MPP = -1"}, "implausible"),
}


@pytest.mark.parametrize("layout", [TILES, STRIPS], ids=["tiles", "strips"])
@pytest.mark.parametrize("name", RESOLUTIONS)
def test_a_resolution_that_cannot_be_used_is_refused_until_one_is_given(tmp_path, name, layout):
    options, reason = RESOLUTIONS[name]
    tifffile.imwrite(tmp_path / "a.tif", RGB, **layout, **options)
    with pytest.raises(SlideError, match=f"{reason}.*--mpp"):
        open_slide(tmp_path / "a.tif")
    with open_slide(tmp_path / "a.tif", 0.5) as slide:
        assert slide.mpp == 0.5


def test_nan_in_ome_xml(tmp_path):
    metadata = {"axes": "YXS", "PhysicalSizeX": float("nan"), "PhysicalSizeY": float("nan")}
    tifffile.imwrite(tmp_path / "a.ome.tif", RGB, photometric="rgb", metadata=metadata)
    with pytest.raises(SlideError, match="nan µm/px .OME-XML., is implausible"):
        open_slide(tmp_path / "a.ome.tif")


HEADERS = {
    ("ImageWidth", 60_000, "tiles"): "tells of 938 tiles or strips",
    ("ImageWidth", 2**31, "tiles"): "tells of 33554432 tiles or strips",
    ("ImageLength", 2**31, "strips"): "tells of 67108864 tiles or strips",
    ("ImageWidth", 2**31, "strips"): "px are too many for a TIFF in one strip",
    ("ImageWidth", 60_000, "strips"): "cannot be decoded",
    ("TileWidth", 2**20, "tiles"): "cannot be decoded",
    ("SamplesPerPixel", 60_000, "tiles"): "60000 channels",
    ("ImageLength", 0, "strips"): "image without pixels",
}


@pytest.mark.parametrize(("tag", "value", "layout"), HEADERS)
def test_a_header_that_promises_too_much(tmp_path, tag, value, layout):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, RGB, compression="zlib", **(TILES if layout == "tiles" else STRIPS))
    written.overwrite_tag(path, tag, value)
    with pytest.raises(SlideError, match=HEADERS[tag, value, layout]), open_slide(path, 0.5) as slide:
        slide.thumbnail(100)


@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_a_jpeg_that_says_it_is_huge_is_not_given_the_memory(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    if suffix == "tif":
        tifffile.imwrite(path, RGB, compression="jpeg", **STRIPS)
    else:
        Image.fromarray(RGB).save(path)
    data = path.read_bytes()
    start = b"\xff\xc0\x00\x11\x08"  # of the frame's header; height and width follow
    at = data.index(start) + len(start)
    path.write_bytes(data[:at] + b"\x4e\x20\x4e\x20" + data[at + 4 :])
    with pytest.raises(SlideError, match="20000 x 20000"):
        open_slide(path, 0.5)


def test_sizes_that_no_slide_has(tmp_path):
    def sparse(path: Path, side: int) -> None:  # chunks that are not there are blank
        group = written.zarr.open_group(path, mode="w")
        group.create_array("s0", shape=(3, side, side), chunks=(3, 1024, 1024), dtype="uint8", fill_value=255)
        axes = [{"name": axis} for axis in "cyx"]
        group.attrs["ome"] = {"multiscales": [{"axes": axes, "datasets": [{"path": "s0"}]}]}

    sparse(tmp_path / "a.zarr", 2**22)
    with pytest.raises(SlideError, match="4194304 x 4194304 px, more than a slide has"):
        open_slide(tmp_path / "a.zarr", 0.5)
    sparse(tmp_path / "b.zarr", 2**18)
    with pytest.raises(SlideError, match="262144 x 262144 px are too many without a pyramid"):
        open_slide(tmp_path / "b.zarr", 0.5)


def test_what_is_no_plain_file_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.svs")
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "socket.svs"))
    for path in (tmp_path / "pipe.svs", tmp_path / "socket.svs", Path("/dev/zero")):
        with pytest.raises(SlideError, match="a device, a pipe or a socket"):
            open_slide(path, 0.5)
    bound.close()


def test_names_and_links(tmp_path):
    written.pyramid(tmp_path / "a.tif", RGB)
    (tmp_path / "link.tif").symlink_to(tmp_path / "a.tif")
    (tmp_path / "ring.tif").symlink_to(tmp_path / "ring.tif")
    (tmp_path / "nowhere.tif").symlink_to(tmp_path / "b.tif")
    with open_slide(tmp_path / "link.tif", 0.5) as slide:
        np.testing.assert_array_equal(slide.read(0, 0, *slide.dimensions), RGB)
    for name, reason in (("ring.tif", "cannot be read"), ("nowhere.tif", "no such file"), ("", "a folder")):
        with pytest.raises(SlideError, match=reason):
            open_slide(tmp_path / name, 0.5)
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.tif"))
    odd.write_bytes((tmp_path / "a.tif").read_bytes())
    with pytest.raises(SlideError, match="not valid UTF-8; rename it") as caught:
        open_slide(odd, 0.5)
    str(caught.value).encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path):
    written.pyramid(tmp_path / "a.tif", RGB)
    (tmp_path / "a.tif").chmod(0)
    with pytest.raises(SlideError, match="Permission denied"):
        open_slide(tmp_path / "a.tif", 0.5)


@pytest.fixture
def scan(tmp_path: Path, tissue_image: Callable[..., np.ndarray]) -> tuple[Path, np.ndarray]:
    """A Leica slide of which a part was scanned, and that part."""
    image = tissue_image()
    written.leica(tmp_path / "a.scn", image, mpp=0.5, corner=(1000, 600), size=(2400, 1800))
    return tmp_path / "a.scn", image


def test_a_scan_that_covers_part_of_the_slide(scan):
    path, image = scan
    with open_slide(path) as slide:
        assert (slide.mpp, slide.dimensions, origin(slide.backend)) == (0.5, (2400, 1800), (1000, 600))
        want = np.full((1800, 2400, 3), 255, np.uint8)
        want[600:1400, 1000:1800] = image
        np.testing.assert_array_equal(slide.read(0, 0, 2400, 1800), want)
        np.testing.assert_array_equal(slide.read(900, 500, 500, 450, level=1), want[500:1400:2, 900:1900:2])
        spots = genar.pp.spots(slide, lattice("grid", 40))
    where = spots.obsm["spatial"]
    assert len(where) > 20
    assert (where.min(axis=0) > (1100, 700)).all()
    assert (where.max(axis=0) < (1700, 1300)).all()


def test_places_of_qupath_count_from_the_scan(scan, tmp_path):
    place = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [400, 400]}, "properties": {}}
    (tmp_path / "places.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [place]}))
    with open_slide(scan[0]) as slide:
        places = genar.read.points(tmp_path / "places.geojson", offset=origin(slide.backend))
    np.testing.assert_array_equal(places, [[1400, 1000]])
