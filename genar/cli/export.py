"""``genar export``."""

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Write results in formats that other programs open: a SpatialData store (image,
spot circles, table), GeoJSON (QuPath objects with measurements), or one wide
table. RESULT is a file of genar predict, of one slide or a cohort, or the
.h5ad of a measured section."""

EPILOG = """\
examples:
  genar export results/slide.h5ad --to spatialdata
  genar export results/slide.h5ad --to geojson --genes ERBB2 GNAS
  genar export results/*.h5ad --to parquet --layer expected -o tables"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("results", metavar="RESULT", nargs="+", type=Path, help="an .h5ad, or several")
    add("--to", metavar="FORMAT", required=True, choices=("spatialdata", "geojson", "csv", "parquet"),
        help="spatialdata, geojson, csv, parquet")  # fmt: skip
    add("-o", "--output", metavar="PATH", type=Path, help="output folder or, of one result, the file or the .zarr "
        "(beside the result)")  # fmt: skip
    add("--genes", metavar="GENE", nargs="+", help="the genes to write (all; for geojson those of --top 20)")
    add("--top", metavar="N", type=int, help="the N genes that vary most, reliable ones before all others")
    add("--layer", metavar="NAME", help="whose values: counts, expected, std, ... (those of X; spatialdata has all)")
    add("--object", metavar="KIND", choices=("detection", "tile"), help="of geojson: detection, tile (detection)")
    add("--classify", metavar="COLUMN", help="of geojson: the column of obs that gives spots their class and colour, "
        "such as clusters, in_focus, ood")  # fmt: skip
    add("--slide", metavar="PATH", type=Path, help="of one section: spatialdata takes its image from the slide, at "
        "1 µm a pixel; geojson where QuPath counts from, if the result does not say")  # fmt: skip
    add("--overwrite", action="store_true", help="replace what exists")


def run(args: argparse.Namespace) -> int:
    """Write result after result; one that fails is reported and the rest go on."""
    from genar.cli.app import report
    from genar.errors import ConfigError
    from genar.jobs.export import export, names_file

    several = len(args.results) > 1
    if several and args.slide is not None:
        raise ConfigError("--slide", f"{len(args.results)} results are given", "export each with its slide")
    if several and args.output is not None and names_file(args.to, args.output):
        raise ConfigError(args.output, f"{len(args.results)} results would be written to it", "give a folder with -o")
    if len({(args.output or path.parent, path.stem) for path in args.results}) < len(args.results):
        why = "two results of one name would be written to one file"
        raise ConfigError("RESULT", why, "export each to a folder of its own with -o")
    failures = []
    for result in args.results:
        try:
            written = export(
                result, args.to, args.output, genes=args.genes, top=args.top, layer=args.layer, object=args.object,
                classify=args.classify, slide=args.slide, overwrite=args.overwrite,
            )  # fmt: skip
        except Exception as e:  # noqa: BLE001 - the results that follow are another matter
            failures.append(report(e, debug=args.debug))
        else:
            print("wrote " + ", ".join(map(str, written)), file=sys.stdout, flush=True)
    return min(failures, default=0)  # 1, an internal error, if there was one
