"""A YAML file and dotted overrides, checked against a pydantic model."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from genar.errors import ConfigError

C = TypeVar("C", bound=BaseModel)

YAML = (".yaml", ".yml")
PACKAGE = Path(__file__).parents[1]
SHIPPED = (PACKAGE / "configs", PACKAGE.parent / "configs")  # as installed, and in a checkout


def overrides(words: Sequence[str]) -> dict[str, Any]:
    """Read ``--model.width 256`` or ``--model.width=256`` into ``{"model.width": 256}``; values are YAML.

    Raises
    ------
    ConfigError
        If a word is no setting, or a setting has no value.
    """
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise ConfigError(word, "it is not a setting", "write --section.name VALUE")
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            if not rest:
                raise ConfigError(word, "it has no value", f"write {word} VALUE")
            value = rest.pop(0)
        found[name] = _yaml(value, word)
    return found


def config_file(given: Path) -> Path:
    """Return the file of a configuration: a YAML file, or one that comes with genar, by its name (``her2st-mini``).

    Raises
    ------
    ConfigError
        If there is no such file, and none of that name.
    """
    if given.suffix in YAML or given.is_file():
        return given
    shipped = [folder for folder in SHIPPED if folder.is_dir()][0]
    path = shipped / f"{given}.yaml"
    if not path.is_file():
        names = sorted(p.relative_to(shipped).with_suffix("").as_posix() for p in shipped.rglob("*.yaml"))
        why = "there is no such file, nor a configuration of that name"
        raise ConfigError(given, why, f"give a YAML file, or one of {', '.join(names)}")
    return path


def load(path: Path, schema: type[C], changes: Mapping[str, Any]) -> C:
    """Read a configuration.

    Parameters
    ----------
    path
        The YAML file. A file may name another one, beside it, as ``base``: it then says what differs from that.
    schema
        What it must be.
    changes
        Values by dotted name that replace the file's.

    Raises
    ------
    ConfigError
        If a file cannot be read, a setting is unknown (the nearest known one is named) or has a wrong value.
    """
    values = _read(path)
    for name, value in changes.items():
        *sections, last = name.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(name, f"{section} is not a section", "see --print-config")
        place[last] = value
    try:
        return schema.model_validate(values)
    except ValidationError as e:
        raise _error(path, schema, e) from e


def _read(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a YAML file over its base."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(
            path, f"it cannot be read ({getattr(e, 'strerror', None) or 'not text'})", "check the path"
        ) from e
    values = _yaml(text, str(path))
    if not isinstance(values, dict):
        raise ConfigError(path, "it does not hold settings", "write them as 'name: value'; see configs/")
    base = values.pop("base", None)
    if base is None:
        return values
    if path.resolve() in above:
        raise ConfigError(path, "it is its own base", "name another file as base")
    return _over(_read(path.parent / str(base), (*above, path.resolve())), values)


def _over(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lay settings over others, section by section."""
    merged = dict(base)
    for name, value in changes.items():
        old = merged.get(name)
        merged[name] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def dump(config: BaseModel) -> str:
    """Write a configuration as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as e:  # ValueError: the 45th of a month
        raise ConfigError(where, f"it is not YAML ({' '.join(str(e).split())})", "correct it") from e


def _error(path: str | Path, schema: type[BaseModel], error: ValidationError) -> ConfigError:
    """Name the first setting that is wrong, and what would be right."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    name = ".".join(location) or "the settings"
    if first["type"] == "extra_forbidden":
        known = _names(schema)
        elsewhere = [k for k in known if k.rpartition(".")[2] == location[-1]]  # right name, wrong section
        near = elsewhere or difflib.get_close_matches(name, known, n=1)
        return ConfigError(
            path, f"there is no setting {name}", f"did you mean {near[0]}?" if near else "see --print-config"
        )
    if first["type"] == "missing":
        return ConfigError(path, f"the setting {name} is missing", "add it")
    if isinstance(first["input"], dict):  # settings that do not fit each other
        return ConfigError(path, f"{name}: {first['msg'].removeprefix('Value error, ')}", "correct it")
    return ConfigError(path, f"{name}: {first['msg']} (it is {first['input']!r})"[:300], "correct it")


def _names(schema: type[BaseModel], prefix: str = "") -> list[str]:
    """List the dotted names of a schema's settings."""
    names = []
    for name, field in schema.model_fields.items():
        names.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += _names(field.annotation, f"{prefix}{name}.")
    return names
