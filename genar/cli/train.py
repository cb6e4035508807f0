"""``genar train``."""

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar.jobs.config import TrainConfig

DESCRIPTION = """\
Train a model on measured sections, as a YAML file says. Any of its settings can
be given after it by its dotted name. The sections are checked first ('genar
check'). Prints the accuracy on held-out sections beside that of ridge
regression and of the gene mean."""

EPILOG = """\
examples:
  genar train visium --data samples.csv -o runs/lung --name lung
  genar train hest --data hest_data --resume
  genar train her2st-mini --data her2st --model.width 128
  genar train my.yaml --print-config"""

SETTINGS = {"data": "data.root", "output": "output", "name": "name"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "config",
        metavar="CONFIG",
        type=Path,
        help="YAML file, or the name of one that comes with genar: visium, hest, her2st-mini, paper",
    )
    add("--data", metavar="DATA", help="folder of sections, one section, or sample sheet (data.root)")
    add("-o", "--output", metavar="DIR", help="the run folder")
    add("--name", help="name of the model")
    add("--resume", action="store_true", help="go on with the run that is in the run folder, if there is one")
    add("--overwrite", action="store_true", help="replace the run that is in the run folder")
    add("--prepare", action="store_true", help="check the sections, extract their features and stop")
    add("--print-config", action="store_true", help="print all settings as YAML and stop")


def run(args: argparse.Namespace) -> int:
    """Train."""
    from genar.cli.config import YAML, config_file, dump, load, overrides
    from genar.errors import ConfigError
    from genar.jobs.config import TrainConfig

    if args.config.suffix not in YAML and any(Path(word).suffix in YAML for word in args.rest):
        # a setting stands before CONFIG, and its value was taken for CONFIG
        raise ConfigError(args.config, "it is no YAML file", "give CONFIG before the settings")
    if args.resume and args.overwrite:
        raise ConfigError("--resume", "it contradicts --overwrite", "give one of the two")
    changes = overrides(args.rest)
    changes |= {setting: value for key, setting in SETTINGS.items() if (value := getattr(args, key)) is not None}
    config = load(config_file(args.config), TrainConfig, changes)
    if args.print_config:
        print(dump(config), end="")
        return 0
    return _train(config, args)


def _train(config: "TrainConfig", args: argparse.Namespace) -> int:
    """Do what was asked, and say what came of it."""
    from genar.cli.app import quiet
    from genar.jobs.run import is_first_process
    from genar.jobs.train import load, train
    from genar.write.card import means

    quiet(debug=args.debug)
    if not is_first_process():
        logging.getLogger("genar").setLevel(logging.ERROR)
    if args.prepare:
        load(config)
        return 0
    heldout = train(config, resume=args.resume, overwrite=args.overwrite)
    if is_first_process():
        if len(heldout):
            number = heldout["section"].nunique()
            print(f"held out, {f'mean of {number} sections' if number > 1 else '1 section'}:")
            print(means(heldout).round(3).to_string(index=False))
        print(f"wrote {config.output / 'model'}")
    return 0
