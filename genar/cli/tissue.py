"""``genar tissue``."""

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Show where genar sees tissue on each slide, before predicting. Writes
NAME.tissue.png (the outline, the spots that would be laid, those out of focus
in orange) and NAME.tissue.geojson for every slide NAME. Open the second in
QuPath, correct it, and give it back with genar predict --tissue."""

EPILOG = """\
examples:
  genar tissue *.svs -o look
  genar tissue slide.svs --tissue corrected.geojson -o look
  genar predict slide.svs --tissue look -o results"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("slides", metavar="SLIDE", nargs="+", type=Path, help="anything OpenSlide reads, TIFF, JPEG, PNG")
    add("-o", "--output", metavar="DIR", type=Path, default=Path(), help="output folder (default: this one)")
    add("--mpp", type=float, metavar="UM", help="µm per pixel, where the slide's file does not carry it")
    add("--tissue", metavar="SOURCE", default="auto", help="auto, none (everywhere), a GeoJSON of outlines, a mask "
        "PNG, or a folder of these by the slides' names (auto)")  # fmt: skip
    add("--spots", choices=("visium", "st", "grid"), default="visium", metavar="LATTICE",
        help="the spots to draw: visium, st, grid (visium)")  # fmt: skip
    add("--pitch", type=float, metavar="UM", help="distance of spots in µm, for --spots grid")
    add("--overwrite", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Draw slide after slide; one that fails is reported and the rest go on."""
    from genar.cli.app import report
    from genar.errors import ConfigError
    from genar.jobs.tissue import tissue_to_file
    from genar.slide.lattice import lattice

    stems = [slide.stem for slide in args.slides]
    for slide in args.slides:
        if stems.count(slide.stem) > 1:
            why = f"two of the slides would be written to {slide.stem}.tissue.png"
            raise ConfigError(slide, why, "draw them into different folders with -o")
    geometry = lattice(args.spots, args.pitch)
    failures = []
    for slide in args.slides:
        try:
            image, outlines = tissue_to_file(
                slide, args.output, lattice=geometry, tissue=args.tissue, mpp=args.mpp, overwrite=args.overwrite
            )
        except Exception as e:  # noqa: BLE001 - the slides that follow are another matter
            failures.append(report(e, debug=args.debug))
        else:
            print(f"wrote {image} and {outlines}", file=sys.stdout, flush=True)
    return min(failures, default=0)  # 1, an internal error, if there was one
