"""``genar train``."""

import argparse
import sys
from pathlib import Path

DESCRIPTION = """\
Train a model on measured sections, as a YAML file says. Any of its settings can
be given after it by its dotted name. Prints the accuracy on held-out sections
beside that of PCA + ridge regression and of the gene mean."""

EPILOG = """\
examples:
  genar train configs/her2st-mini.yaml --data DIR --output runs/mine
  genar train configs/her2st-mini.yaml --model.width 128 --trainer.max_epochs 5
  genar train configs/her2st-mini.yaml --print-config"""

YAML = (".yaml", ".yml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
    parser.add_argument("--data", metavar="DIR", help="the data folder (data.root)")
    parser.add_argument("-o", "--output", metavar="DIR", help="the run folder")
    parser.add_argument("--print-config", action="store_true", help="print all settings as YAML and stop")


def run(args: argparse.Namespace) -> int:
    """Train."""
    from genar.cli.config import dump, load, overrides
    from genar.errors import ConfigError
    from genar.jobs.config import TrainConfig

    if args.config.suffix not in YAML and any(Path(word).suffix in YAML for word in args.rest):
        # a setting stands before CONFIG, and its value was taken for CONFIG
        raise ConfigError(args.config, "it is no YAML file", "give CONFIG before the settings")
    changes = overrides(args.rest)
    changes |= {k: v for k, v in (("data.root", args.data), ("output", args.output)) if v is not None}
    config = load(args.config, TrainConfig, changes)
    if args.print_config:
        print(dump(config), end="")
        return 0
    from genar.jobs.train import train

    print(f"wrote {train(config)}", file=sys.stdout)
    return 0
