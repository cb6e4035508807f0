"""What the README and the documentation show as code. Notebooks are left to the build, which runs them."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
SEPARATORS = {"&&", "|", ";"}
SPAN = re.compile(r"(?<!`)`(genar [^`\n]+|--[^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line, language ("" for none) and text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the pages."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if not {"_build", "notebooks"} & {part.name for part in path.parents}]


def blocks() -> Iterator[Block]:
    """Yield the fenced blocks, but for Sphinx' own directives."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        assert text.count("```") % 2 == 0, f"{path}: a fence is left open"
        for found in FENCE.finditer(text):
            if not found[2].startswith("{"):
                line = text[: found.start()].count("\n") + 1
                yield Block(str(path.relative_to(ROOT)), line, found[2].strip(), textwrap.dedent(found[3]))


def spans() -> Iterator[tuple[str, str]]:
    """Yield commands, and options alone, that the text names, with their page."""
    for path in pages():
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        yield from ((str(path.relative_to(ROOT)), found[1]) for found in SPAN.finditer(text))


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command."""
    for line in text.replace("\\\n", " ").splitlines():
        command: list[str] = []
        for word in shlex.split(line, comments=True):
            if word in SEPARATORS:
                yield command
                command = []
            else:
                command.append(word)
        if command:
            yield command
