"""Predict 20 slides, 3 of them broken, while workers are killed, and compare with a quiet run.

    python scripts/soak_cohort.py FOLDER [--slide FILE] [--good 17] [--broken 3] [--kills 2]

The slides are pieces of a real one. Prints what was found, and exits with 1 on any difference.
"""

import argparse
import csv
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import tifffile
from filelock import SoftFileLease

from genar.datasets import demo_slide
from genar.slide.open import open_slide

SIDE_PX, MPP = 900, 0.499
OPTIONS = ["--spots", "grid", "--pitch", "80", "--batch-size", "4"]
PARTIAL_BYTES = 40_000  # some batches of features
POLL_S = 0.005
BROKEN = ("no image", "cut short", "no tissue")


def make_slides(folder: Path, source: Path, good: int, broken: int) -> list[Path]:
    """Write pieces of a slide, and files that are none or show nothing, in mixed order."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with open_slide(source) as slide:
        for number in range(good):
            x, y = 660 + number % 4 * 100, number // 4 * 450  # within the tissue of the demo slide
            paths.append(folder / f"good{number:02}.tif")
            write(paths[-1], slide.read(x, y, SIDE_PX, SIDE_PX))
    for number in range(broken):
        path = folder / f"broken{number:02}.tif"
        write(path, np.full((SIDE_PX, SIDE_PX, 3), 240, np.uint8))
        kind = BROKEN[number % len(BROKEN)]
        if kind == "no image":
            path.write_text("not a slide")
        elif kind == "cut short":
            path.write_bytes(paths[0].read_bytes()[:5000])
        paths.insert(number * 3, path)
    return paths


def write(path: Path, image: np.ndarray) -> None:
    """Write a TIFF that carries its resolution."""
    per_cm = 1e4 / MPP
    tifffile.imwrite(
        path, image, tile=(256, 256), photometric="rgb", metadata=None, compression="jpeg",
        resolution=(per_cm, per_cm), resolutionunit="CENTIMETER",
    )  # fmt: skip


def run(slides: list[Path], output: Path, *words: str, kills: int = 0) -> tuple[int, str, list[str]]:
    """Run ``genar predict``, and kill workers in the middle of a slide; returns status, stderr and what was killed."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))  # as many as each of two workers has
    command = [sys.executable, "-m", "genar", "predict", *map(str, slides), "-o", str(output), *OPTIONS, *words]
    environment = os.environ | {"OMP_NUM_THREADS": threads}
    killed: list[str] = []
    over = threading.Event()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        killer = threading.Thread(target=kill_workers, args=(output, kills, process.pid, killed, over))
        killer.start()
        _, err = process.communicate()
        over.set()
        killer.join()
    return process.returncode, err, killed


def kill_workers(output: Path, kills: int, parent: int, killed: list[str], over: threading.Event) -> None:
    """Kill as many workers as are asked for, each in another slide of which some features are there."""
    while len(killed) < kills and not over.wait(POLL_S):
        for partial in output.glob(".genar/*/*.partial"):
            name = partial.parent.name
            try:
                owner = SoftFileLease(partial.with_suffix(".lock")).owner
                if name in killed or owner is None or partial.stat().st_size < PARTIAL_BYTES:
                    continue
                if owner.pid == parent:
                    continue
                os.kill(owner.pid, signal.SIGKILL)
            except OSError:  # it has just finished
                continue
            killed.append(name)
            break


def differences(quiet: Path, other: Path) -> Iterator[str]:
    """Tell in what two results differ, but for the date."""
    a, b = ad.read_h5ad(quiet), ad.read_h5ad(other)
    if a.X.shape != b.X.shape or (a.X != b.X).nnz:
        yield "X"
    for name in {*a.layers, *b.layers}:
        if name not in a.layers or name not in b.layers or not np.array_equal(a.layers[name], b.layers[name]):
            yield f"layers[{name!r}]"
    for name in {*a.obsm, *b.obsm}:
        if name not in a.obsm or name not in b.obsm or not np.array_equal(a.obsm[name], b.obsm[name]):
            yield f"obsm[{name!r}]"
    for name in ("obs", "var"):
        try:
            pd.testing.assert_frame_equal(getattr(a, name), getattr(b, name))
        except AssertionError:
            yield name
    said = [{key: str(value) for key, value in x.uns["genar"].items() if key != "date"} for x in (a, b)]
    if said[0] != said[1]:
        yield "uns['genar']"


def compare(folder: Path, slides: list[Path], status: int, err: str) -> list[str]:
    """List what is not as it should be after the disturbed run."""
    good, broken = ([s for s in slides if s.stem.startswith(kind)] for kind in ("good", "broken"))
    wrong = [f"exit status {status}"] if status != int(bool(broken)) else []
    for slide in good:
        tables = [folder / run / f"{slide.stem}.h5ad" for run in ("quiet", "disturbed")]
        if missing := [str(table) for table in tables if not table.exists()]:
            wrong.append(f"missing: {', '.join(missing)}")
        else:
            wrong += [f"{slide.stem}: other {what}" for what in differences(*tables)]
    lines = [line for line in err.splitlines() if line.startswith("genar: error:")]
    if len(lines) != len(broken) or not all(any(str(s) in line for line in lines) for s in broken):
        wrong.append(f"{len(lines)} lines of errors: {lines}")
    if "Traceback" in err:
        wrong.append("a traceback")
    with (folder / "disturbed" / "summary.csv").open(encoding="utf-8") as file:
        told = {line["name"]: line["status"] for line in csv.DictReader(file)}
    if told != {s.stem: "done" if s in good else "failed" for s in slides}:
        wrong.append(f"summary.csv: {told}")
    left = {p.name for p in (folder / "disturbed").iterdir()} - {
        f"{s.stem}{x}" for s in good for x in (".h5ad", ".png")
    }
    if left != {"summary.csv"}:
        wrong.append(f"left over: {left}")
    return wrong


def main() -> int:
    """Run both and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slide", type=Path, help="slide to cut up, in place of the demo slide")
    parser.add_argument("--good", type=int, default=17)
    parser.add_argument("--broken", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    args = parser.parse_args()
    slides = make_slides(args.folder / "slides", args.slide or demo_slide(), args.good, args.broken)
    start = time.perf_counter()
    status, err, _ = run(slides, args.folder / "quiet")
    print(f"quiet: exit status {status}, {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    status, err, killed = run(slides, args.folder / "disturbed", "--cluster", "local:2", kills=args.kills)
    print(f"disturbed: exit status {status}, {time.perf_counter() - start:.0f} s; killed in {', '.join(killed)}")
    print(*(line for line in err.splitlines() if re.match("genar: error", line)), sep="\n")
    wrong = compare(args.folder, slides, status, err)
    if len(killed) != args.kills:
        wrong.append(f"only {len(killed)} workers could be killed")
    print(*wrong, sep="\n") if wrong else print(f"{args.good} results are identical")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
