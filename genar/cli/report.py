"""``genar report``."""

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Write each result as one HTML page, which opens from disk in any browser and
needs no network: the slide with its spots, every gene with its reliability,
total counts and how unlike the training tissue spots look, the most spatially
variable genes, and where the result comes from. Takes results of 'genar
predict' and measured sections (.h5ad); of several, index.html shows them all."""

EPILOG = """\
examples:
  genar report results/slide.h5ad
  genar report results/*.h5ad -o pages --overwrite
  genar report results/cohort.h5ad --genes ERBB2 KRT8"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("tables", metavar="OUT.h5ad", nargs="+", type=Path, help="results; a page for each section in them")
    add("-o", "--output", metavar="PATH", type=Path, help="a file, .html, or a folder (beside the first result)")
    add("--genes", metavar="NAME", nargs="+", help="show these alone (all, or as many as 10 MB hold)")
    add("--overwrite", action="store_true", help="replace pages that exist")


def run(args: argparse.Namespace) -> int:
    """Write the pages."""
    from genar.jobs.report import reports

    for path in reports(args.tables, args.output, genes=args.genes, overwrite=args.overwrite):
        print(f"wrote {path}", file=sys.stdout, flush=True)
    return 0
