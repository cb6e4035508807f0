"""The command line: dispatch, and the boundary at which errors become one line and an exit code."""

import argparse
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

from genar.errors import OUT_OF_MEMORY, GenarError

COMMANDS = {
    "predict": "predict counts on slides",
    "tissue": "show where slides show tissue, to look at and correct",
    "demo": "fetch a small real slide and predict it",
    "report": "write a result as a page to look at in a browser",
    "export": "write results as SpatialData, GeoJSON, CSV or Parquet",
    "check": "check measured sections before training on them",
    "train": "train a model on measured sections",
    "evaluate": "judge a model on measured sections that it never saw",
    "bench": "train GenAR and what it has to beat, and compare them",
    "encoders": "list the tile encoders",
    "models": "list the models that are here, or show one",
    "push": "put a model into a repository of the Hugging Face hub",
    "doctor": "check that genar can work on this machine",
    "import": "convert a checkpoint of the published GenAR code",
}

MODULES = {"import": "import_"}  # commands whose name is a keyword of Python

SETTINGS = ("train", "bench")  # commands that take settings of a YAML file by their dotted names

DESCRIPTION = """\
Predict spatial gene expression from H&E whole-slide images. For each slide,
genar lays spots on the tissue, encodes the tile around each, decodes the counts
of a panel of genes coarse to fine (GenAR), and writes one AnnData (.h5ad) that
scanpy and squidpy open, and a picture of it (.png)."""

EPILOG = """\
examples:
  genar demo
  genar predict slide.svs -o results
  genar check samples.csv
  genar train visium --data samples.csv

'genar COMMAND --help' tells more. For research use only, not for diagnosis."""

INTERRUPTED, USAGE, INTERNAL = 130, 2, 1


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake on one line."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake and leave with status 2."""
        print(f"genar: error: {message}; see '{self.prog} --help'", file=sys.stderr)
        sys.exit(USAGE)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser; no command's work is imported."""
    debug = Parser(add_help=False)
    debug.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks and logs")
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser("genar", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw, parents=[debug])
    parser.add_argument("--version", action="version", version=f"genar {version('genar')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, summary in COMMANDS.items():
        module = import_module(f"genar.cli.{MODULES.get(name, name)}")
        command = commands.add_parser(
            name,
            help=summary,
            description=module.DESCRIPTION,
            epilog=module.EPILOG,
            formatter_class=raw,
            parents=[debug],
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 done, 1 internal error, 2 something the user gave is wrong, 130 interrupted."""
    words = [_hyphens(word) for word in (sys.argv[1:] if argv is None else argv)]
    args, rest = build_parser().parse_known_args(words)
    args.debug = getattr(args, "debug", False)
    if rest and args.command not in SETTINGS:
        Parser(f"genar {args.command}").error(f"unknown argument {rest[0]}")
    args.rest = rest
    quiet(debug=args.debug)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(_guarded(args))


def _guarded(args: argparse.Namespace) -> int:
    """Run the command and turn what goes wrong into a line and a status."""
    try:
        status = int(args.run(args) or 0)
        sys.stdout.flush()  # a closed pipe shows here, not after the boundary
        return status
    except KeyboardInterrupt:
        print("genar: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERNAL
    except Exception as e:  # noqa: BLE001 - the one boundary
        return report(e, debug=args.debug)


def report(error: Exception, *, debug: bool) -> int:
    """Print what went wrong on one line, and return the exit status."""
    if type(error).__name__ in ("MemoryError", "OutOfMemoryError"):  # the second is torch's, not imported here
        print(f"genar: error: {OUT_OF_MEMORY}", file=sys.stderr)
        return INTERNAL
    if debug:
        traceback.print_exception(error)
    line = " ".join(str(error).split())
    if isinstance(error, GenarError):
        print(f"genar: error: {line}", file=sys.stderr)
        return USAGE
    hint = "run again with --debug and report the traceback"
    print(f"genar: internal error: {type(error).__name__}: {line}; {hint}", file=sys.stderr)
    return INTERNAL


def _hyphens(word: str) -> str:
    """Accept ``--batch_size`` for ``--batch-size``; dotted settings of a YAML file keep their underscores."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") and "." not in name else word


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def quiet(*, debug: bool) -> None:
    """Show genar's own messages; other libraries' only when debugging.

    Lightning makes itself heard again when it is imported: whoever does so calls this after it.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("genar: %(message)s"))
    logger = logging.getLogger("genar")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    if not debug:
        warnings.simplefilter("ignore")
        for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
