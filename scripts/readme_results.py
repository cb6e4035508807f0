"""Put the bundled model's held-out accuracy, from its model card, into the README."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
CARD = ROOT / "genar/models/her2st-mini/README.md"
README = ROOT / "README.md"
MARKS = re.compile(r"(<!-- heldout -->\n).*?(<!-- /heldout -->)", re.DOTALL)


def table(card: str) -> str:
    """Return the table of a model card with the rows of the means alone, without the section's name."""
    lines = [line for line in card.splitlines() if line.startswith(("| section", "| **mean**"))]
    rows = ["| " + line.split("|", 2)[2].strip() for line in lines]
    return "\n".join([rows[0], "|" + "---|" * (rows[0].count("|") - 1), *rows[1:]])


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(MARKS.sub(rf"\g<1>{table(CARD.read_text(encoding='utf-8'))}\n\g<2>", text), encoding="utf-8")
