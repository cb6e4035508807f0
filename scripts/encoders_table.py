"""Put the table of encoders, made from their entries, into docs/encoders.md."""

import re
from pathlib import Path

from genar.encoders.entries import ENCODERS, EncoderSpec

PAGE = Path(__file__).parents[1] / "docs" / "encoders.md"
MARKED = re.compile(r"(?<=<!-- encoders -->\n).*?(?=<!-- /encoders -->)", re.DOTALL)
POOLED = {"network": "-", "class": "class token", "mean": "mean", "class+mean": "class token, mean"}


def table() -> str:
    """Return the table in Markdown, an encoder a line."""
    head = "| name | also | features | input, px | µm/px | pooling | licence of the weights | weights |"
    return "\n".join([head, "|" + "---|" * 8, *map(line, ENCODERS.values())]) + "\n"


def line(spec: EncoderSpec) -> str:
    """Return an encoder's line."""
    link = f"[{spec.hub}](https://huggingface.co/{spec.hub})" + ", gated" * spec.gated
    cells = (
        f"`{spec.name}`",
        ", ".join(f"`{alias}`" for alias in spec.aliases),
        spec.dim,
        spec.input_px,
        "" if spec.mpp is None else f"{spec.mpp:g}",
        POOLED[spec.pooling] if spec.timm_name else "not computed by genar",
        spec.licence,
        link if spec.package is None else f"PyPI: `{spec.package}`",
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    PAGE.write_text(MARKED.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
