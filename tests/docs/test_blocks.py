"""No command, setting or example of the README and the documentation can rot.

Commands of genar are parsed by the real parser and their settings by the real schema, other commands are of a short
list, YAML and tables are read by what reads them. What can be run is (tests/docs/test_pages.py).
"""

import csv
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import genar
from genar.cli import app
from genar.cli.config import config_file, load, overrides
from genar.jobs import jobqueue
from genar.jobs.config import TrainConfig
from genar.jobs.slides import tasks_of
from genar.read.sheet import read_sheet
from tests.docs.blocks import ROOT, Block, blocks, commands, pages, spans

BLOCKS = list(blocks())
CONFIGS = {"CONFIG": "configs/visium.yaml"}  # what stands for a file of yours
PLAIN = {"docs/data.md": "how folders lie", "docs/doctor.md": "what a command prints"}
TOOLS = {
    "docker",
    "export",
    "hf",
    "mypy",
    "printf",
    "pytest",
    "ruff",
    "source",
    "vips",
}  # not genar's; taken as they are
OF_PAGE = {"docs/training.md": "paper", "docs/results.md": "her2st-mini"}  # what settings in the text are for
FILE = re.compile(r"`((?:genar|docs|tests|scripts|configs)/[\w./-]+\.\w+)`")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def check(words: list[str]) -> None:
    """Raise, or leave, if a command would not be understood."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if ">" in words:
        words = words[: words.index(">")]
    tool, *rest = words
    if tool in ("srun", "torchrun"):
        check_genar(rest[rest.index("genar") + 1 :])
    elif tool == "genar":
        check_genar(rest)
    elif tool in ("bash", "python"):
        check_script(rest)
    elif tool == "pip":
        for extras in re.findall(r"(?:genar|\.)\[([^\]]+)\]", " ".join(rest)):
            assert set(extras.split(",")) <= set(EXTRAS), extras
    else:
        assert tool in TOOLS, f"{tool} is not a command that the documentation may name"
    if tool == "docker" and "genar" in (inside := rest[rest.index("run") :] if "run" in rest else []):
        check_genar(inside[inside.index("genar") + 1 :])


def check_genar(words: list[str]) -> None:
    """Parse as the command line does, and the settings of a training as it does."""
    args, rest = app.build_parser().parse_known_args([app._hyphens(word) for word in words])
    if args.command not in app.SETTINGS:
        assert not rest, f"there is no {rest}"
        return
    given = Path(CONFIGS.get(str(args.config), args.config or "visium"))
    config = ROOT / given if given.suffix else config_file(given)
    load(config, TrainConfig, overrides(rest) | {"data.root": args.data or "DATA"})


def check_script(words: list[str]) -> None:
    """See that a script is there and knows the options; settings of a training are the schema's."""
    script = ROOT / words[0]
    source = script.read_text(encoding="utf-8")
    options = [word for word in words[1:] if word.startswith("--")]
    assert all(option in source for option in options if "." not in option), options
    if any("." in option for option in options):
        at = next(i for i, word in enumerate(words) if word.startswith("--") and "." in word)
        load(ROOT / words[1], TrainConfig, overrides(words[at:]))


@pytest.mark.parametrize("block", of("bash"), ids=str)
def test_commands_are_understood(block: Block) -> None:
    found = list(commands(block.text))
    assert found
    for words in found:
        check(words)


def test_commands_in_the_text_are_understood() -> None:
    found = [words for _, words in spans() if words.startswith("genar ")]
    assert len(found) > 20
    for text in found:
        words = shlex.split(text)[1:]
        if "..." not in text and words[0] not in ("COMMAND", "--help", "--version"):
            if len(words) == 1:
                assert words[0] in app.COMMANDS, text
            elif "--help" not in words:
                assert any(understood([*words, *more]) for more in ((), ("x",), ("x", "x"))), text


def understood(words: list[str]) -> bool:
    """Tell whether a command is; in the text its arguments may be left out."""
    try:
        check_genar(words)
    except SystemExit:
        return False
    return True


def test_options_in_the_text_are_there() -> None:
    parser = app.build_parser()
    choices = next(action.choices for action in parser._actions if action.dest == "command")
    known = {option for command in choices.values() for option in command._option_string_actions}
    scripts = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "scripts").glob("*.py")))
    other = set("--find-links --group --index-url --lifetime --memory-limit --no-deps --user".split())  # pip's, Dask's
    for page, text in spans():
        option = shlex.split(text)[0].partition("=")[0]
        if option.startswith("--") and "." not in option:
            assert option in known | other or f'"{option}"' in scripts, f"{page}: {option}"
        elif option.startswith("--"):
            config = OF_PAGE.get(page, "visium")
            load(ROOT / f"configs/{config}.yaml", TrainConfig, overrides(shlex.split(text)))


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_yaml_is_valid(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "slurm.yaml"
    path.write_text(block.text, encoding="utf-8")
    if "jobqueue:" in block.text:
        assert jobqueue.read(path).jobs > 0
    else:  # a part of a training configuration
        path.write_text("base: base.yaml\n" + block.text, encoding="utf-8")
        (tmp_path / "base.yaml").symlink_to(ROOT / "configs/visium.yaml")
        load(path, TrainConfig, {})


@pytest.mark.parametrize("block", of("csv"), ids=str)
def test_tables_of_slides_are_read(block: Block, tmp_path: Path) -> None:
    rows = list(csv.DictReader(block.text.splitlines()))
    lines = [",".join(rows[0])]
    for row in rows:
        slide = tmp_path / row["slide"].lstrip("/")
        slide.parent.mkdir(parents=True, exist_ok=True)
        slide.touch()
        lines.append(",".join([str(slide), *list(row.values())[1:]]))
    table = tmp_path / "slides.csv"
    table.write_text("\n".join(lines), encoding="utf-8")
    assert len(tasks_of([table])) == len(rows)


@pytest.mark.parametrize("block", of(""), ids=str)
def test_other_blocks_are_sample_sheets(block: Block, tmp_path: Path) -> None:
    header, *rows = block.text.strip().splitlines()
    if header.startswith("path,"):
        sheet = tmp_path / "samples.csv"
        sheet.write_text(block.text, encoding="utf-8")
        assert len(read_sheet(sheet)) == len(rows)
        assert {len(row.split(",")) for row in rows} == {len(header.split(","))}
    else:
        assert block.page in PLAIN


def test_every_language_is_tested() -> None:
    assert {block.language for block in BLOCKS} <= {"bash", "python", "yaml", "csv", ""}


def test_the_readmes_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert all((ROOT / link).exists() for link in links)


def test_the_files_that_pages_name_are_there() -> None:
    named = [found for page in pages() for found in FILE.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    assert [name for name in genar.__all__ if not name.startswith("_") and f":: genar.{name}\n" not in page] == []
