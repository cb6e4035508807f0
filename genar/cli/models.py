"""``genar models``."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar.jobs.models import Summary

DESCRIPTION = """\
The models that are here: those that come with genar, and those of the Hugging
Face hub that are in its cache on this machine. MODEL is a bundled name, a model
directory, or OWNER/NAME or OWNER/NAME@REVISION at the hub, which is downloaded
unless it is in the cache."""

EPILOG = """\
examples:
  genar models
  genar models show her2st-mini
  genar predict slide.svs --model OWNER/NAME@REVISION"""

HEADS = ("name", "genes", "encoder", "PCC", "MB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.usage = "genar models [list | show MODEL | path MODEL] [--help]"
    add = parser.add_argument
    add("what", metavar="list, show, path", nargs="?", choices=("list", "show", "path"), default="list",
        help="list all (default); show what is known of one, and its card; print its directory")  # fmt: skip
    add("model", metavar="MODEL", nargs="?", help="the one to show, or whose directory to print")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for."""
    from genar.errors import ConfigError

    if (args.model is None) != (args.what == "list"):
        why = "it takes no model" if args.model else "of which model is not said"
        raise ConfigError(args.what, why, "see 'genar models --help'")
    if args.what == "list":
        return _list()
    from genar.jobs.models import summary
    from genar.shelf import card_of, find

    directory = find(args.model)
    if args.what == "path":
        print(directory)
        return 0
    print("\n".join(_lines(summary(directory))))
    print(f"\n{card_of(directory) or 'It has no card.'}".rstrip())
    return 0


def _list() -> int:
    """Print a line a model."""
    from genar.jobs.models import here, summary

    rows = [HEADS, *(_row(summary(directory)) for directory in here())]
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEADS))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _row(known: "Summary") -> tuple[str, ...]:
    """Return a model's line."""
    pcc = f"{known.pcc:.3f}" if known.pcc == known.pcc else "-"
    return (known.name, str(known.genes), known.encoder, pcc, f"{known.bytes / 1e6:.1f}")


def _lines(known: "Summary") -> list[str]:
    """Return what is known of a model, a line each."""
    from genar.shelf import card_of
    from genar.write.header import section

    held_out = "not judged"
    if known.pcc == known.pcc:
        held_out = f"PCC {known.pcc:.3f}, mean over genes"
        held_out += "" if known.reliable is None else f"; {known.reliable} of {known.genes} genes are reliable"
    licence = section(card_of(known.directory), "Licence") or "not stated"
    return [
        known.name,
        f"  directory  {known.directory}",
        f"  genes      {known.genes}, at scales {', '.join(map(str, known.scales))}",
        f"  encoder    {known.encoder}",
        f"  spots      {known.spots}",
        f"  trained on {known.sections} sections",
        f"  held out   {held_out}",
        f"  licence    {' '.join(licence.split())}",
        f"  size       {known.bytes / 1e6:.1f} MB",
    ]
