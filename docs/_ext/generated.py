"""Directives whose text is taken from the code: the command line and the settings of training."""

import inspect
import os
import re
from collections.abc import Iterator

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from genar.cli.app import COMMANDS, build_parser
from genar.jobs.config import TrainConfig

PLAIN = {
    "tuple[str, ...]": "list of text", "tuple[int, ...]": "list of int", "tuple[float, ...]": "list of float",
    "str": "text", "Path": "path", " | None": "",
}  # fmt: skip
PARAMETERS = re.compile(r"Parameters\n-+\n(.*?)(?:\n\n|\Z)", re.DOTALL)


class Commands(SphinxDirective):
    """A section for each command with its help, as ``genar COMMAND --help`` prints it on 80 columns."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        os.environ["COLUMNS"] = "80"
        parser = build_parser()
        commands = next(action.choices for action in parser._actions if action.dest == "command")
        lines = []
        for name in COMMANDS:
            title = f"genar {name}"
            lines += [f"({title.replace(' ', '-')})=", f"## {title}", "", "```text"]
            lines += [*commands[name].format_help().splitlines(), "```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class Settings(SphinxDirective):
    """A section for each part of a training configuration: every setting with its type, default and meaning."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        lines = [*_head("name, output, seed", ""), *_settings(TrainConfig, "")]
        for name, field in TrainConfig.model_fields.items():
            if _is_model(field.annotation):
                summary = inspect.getdoc(field.annotation) or ""
                lines += [*_head(name, summary.partition("\n")[0]), *_settings(field.annotation, f"{name}.")]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _head(title: str, text: str) -> list[str]:
    return [title, "-" * len(title), "", text, ""]


def _settings(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield a definition for each setting of a model, in reStructuredText."""
    said = dict(_meanings(inspect.getdoc(model) or ""))
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            continue
        kind = re.sub(r"\b(typing|pathlib|Annotated)\.?", "", str(inspect.formatannotation(field.annotation)))
        default = "required" if field.is_required() else f"default ``{_yaml(field.default)}``"
        yield f"``{prefix}{name}`` : ``{_legal(kind)}``, {default}"
        yield from (f"    {line}" for line in said[name])  # a setting without a meaning stops the build
        yield ""


def _meanings(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the text of each parameter; several of one text share it."""
    found = PARAMETERS.search(docstring)
    for entry in re.split(r"\n(?=\S)", found[1]) if found else ():
        names, _, text = entry.partition("\n")
        for name in names.split(", "):
            yield name, inspect.cleandoc(text).splitlines()


def _legal(kind: str) -> str:
    """Return a type as a reader of YAML would write it."""
    words = re.sub(r"\[int, FieldInfo\([^]]*\)\]", "int", kind)
    if literal := re.fullmatch(r"Literal\[(.*)\]", words):
        return literal[1].replace("'", "").replace(", ", " | ")
    for python, plain in PLAIN.items():
        words = words.replace(python, plain)
    return words


def _yaml(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("genar-commands", Commands)
    app.add_directive("genar-settings", Settings)
    return {"parallel_read_safe": True}
