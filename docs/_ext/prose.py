"""The house's docstrings: what a function returns is prose, not a type; napoleon would take its lines for types."""

import re

from sphinx.application import Sphinx

RULE = re.compile(r"-{3,}\s*$")
HEADS = ("Returns", "Yields")


class Returns:
    """Keep what is returned from napoleon, and put it back as a field behind the parameters."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def take(self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
        """Take the section out of the docstring, before napoleon reads it."""
        self.kept = []
        start = next((i for i in range(len(lines) - 1) if lines[i] in HEADS and RULE.match(lines[i + 1])), None)
        if start is not None:
            heads = (i for i in range(start + 2, len(lines) - 1) if RULE.match(lines[i + 1]))
            end = next(heads, len(lines))
            self.kept = [f"    {line}" if line else "" for line in lines[start + 2 : end]]
            del lines[start:end]

    def give_back(self, app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
        """Put it before the errors, after napoleon."""
        if self.kept:
            at = next((i for i, line in enumerate(lines) if line.startswith(":raises")), len(lines))
            lines[at:at] = [*([""] if at == len(lines) else []), ":returns:", *self.kept, ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Come before napoleon, and after it."""
    section = Returns()
    app.connect("autodoc-process-docstring", section.take, priority=400)
    app.connect("autodoc-process-docstring", section.give_back, priority=600)
    return {"parallel_read_safe": True}
