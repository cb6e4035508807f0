"""``genar import``."""

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Convert a checkpoint of the published GenAR code (a Lightning .ckpt of
github.com/oyjr/genar) into a model directory. Every tensor of it must be used,
or nothing is written. The checkpoint is read as plain data, never unpickled.

What it does not tell must be given: the genes, in the order it was trained
with, and what a tile and a spot were."""

EPILOG = """\
example:
  genar import best.ckpt --genes genes.txt --tile-um 112 --spots visium -o prad"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="the .ckpt")
    add("-o", "--output", metavar="MODEL_DIR", type=Path, required=True, help="model directory to write")
    add("--genes", metavar="FILE", type=Path, required=True, help="gene symbols, one a line, in the model's order")
    add("--tile-um", type=float, required=True, metavar="UM",
        help="side of a training tile in µm: 224 px times the slides' µm/px")  # fmt: skip
    add("--spots", choices=("visium", "st"), required=True, help="spots it was trained on")


def run(args: argparse.Namespace) -> int:
    """Import the checkpoint."""
    from genar.jobs.import_ import import_to_directory

    directory = import_to_directory(
        args.checkpoint, args.genes, args.output, spots=args.spots, tile_um=args.tile_um
    )  # fmt: skip
    print(f"wrote {directory}", file=sys.stdout)
    return 0
