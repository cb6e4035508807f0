"""``genar predict``."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = """\
Predict the counts of a model's genes on each slide. Writes NAME.h5ad (integer
counts in X, spot centres in obsm["spatial"]) and NAME.png for every slide NAME."""

EPILOG = """\
examples:
  genar predict *.svs -o results --spots visium
  genar predict section.jpg --mpp 0.687 --spots st
  genar predict slide.tif --spots spaceranger/outs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "slides", metavar="SLIDE", nargs="+", type=Path, help="anything OpenSlide reads, TIFF, JPEG, PNG"
    )
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of prediction."""
    add = parser.add_argument
    add("-o", "--output", metavar="DIR", type=Path, default=Path(), help="output folder (default: this one)")
    add("--model", default="her2st-mini", metavar="MODEL", help="bundled name or model directory (her2st-mini)")
    add("--spots", metavar="WHERE", help="where to predict: visium (55 µm spots 100 µm apart), st (100 µm, 200 µm "
        "apart), grid (square), or at a measured section's spots or a CSV's or GeoJSON's places (default: as "
        "trained)")  # fmt: skip
    add("--pitch", type=float, metavar="UM", help="distance of spots in µm, for --spots grid")
    add("--mpp", type=float, metavar="UM", help="µm per pixel, where the slide's file does not carry it")
    add("--estimator", choices=("mean", "log_mean", "mode", "sample"), default="log_mean",
        help="how a count is taken from its distribution (log_mean)")  # fmt: skip
    add("--decoding", choices=("expected", "greedy", "sample"),
        help="what a coarse scale hands on to the next: its expected value, its most probable one, or a drawn one "
        "(default: as the model was made for)")  # fmt: skip
    add("--depth", type=float, metavar="COUNTS", help="median library size to predict at, for a model that is "
        "conditioned on it (default: that of its training sections)")  # fmt: skip
    add = parser.add_argument_group("drawn decoding, of --decoding sample or --estimator sample").add_argument
    add("--samples", type=_paths, default=1, metavar="N", help="draw N paths through the scales and average their "
        "distributions; adds the layers q05, q50, q95 (1)")  # fmt: skip
    add("--temperature", type=_positive, default=1.0, metavar="T", help="below 1 narrows the distribution (1)")
    add("--top-k", type=_count, default=0, metavar="K", help="draw among the K most probable counts; 0 for all (0)")
    add("--top-p", type=_share, default=1.0, metavar="P", help="draw among the likeliest counts with this share (1)")
    add("--seed", type=_seed, default=0, metavar="N", help="seed (0)")
    add = parser.add_argument_group("running").add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (auto)")
    add("--batch-size", type=_natural, default=32, metavar="N", help="tiles at once (32)")
    add("--workers", type=_count, default=0, metavar="N", help="extra processes that read tiles (0)")
    add("--overwrite", action="store_true", help="replace files that exist")


def _count(text: str) -> int:
    """Read a whole number from 0."""
    if not text.isdecimal():
        msg = f"{text!r} is not a whole number from 0"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _natural(text: str) -> int:
    """Read a whole number from 1."""
    value = _count(text)
    if value == 0:
        msg = "0 is too few"
        raise argparse.ArgumentTypeError(msg)
    return value


def _paths(text: str) -> int:
    """Read a number of draws."""
    value = _natural(text)
    if value > 10_000:
        msg = f"{text} is above 10000"
        raise argparse.ArgumentTypeError(msg)
    return value


def _positive(text: str) -> float:
    """Read a number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        msg = f"{text} is not above 0"
        raise argparse.ArgumentTypeError(msg)
    return value


def _share(text: str) -> float:
    """Read a number above 0 and at most 1."""
    value = float(text)
    if not 0 < value <= 1:
        msg = f"{text} is not above 0 and at most 1"
        raise argparse.ArgumentTypeError(msg)
    return value


def _seed(text: str) -> int:
    """Read a whole number from 0 that a file can hold."""
    value = _count(text)
    if value >= 2**63:
        msg = f"{text} is not below 2**63"
        raise argparse.ArgumentTypeError(msg)
    return value


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options as :func:`genar.jobs.predict.predict_to_file` names them."""
    from genar.errors import ConfigError
    from genar.model.decoding import Decoding

    if args.samples > 1 and args.decoding not in (None, "sample"):
        why = f"--decoding {args.decoding} gives the same counts each time"
        raise ConfigError("--samples", why, "leave one of the two out")
    names = (
        "model", "spots", "pitch", "mpp", "device", "batch_size", "workers", "seed", "estimator", "depth", "overwrite",
    )  # fmt: skip
    decoding = Decoding(
        rule="sample" if args.samples > 1 else args.decoding,
        n_samples=args.samples,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
    )
    return {name: getattr(args, name) for name in names} | {"decoding": decoding}


def run(args: argparse.Namespace) -> int:
    """Predict slide after slide; one that fails is reported and the rest go on."""
    from genar.cli.app import report
    from genar.errors import ConfigError
    from genar.jobs.predict import predict_to_file

    stems = [slide.stem for slide in args.slides]
    for slide in args.slides:
        if stems.count(slide.stem) > 1:
            why = f"two of the slides would be written to {slide.stem}.h5ad"
            raise ConfigError(slide, why, "predict them into different folders with -o")
    settings = options(args)
    failures = []
    for slide in args.slides:
        try:
            table, picture = predict_to_file(slide, args.output, **settings)
        except Exception as e:  # noqa: BLE001 - the slides that follow are another matter
            failures.append(report(e, debug=args.debug))
        else:
            print(f"wrote {table} and {picture}", file=sys.stdout, flush=True)
    return min(failures, default=0)  # 1, an internal error, if there was one
