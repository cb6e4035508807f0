"""``genar tissue``."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar.slide.lattice import Lattice

DESCRIPTION = """\
Show where genar sees tissue on each slide, before predicting. Writes
NAME.tissue.png (the outline, the spots that would be laid, those out of focus
in orange) and NAME.tissue.geojson for every slide, named as it is. Open the
second in QuPath, correct it, and give it back with genar predict --tissue."""

EPILOG = """\
examples:
  genar tissue *.svs -o look
  genar tissue slide.svs --tissue corrected.geojson -o look
  genar predict slide.svs --tissue look -o results"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("slides", metavar="SLIDE", nargs="+", type=Path, help="anything OpenSlide reads, TIFF, JPEG, PNG; or one CSV, "
        "as 'genar predict' takes it")  # fmt: skip
    add("-o", "--output", metavar="DIR", type=Path, default=Path(), help="output folder (default: this one)")
    add("--mpp", type=float, metavar="UM", help="µm per pixel, where the slide's file does not carry it")
    add("--tissue", metavar="SOURCE", default="auto", help="auto, none (everywhere), a GeoJSON of outlines, a mask "
        "PNG, or a folder of these by the slides' names (auto)")  # fmt: skip
    add("--model", default="her2st-mini", metavar="MODEL", help="whose spots to draw (her2st-mini)")
    add("--spots", choices=("visium", "st", "grid"), metavar="LATTICE",
        help="the spots to draw: visium, st, grid (the model's)")  # fmt: skip
    add("--pitch", type=float, metavar="UM", help="distance of spots in µm, for --spots grid")
    add("--overwrite", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Draw slide after slide; one that fails is reported and the rest go on."""
    from genar.cli.app import report
    from genar.errors import ConfigError
    from genar.jobs.slides import tasks_of
    from genar.jobs.tissue import tissue_to_file
    from genar.slide.lattice import lattice

    tasks = tasks_of(args.slides)
    stems = [task.slide.stem for task in tasks]
    for task in tasks:
        if stems.count(task.slide.stem) > 1:
            why = f"two of the slides would be written to {task.slide.stem}.tissue.png"
            raise ConfigError(task.slide, why, "draw them into different folders with -o")
    geometry = _of_model(args.model, args.pitch) if args.spots is None else lattice(args.spots, args.pitch)
    failures = []
    for task in tasks:
        try:
            image, outlines = tissue_to_file(
                task.slide, args.output, lattice=geometry, tissue=args.tissue, mpp=task.mpp or args.mpp,
                overwrite=args.overwrite,
            )  # fmt: skip
        except Exception as e:  # noqa: BLE001 - the slides that follow are another matter
            failures.append(report(e, debug=args.debug))
        else:
            print(f"wrote {image} and {outlines}", file=sys.stdout, flush=True)
    return min(failures, default=0)  # 1, an internal error, if there was one


def _of_model(name: str, pitch: float | None) -> "Lattice":
    """Return the lattice that a model learnt from, as ``genar predict`` lays it."""
    from genar.jobs.predict import geometry_of
    from genar.jobs.predict_file import model_of

    return geometry_of(model_of(name), None, pitch)
