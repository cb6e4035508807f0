"""``genar bench``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genar.jobs.config import TrainConfig

DESCRIPTION = """\
Train GenAR and what it has to beat on measured sections, judge all on those
left out, and compare them: same spots, features and genes, several seeds,
intervals over sections. DATA is as for 'genar check'. CONFIG says how sections
are split and GenAR is trained; any of its settings can be given by its dotted
name, as for 'genar train'. Ctrl-C, and again with --resume, goes on.
Prints a table; writes scores.csv, genes.csv, bench.json, table.md, scores.png."""

EPILOG = """\
examples:
  genar bench samples.csv --split leave_one_patient_out -o bench
  genar bench samples.csv --methods GenAR ridge --seeds 5 --resume
  genar bench her2st --protocol her2st --model.width 128
  genar bench hest_bench --protocol hest-bench --encoder uni"""

PROTOCOLS = {"her2st": "her2st-mini", "hest-bench": "hest"}  # and the configurations that they start from
SPLITS = ("holdout", "kfold", "leave_one_patient_out", "leave_one_section_out")
GIVEN = {"output": "output", "split": "split.method", "encoder": "tiles.encoder", "encoder_weights": "tiles.weights",
         "seed": "seed"}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("data", metavar="DATA", help="folder of sections, one section, or sample sheet")
    add("-o", "--output", metavar="DIR", default="bench", help="output folder (bench)")
    add("--protocol", choices=list(PROTOCOLS),
        help="her2st: leave one out of its sections C2 to C6; hest-bench: the tasks, folds and figure of "
        "HEST-Bench, in its folder")  # fmt: skip
    add("--config", metavar="CONFIG", type=Path,
        help="YAML file of 'genar train', or the name of one that comes with genar (visium; of the protocols "
        "her2st-mini and hest)")  # fmt: skip
    add("--split", metavar="METHOD", choices=SPLITS,
        help=f"who is left out: {', '.join(SPLITS)} (as CONFIG says)")  # fmt: skip
    add("--methods", metavar="NAME", nargs="+",
        help="GenAR, continuous GenAR (regression by the same network), gene mean, k-nearest spots, HEST-Bench ridge, "
        "ridge, MLP, NB regression (all; of hest-bench HEST-Bench ridge and GenAR)")  # fmt: skip
    add("--seeds", metavar="N", type=int, default=3, help="how many, of methods that draw (3)")
    add("--seed", metavar="N", type=int, help="the first of them; also of split and features (as CONFIG says)")
    add("--encoder", metavar="NAME", help="the tile encoder, see 'genar encoders' (as CONFIG says)")
    add("--encoder-weights", metavar="PATH", help="a file of its weights")
    add("--resume", action="store_true", help="go on with what is in the output folder, if there is anything")
    add("--overwrite", action="store_true", help="replace what is in the output folder")


def run(args: argparse.Namespace) -> int:
    """Compare and print the table."""
    from genar.cli.app import quiet
    from genar.errors import ConfigError
    from genar.jobs.bench import bench
    from genar.jobs.bench_files import caption, table
    from genar.jobs.bench_hest import bench_hest, table_of_tasks

    quiet(debug=args.debug)  # again, now that Lightning is imported
    if args.resume and args.overwrite:
        raise ConfigError("--resume", "it contradicts --overwrite", "give one of the two")
    config = _config(args)
    options: dict[str, Any] = {"seeds": args.seeds, "resume": args.resume, "overwrite": args.overwrite}
    if args.methods is not None:
        options["methods"] = tuple(args.methods)
    if args.protocol == "hest-bench":
        print(table_of_tasks(bench_hest(config, **options)))
    else:
        result = bench(config, **options)
        print("\n\n".join([table(result), caption(result, "section"), *result.warnings]))
    print(f"wrote {config.output / 'table.md'} and more")
    return 0


def _config(args: argparse.Namespace) -> "TrainConfig":
    """Read the configuration, with what the command line and the protocol say over it."""
    from genar.cli.config import config_file, load, overrides
    from genar.errors import ConfigError
    from genar.jobs.config import TrainConfig

    if not Path(args.data).exists():  # or it is the value of a setting that stands before it
        raise ConfigError(args.data, "there is no such file or folder", "check the path, and give DATA before settings")
    changes: dict[str, Any] = {"data.root": args.data}
    name = PROTOCOLS.get(args.protocol, "visium")
    if args.protocol == "her2st":
        own = load(config_file(Path(name)), TrainConfig, {})
        changes |= {"data.sections": own.data.sections, "data.mpp": own.data.mpp, "split": own.split.model_dump()}
    if args.protocol == "hest-bench":
        if args.split:
            raise ConfigError("--split", "hest-bench has splits of its own", "leave it out")
        changes["trainer.refit"] = True  # a fold has few samples
    changes |= overrides(args.rest)
    changes |= {setting: value for key, setting in GIVEN.items() if (value := getattr(args, key)) is not None}
    return load(config_file(args.config or Path(name)), TrainConfig, changes)
