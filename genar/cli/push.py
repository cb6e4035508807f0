"""``genar push``."""

import argparse

DESCRIPTION = """\
Put a model into a repository of the Hugging Face hub: its weights as
safetensors, its description, its genes, and its card with the metadata that the
hub reads. A new repository is private, unless --public is given; publish a
model if the licence of its data and of its encoder lets you."""

EPILOG = """\
example:
  hf auth login
  genar push runs/mine/model OWNER/NAME

To use it: genar predict slide.svs --model OWNER/NAME@REVISION"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="bundled name or model directory")
    add("repository", metavar="OWNER/NAME", help="the repository; made if need be")
    add("--public", action="store_true", help="make a new repository public")
    add("--license", metavar="ID", dest="licence", help="the hub's identifier of the weights' licence, as cc-by-4.0 "
        "(default: as the card says)")  # fmt: skip
    add("--datasets", metavar="ID", nargs="+", default=[], help="the hub's identifiers of the training data")
    add("--message", metavar="TEXT", help="message of the commit")


def run(args: argparse.Namespace) -> int:
    """Push the model."""
    from genar.jobs.push import push

    done = push(
        args.model, args.repository, public=args.public, licence=args.licence, datasets=args.datasets,
        message=args.message,
    )  # fmt: skip
    seen = "private" if done.private else "public"
    print(f"pushed {done.source}, {seen}: {done.url}")
    if args.public and done.private:
        print("the repository was there and stays private; its settings at the hub change that")
    return 0
