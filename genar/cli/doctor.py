"""``genar doctor``."""

import argparse
import sys

DESCRIPTION = """\
Check that genar can work on this machine: versions, device, OpenSlide, codecs,
free disk, access to the Hugging Face hub, and whether the bundled model gives
its recorded output. A line a check: ok, note, or FIX with what to do. The exit
status is 1 if something is to be fixed."""

EPILOG = """\
example:
  genar doctor --offline"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--offline", action="store_true", help="do not ask the hub")


def run(args: argparse.Namespace) -> int:
    """Print the findings; 1 if something is to be fixed."""
    from genar.jobs.doctor import examine

    faults = 0
    for found in examine(offline=args.offline):
        faults += found.status == "FIX"
        print(f"{found.status:<4}  {found.check}: {found.said}", file=sys.stdout, flush=True)
    print(f"{faults} to fix" if faults else "genar can work here", file=sys.stdout)
    return int(faults > 0)
