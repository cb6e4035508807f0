"""Speed and memory of reading tiles, on one core: a loop of read_region, LazySlide and genar on the same tiles.

Each case runs in a process of its own, so that its peak memory is its own. Tiles are 154 µm wide and become 224 px;
a pitch of 100 µm is Visium's. Rates are per second of CPU time, so that whatever else the machine does counts little.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

TILE_UM, INPUT_PX, BATCH = 154.0, 224, 32
BLOCK, PATTERN, LEVELS = 256, 8192, 6  # px of the large slide's blocks and of what it repeats; its levels
SLIDES = {"cmu": 0.499, "c2": 0.687, "large": 0.25}  # µm/px
CASES = {"loop": "read_region", "lazyslide": "LazySlide", "genar": "genar"}
ENCODING = {"encoder": "encoder alone", "lazyslide-encode": "LazySlide, encoded", "genar-encode": "genar, encoded"}


def section(shared: Path) -> np.ndarray:
    """Return the image of section C2, RGB uint8 [h, w, 3]."""
    from genar.slide.open import open_slide

    with open_slide(next((shared / "data/her2st/ST-imgs/C/C2").glob("*.jpg")), SLIDES["c2"]) as slide:
        return slide.read(0, 0, *slide.dimensions)


def halved(image: np.ndarray) -> np.ndarray:
    """Return an image at half its resolution."""
    height, width = (side // 2 * 2 for side in image.shape[:2])
    pairs = image[:height, :width].reshape(height // 2, 2, width // 2, 2, 3)
    return pairs.mean(axis=(1, 3)).round().astype(np.uint8)


def write(o: argparse.Namespace) -> int:
    """Write section C2 as a JPEG pyramid or, as slide ``large``, a pyramid that repeats a piece of it.

    Only the piece is encoded, each of its blocks once a level, and blocks go to the file one by one.
    """
    import simplejpeg
    import tifffile

    path = Path(o.slide)
    size = None if path.stem == "c2" else tuple(o.large)
    image = section(o.shared)
    if size:
        image = np.ascontiguousarray(image[900 : 900 + PATTERN, 500 : 500 + PATTERN])
    mpp = SLIDES["large" if size else "c2"]
    partial = path.with_suffix(".part")
    with tifffile.TiffWriter(partial, bigtiff=True) as writer:
        for level in range(LEVELS if size else 3):
            width, height = (side >> level for side in size) if size else image.shape[1::-1]
            padded = np.pad(image, [(0, -side % BLOCK) for side in image.shape[:2]] + [(0, 0)], mode="edge")
            encoded = [
                [simplejpeg.encode_jpeg(np.ascontiguousarray(block), 85, "RGB", "420") for block in row]
                for row in padded.reshape(-1, BLOCK, padded.shape[1] // BLOCK, BLOCK, 3).swapaxes(1, 2)
            ]

            def blocks(encoded: list[list[bytes]] = encoded, w: int = width, h: int = height) -> Iterator[bytes]:
                for row in range(-(-h // BLOCK)):
                    for column in range(-(-w // BLOCK)):
                        yield encoded[row % len(encoded)][column % len(encoded[0])]

            per_cm = 1e4 / mpp / 2**level
            writer.write(
                blocks(), shape=(height, width, 3), dtype=np.uint8, tile=(BLOCK, BLOCK), photometric="ycbcr",
                subsampling=(2, 2), compression="jpeg", subfiletype=int(level > 0), metadata=None,
                resolution=(per_cm, per_cm), resolutionunit="CENTIMETER",
            )  # fmt: skip
            image = halved(image)
    partial.rename(path)
    return 0


def spots(o: argparse.Namespace) -> int:
    """Find the tissue, lay spots on it, and note where they are; of a large slide, some fields spread over it."""
    from genar import pp
    from genar.slide.lattice import Lattice

    laid = pp.spots(o.slide, Lattice("visium", 55.0, o.pitch, hexagonal=True), tile_um=TILE_UM)
    xy = laid.obsm["spatial"]
    field = np.floor(xy * o.mpp / 1500).astype(int)  # of 1.5 x 1.5 mm, 270 Visium spots
    fields, number = np.unique(field, axis=0, return_inverse=True)
    if len(xy) > o.tiles:
        share = o.tiles / len(xy)
        kept = np.flatnonzero(np.diff(np.floor(np.arange(len(fields) + 1) * share)))
        xy = xy[np.isin(number, kept)]
    np.save(o.centres, xy)
    return len(laid)


def loop(o: argparse.Namespace) -> Callable[[], int]:
    """Read every tile with its own ``read_region``, from the level that suits."""
    import openslide
    from PIL import Image

    slide, centres = openslide.OpenSlide(o.slide), np.load(o.centres)
    side = TILE_UM / o.mpp
    level = slide.get_best_level_for_downsample(side / INPUT_PX * 1.01)
    px = round(side / slide.level_downsamples[level])

    def run() -> int:
        for x, y in np.rint(centres - side / 2).astype(int).tolist():
            tile = slide.read_region((x, y), level, (px, px)).convert("RGB")
            np.asarray(tile if px == INPUT_PX else tile.resize((INPUT_PX, INPUT_PX), Image.Resampling.BICUBIC))
        return len(centres)

    return run


def lazyslide(o: argparse.Namespace) -> Callable[[], int]:
    """Read, and perhaps encode, the same tiles with LazySlide."""
    import lazyslide as zs
    import timm
    import torch
    from torchvision.transforms import v2
    from wsidata import TileSpec, open_wsi
    from wsidata.io import add_tiles

    torch.set_num_threads(1)
    wsi = open_wsi(o.slide, store=None)
    wsi.set_mpp(o.mpp)
    centres = np.load(o.centres)
    corners = np.rint(centres - TILE_UM / o.mpp / 2).astype(int)
    spec = TileSpec.from_wsidata(wsi, INPUT_PX, mpp=TILE_UM / INPUT_PX)
    add_tiles(wsi, "tiles", corners, spec, np.zeros(len(corners), dtype=int))
    if o.case == "lazyslide":
        tiles = wsi.ds.tile_images(tile_key="tiles")
        return lambda: sum(tiles[i]["image"].shape[0] == INPUT_PX for i in range(len(tiles)))
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0).eval()
    normalise = v2.Normalize(mean=[0.5] * 3, std=[0.5] * 3)
    transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), normalise])

    def run() -> int:
        options = {"transform": transform, "batch_size": BATCH, "pbar": False, "device": "cpu"}
        zs.tl.feature_extraction(wsi, network, model_name="lite0", **options)
        return len(centres)

    return run


def genar(o: argparse.Namespace) -> Callable[[], int]:
    """Read, and perhaps encode, the tiles with genar."""
    from genar.slide.open import open_slide
    from genar.slide.tiles import TileDataset

    tiles = TileDataset(open_slide(o.slide, o.mpp), np.load(o.centres), TILE_UM, INPUT_PX)
    if o.case == "genar":
        return lambda: sum(len(tiles[k]) for k in range(len(tiles)))
    import torch

    from genar.encoders.registry import create
    from genar.encoders.run import encode

    torch.set_num_threads(1)
    network = create("efficientnet_lite0")
    return lambda: len(encode(network, tiles, batch_size=BATCH, workers=0))


def encoder(o: argparse.Namespace) -> Callable[[], int]:
    """Encode as many tiles that are in memory."""
    import torch

    from genar.encoders.registry import create

    torch.set_num_threads(1)
    network, n = create("efficientnet_lite0"), len(np.load(o.centres))
    tiles = torch.randint(0, 256, (BATCH, INPUT_PX, INPUT_PX, 3), dtype=torch.uint8).permute(0, 3, 1, 2)

    def run() -> int:
        with torch.inference_mode():
            for start in range(0, n, BATCH):
                network(tiles[: n - start])
        return n

    return run


def case(o: argparse.Namespace) -> dict[str, float]:
    """Run one case: tiles (of ``spots``: spots), the least CPU seconds of several rounds, and peak memory in GB."""
    os.sched_setaffinity(0, {o.core})
    once = {"write": write, "spots": spots}.get(o.case)
    build = {"loop": loop, "lazyslide": lazyslide, "lazyslide-encode": lazyslide, "encoder": encoder}
    run = partial(once, o) if once else build.get(o.case, genar)(o)
    seconds = []
    for _ in range(1 if once else o.rounds):
        start = time.process_time()
        tiles = run()
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {"tiles": tiles, "seconds": min(seconds), "gb": peak}


def run_case(o: argparse.Namespace, name: str, **given: object) -> dict[str, float] | None:
    """Run a case in a process of its own; None, and a line that says why, where it fails."""
    python = o.lazyslide_python if name.startswith("lazyslide") else sys.executable
    options = [part for key, value in given.items() for part in (f"--{key}", value)]
    fixed = ["--core", o.core, "--rounds", o.rounds, "--large", *o.large, "--case", name]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, __file__, *map(str, (*fixed, *options))],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | threads,
    )
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    print(f"{name}: left out ({(done.stderr.strip().splitlines() or [done.returncode])[-1]})", file=sys.stderr)
    return None


def slide_file(o: argparse.Namespace, name: str) -> Path:
    """Return a slide's file, written if need be."""
    if name == "cmu":
        return Path(o.shared) / "data/wsi/CMU-1-Small-Region.svs"
    width, height = o.large
    path = Path(o.folder) / ("c2.tif" if name == "c2" else f"large-{width}x{height}.tif")
    if not path.is_file():
        done = run_case(o, "write", slide=path, shared=o.shared)
        if done is None:
            sys.exit(1)
        print(f"{path}: {path.stat().st_size / 1e9:.2f} GB, written in {done['seconds']:.0f} s", file=sys.stderr)
    return path


def line(*cells: object) -> None:
    """Print a line of the table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def bench(o: argparse.Namespace, name: str, path: Path) -> None:
    """Print the lines of one slide."""
    groups = [(CASES, o.tiles), (ENCODING, o.encode_tiles)][: 1 + o.encode]
    for pitch, (cases, tiles) in itertools.product(o.pitches, groups):
        given = {"slide": path, "mpp": SLIDES[name], "pitch": pitch, "tiles": tiles}
        given["centres"] = Path(o.folder) / f"{name}-{pitch:g}.npy"
        found = run_case(o, "spots", **given)
        if found is None:
            continue
        line(
            name,
            f"{pitch:g}",
            "tissue and spots",
            found["tiles"],
            f"({found['seconds']:.1f} s)",
            "",
            f"{found['gb']:.2f}",
        )
        first = 0.0
        for one, title in cases.items():
            found = run_case(o, one, **given)
            if found is None:
                continue
            rate = found["tiles"] / found["seconds"]
            first = first or rate
            line(name, f"{pitch:g}", title, found["tiles"], f"{rate:.4g}", f"{rate / first:.2f}", f"{found['gb']:.2f}")


def main() -> None:
    """Run every case and print one table; ratios are to the first case of the same tiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--slides", nargs="+", default=list(SLIDES), choices=list(SLIDES))
    add("--pitches", nargs="+", type=float, default=[100.0, 50.0], metavar="UM", help="distances of spots (100 50)")
    add("--tiles", type=int, default=4000, help="read about so many of a slide, in fields spread over it (4000)")
    add("--encode", action="store_true", help="also encode, with efficientnet_lite0")
    add("--encode-tiles", type=int, default=500, help="tiles of a slide to encode (500)")
    add("--rounds", type=int, default=3, help="times each case is run; the best counts (3)")
    add("--shared", type=Path, default=os.environ.get("GENAR_SHARED", "shared"), help="folder with the real slides")
    add("--folder", type=Path, help="where the pyramids are written, and kept; a temporary one by default")
    add("--large", nargs=2, type=int, default=(100_000, 80_000), metavar=("WIDTH", "HEIGHT"), help="of slide large")
    add("--lazyslide-python", default=sys.executable, help="Python with LazySlide, if that is another one")
    add("--core", type=int, default=0, help="the one that every case runs on (0)")
    add("--case", help=argparse.SUPPRESS)
    add("--slide", help=argparse.SUPPRESS)
    add("--mpp", type=float, help=argparse.SUPPRESS)
    add("--pitch", type=float, help=argparse.SUPPRESS)
    add("--centres", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(case(options)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        options.folder.mkdir(parents=True, exist_ok=True)
        line("slide", "pitch, µm", "case", "tiles", "tiles/s", "ratio", "GB")
        print("|---" * 7 + "|", flush=True)
        for name in options.slides:
            bench(options, name, slide_file(options, name))


if __name__ == "__main__":
    main()
