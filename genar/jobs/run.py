"""The run folder: what is in it, and whether a run may go there."""

import errno
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging.handlers import MemoryHandler
from pathlib import Path

import yaml
from lightning.fabric.utilities.rank_zero import rank_zero_only

from genar.data.splits import FINAL, Split
from genar.errors import ConfigError, OutputError
from genar.jobs.config import TrainConfig
from genar.slide.section import library_name
from genar.write.atomic import ELSEWHERE, beside, check_writable

CONFIG, SPLIT, LOG, HELDOUT, HELDOUT_GENES = (
    "config.yaml",
    "split.json",
    "train.log",
    "heldout.csv",
    "heldout_genes.csv",
)

UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}

logger = logging.getLogger("genar")


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run. The final model's training lies in the folder itself, the others' in ``folds/<name>``."""

    root: Path

    def of(self, run: str) -> Path:
        """Return the folder of one training run."""
        return self.root if run == FINAL else self.root / "folds" / library_name(run)

    def check(self, config: TrainConfig, *, resume: bool, overwrite: bool) -> None:
        """Raise now, rather than after long work, unless the run may go here; remove what is to be replaced.

        Raises
        ------
        OutputError
            If the folder cannot be written to, or holds something that is not to be resumed or replaced.
        ConfigError
            If the run to be resumed was begun with other settings.
        """
        if not is_first_process():  # the first process has
            return
        check_writable(self.root / CONFIG, overwrite=True)
        if not self.root.exists() or not any(self.root.iterdir()):
            return
        if not (self.root / CONFIG).is_file():
            why = "it exists and is not a run folder, so genar does not write there"
            raise OutputError(self.root, why, ELSEWHERE)
        if resume:
            self._check_same(config)
        elif overwrite:
            shutil.rmtree(self.root)
        else:
            remedy = f"add --resume to go on with it, --overwrite to replace it, or {ELSEWHERE}"
            raise OutputError(self.root, "it holds a run already", remedy)

    def _check_same(self, config: TrainConfig) -> None:
        """Raise unless the run here was begun with these settings."""
        path = self.root / CONFIG
        try:
            begun = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as e:
            raise ConfigError(path, f"it cannot be read ({e})", "add --overwrite to begin anew") from e
        here, there = _flat(config.model_dump(mode="json")), _flat(begun)
        other = sorted(k for k in here.keys() | there.keys() if here.get(k) != there.get(k) and k != "output")
        if other:
            said = ", ".join(f"{key}: {there.get(key)} (now {here.get(key)})" for key in other[:3])
            why = f"the run was begun with other settings, {said}{', ...' * (len(other) > 3)}"
            raise ConfigError(path, why, "resume it with its own settings, or add --overwrite to begin anew")

    def begin(self, config: TrainConfig, runs: Mapping[str, Split], features: Mapping[str, str]) -> None:
        """Write what the run is: settings, splits, and the name of each section's features, which tells of its image.

        Raises
        ------
        ConfigError
            If a run was begun here with other data.
        """
        same = [a for a in runs for b in runs if a < b and self.of(a) == self.of(b)]
        if same:
            why = f"the folder of {same[0]} would be that of another fold, too"
            raise ConfigError(self.root, why, "give patients or sections names that differ in letters or digits")
        if not is_first_process():
            return
        self.root.mkdir(parents=True, exist_ok=True)
        splits = {name: split.model_dump() | {"sha256": split.sha256} for name, split in runs.items()}
        text = json.dumps(splits | {"features": dict(features)}, indent=1)
        path = self.root / SPLIT
        if path.exists() and path.read_text(encoding="utf-8") != text:
            why = "the run was begun with other data, or another split of them"
            raise ConfigError(path, why, "restore the data, or add --overwrite to begin anew")
        settings = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        for target, content in ((path, text), (self.root / CONFIG, settings)):
            with beside(target) as temporary:
                temporary.write_text(content, encoding="utf-8")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Say how to go on if the work is interrupted, and raise OutputError if it cannot be written."""
        try:
            yield
        except KeyboardInterrupt:
            logger.info("%s holds what was done; go on with --resume", self.root)
            raise
        except OSError as e:
            if e.errno not in UNWRITABLE:
                raise
            why = f"it cannot be written to ({e.strerror})"
            raise OutputError(e.filename or self.root, why, f"free space, or {ELSEWHERE}") from e

    @contextmanager
    def log(self, name: str = LOG) -> Iterator[Callable[[], None]]:
        """Hold genar's messages until what is yielded is called, then write them, and those that follow, to a log."""
        held = MemoryHandler(capacity=100_000, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
        level = logger.level

        def begin() -> None:
            if is_first_process():
                file = logging.FileHandler(self.root / name, encoding="utf-8")
                file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
                held.setTarget(file)
                held.flushLevel = logging.NOTSET
                held.flush()

        logger.addHandler(held)
        logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        try:
            yield begin
        finally:
            logger.removeHandler(held)
            logger.setLevel(level)
            target = held.target
            held.close()
            if target is not None:
                target.close()


def is_first_process() -> bool:
    """Tell whether this is the process that writes: the only one, or the first of those that train together."""
    return int(getattr(rank_zero_only, "rank", 0)) == 0


def _flat(tree: object, prefix: str = "") -> dict[str, object]:
    """Return the settings by dotted name."""
    if not isinstance(tree, dict):
        return {prefix: tree}
    found: dict[str, object] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found
