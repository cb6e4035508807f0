"""``genar predict``."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar.jobs.options import Options
    from genar.jobs.slides import Task
    from genar.jobs.work import Outcome

DESCRIPTION = """\
Predict the counts of a model's genes on each slide. Writes NAME.h5ad (integer
counts in X, spot centres in obsm["spatial"]) and NAME.png for every slide NAME,
and for several slides a line each in summary.csv. What is there is left as it
is, and what was interrupted goes on: to finish, repeat the command."""

EPILOG = """\
examples:
  genar predict *.svs -o results --spots visium
  genar predict section.jpg --mpp 0.687 --spots st
  genar predict slide.tif --spots spaceranger/outs
  genar predict slides.csv -o results --cluster slurm.yaml --concat"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.usage = "genar predict [OPTION ...] SLIDE [SLIDE ...]"
    parser.add_argument(
        "slides", metavar="SLIDE", nargs="+", type=Path, help="anything OpenSlide reads, TIFF, JPEG, PNG; or one "
        "CSV with the column slide, and perhaps mpp and name",
    )  # fmt: skip
    add_options(parser)
    add = parser.add_argument_group("cohorts").add_argument
    add("--cluster", metavar="WHERE", help="predict several slides at a time: local:N (N processes here), local (one "
        "for each GPU), tcp://HOST:PORT (a Dask scheduler), or a dask-jobqueue YAML (SLURM, PBS, LSF)")  # fmt: skip
    add("--concat", action="store_true", help="also put all results together, in cohort.h5ad")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of prediction."""
    parser.set_defaults(cluster=None, concat=False)
    add = parser.add_argument
    add("-o", "--output", metavar="DIR", type=Path, default=Path(), help="output folder (default: this one)")
    add("--model", default="her2st-mini", metavar="MODEL", help="name, folder or OWNER/NAME[@REVISION] (her2st-mini)")
    add("--report", action="store_true", help="also write NAME.html, for a browser")
    add("--overwrite", action="store_true", help="replace files that exist")
    add = parser.add_argument_group("where").add_argument
    add("--spots", metavar="WHERE", help="visium (55 µm spots 100 µm apart), st (100 µm, 200 µm apart), grid "
        "(square), or at a measured section's spots or a CSV's or GeoJSON's places (default: as trained)")  # fmt: skip
    add("--pitch", type=float, metavar="UM", help="distance of spots in µm, for --spots grid")
    add("--tissue", default="auto", metavar="WHERE", help="auto, none (everywhere), a GeoJSON or mask PNG, or a folder "
        "of these, each named as its slide (auto)")  # fmt: skip
    add("--mpp", type=float, metavar="UM", help="µm per pixel, where the slide's file does not carry it")
    add("--features", type=Path, metavar="PATH", help="at the tiles of others' features and from these: a TRIDENT or "
        "CLAM .h5, a LazySlide .zarr, or a folder of these, each named as its slide")  # fmt: skip
    add = parser.add_argument_group("decoding").add_argument
    add("--estimator", choices=("mean", "log_mean", "mode", "sample"), default="log_mean",
        help="how a count is taken from its distribution (log_mean)")  # fmt: skip
    add("--decoding", choices=("expected", "greedy", "sample"),
        help="what a coarse scale hands on to the next: its expected value, its most probable one, or a drawn one "
        "(default: as the model was made for)")  # fmt: skip
    add("--depth", type=float, metavar="COUNTS", help="median library size to predict at, for a model that is "
        "conditioned on it (default: that of its training sections)")  # fmt: skip
    add("--samples", type=_paths, default=1, metavar="N", help="draw N paths through the scales and average their "
        "distributions; adds the layers q05, q50, q95 (1)")  # fmt: skip
    add("--temperature", type=_positive, default=1.0, metavar="T", help="drawing: below 1 narrows the distribution (1)")
    add("--top-k", type=_count, default=0, metavar="K", help="drawing: among the K most probable counts (0: all)")
    add("--top-p", type=_share, default=1.0, metavar="P", help="drawing: among the likeliest counts of this share (1)")
    add("--seed", type=_seed, default=0, metavar="N", help="drawing: seed (0)")
    add = parser.add_argument_group("running").add_argument
    add(
        "--encoder-weights",
        type=Path,
        metavar="PATH",
        help="the encoder's weights: a file, a folder or a cache of the hub; see 'genar encoders'",
    )
    add("--cache", type=Path, metavar="DIR", help="keep the encoder's features there (default: in a hidden folder of "
        "the output folder, until a slide is done)")  # fmt: skip
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (auto)")
    add("--batch-size", type=_natural, default=32, metavar="N", help="tiles at once (32)")
    add("--workers", type=_count, metavar="N", help="extra processes that read tiles (0 for a CPU, the number of "
        "cores for a GPU)")  # fmt: skip


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


def options(args: argparse.Namespace) -> "Options":
    """Return the options as an object."""
    from genar.errors import ConfigError
    from genar.jobs.options import Options
    from genar.model.decoding import Decoding

    if args.samples > 1 and args.decoding not in (None, "sample"):
        why = f"--decoding {args.decoding} gives the same counts each time"
        raise ConfigError("--samples", why, "leave one of the two out")
    names = (
        "model", "spots", "pitch", "tissue", "mpp", "features", "encoder_weights", "cache", "seed", "estimator",
        "depth", "device", "batch_size", "workers", "report",
    )  # fmt: skip
    decoding = Decoding(
        rule="sample" if args.samples > 1 else args.decoding,
        n_samples=args.samples,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
    )
    return Options(**{name: getattr(args, name) for name in names}, decoding=decoding)


def run(args: argparse.Namespace) -> int:
    """Predict the slides."""
    from genar.errors import OutputError
    from genar.jobs.given import check_where
    from genar.jobs.slides import is_table, is_text, tasks_of
    from genar.shelf import at_commit
    from genar.write.atomic import check_writable

    reserved = ["cohort.h5ad"] * args.concat + ["index.html"] * args.report
    tasks = tasks_of(args.slides, reserved=reserved)
    if not is_text(args.output):
        raise OutputError(args.output, "its path is not UTF-8", "choose another folder with -o")
    if args.concat:
        from genar.jobs.concat import check_names

        check_names(tasks)
    check_writable(args.output / "summary.csv", overwrite=True)
    check_where(args.spots, args.pitch, args.tissue, args.features, args.encoder_weights)  # here: it takes no time
    args.model = at_commit(args.model)
    if args.cluster is not None:
        from genar.jobs.cluster import check_cluster

        check_cluster(args.cluster)
    if len(tasks) > 1 or is_table(args.slides) or args.cluster is not None or args.concat:
        return _cohort(tasks, args)
    from genar.jobs.predict_file import predict_to_file

    made = predict_to_file(tasks[0].slide, args.output, options(args), overwrite=args.overwrite, progress=True)
    page = made.table.with_suffix(".html")
    if made.is_new:
        print(f"wrote {made.table}{f', {page}' if args.report else ''} and {made.picture}", file=sys.stdout)
    else:
        there = f"{made.table} is there already" + (f" with {page}" if args.report else "")
        print(f"{there}, of the same request; --overwrite makes it anew", file=sys.stdout)
    return 0


def _cohort(tasks: "list[Task]", args: argparse.Namespace) -> int:
    """Predict many slides; 1 if any failed."""
    from genar.jobs.cohort import predict_all
    from genar.jobs.concat import COHORT, concat
    from genar.jobs.summary import SUMMARY
    from genar.write.report.index import check_index, write_index

    if args.report:
        check_index(args.output)

    def say(number: int, outcome: "Outcome") -> None:
        print(f"{number} of {len(tasks)}: {_line(outcome)}", file=sys.stdout, flush=True)
        for note in outcome.notes:
            print(f"genar: {note}", file=sys.stderr)
        if outcome.status == "failed":
            print(f"{outcome.traceback if args.debug else ''}genar: error: {outcome.error}", file=sys.stderr)

    outcomes = predict_all(tasks, args.output, options(args), overwrite=args.overwrite, cluster=args.cluster, say=say)
    tally = {status: sum(o.status == status for o in outcomes) for status in ("done", "present", "failed")}
    told = ", ".join(f"{n} {status}" for status, n in tally.items() if n)
    print(f"{told}; see {args.output / SUMMARY}", file=sys.stdout)
    tables = [outcome.output for outcome in outcomes if outcome.output is not None]
    if args.report and tables:
        print(f"wrote {write_index(args.output)}", file=sys.stdout)
    if args.concat and tables:
        target = args.output / f"{COHORT}.h5ad"
        if tally["failed"]:
            print(f"genar: {target} lacks what failed, {tally['failed']} of {len(tasks)} slides", file=sys.stderr)
        concat(tables, target)
        print(f"wrote {target}", file=sys.stdout)
    return int(tally["failed"] > 0)


def _line(outcome: "Outcome") -> str:
    """Say what came of a slide."""
    if outcome.status == "done":
        return f"wrote {outcome.output}, {outcome.spots:,} spots, {outcome.seconds:.1f} s"
    if outcome.status == "present":
        return f"{outcome.output} is there already"
    return f"{outcome.task.slide} failed"
