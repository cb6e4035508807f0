"""How a page's command is run in a test: in this process, with short trainings; and which are not, and why."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from genar.cli import app
from tests.jobs.conftest import SMALL

NOT_RUN = {  # what a command begins with, as a regular expression
    r"bash scripts/(quickstart|check)\.sh": "they make environments; CI runs them",
    r"bash scripts/docs\.sh": "it builds these pages; CI runs it",
    r"docker ": "it needs a daemon",
    r"hf (auth|download) ": "the hub's program, with an account; tests/test_hub.py, tests/encoders/test_load.py",
    r"pip ": "it changes the environment; CI installs by it",
    r"source \.venv": "CI's quickstart makes and uses the environment",
    r"genar .*--encoder-weights uni": "UNI's weights are gated; tests/encoders/test_load.py loads such files",
    r"genar predict .*--features trident": "the model is one of UNI's; tests/read/test_features.py reads such files",
    r"genar predict .*--cluster slurm\.yaml": "it needs SLURM; tests/jobs/test_jobqueue.py",
    r"genar bench .*--protocol her2st": "hours on all of her2st; tests/jobs/test_bench.py",
    r"genar bench .*--protocol hest-bench": "UNI and gigabytes of data; tests/jobs/test_bench_hest.py",
    r"(srun|torchrun|genar) .*--trainer\.strategy ddp": "it needs several GPUs; tests/jobs/test_train.py",
    r"python scripts/fuzz_slide\.py": "tests/slide/test_fuzz.py runs it",
    r"python scripts/bench_tissue\.py": "minutes; tests/slide/test_disturbed_tissue.py checks what it measures",
    r"python scripts/(compare_models|compare_encoders|bench_decoder)\.py": "measurements of many minutes, on her2st",
}
SETTINGS = {k: v for k, v in SMALL.items() if k not in ("data.sections", "data.mpp")} | {
    "trainer.max_epochs": 1, "panel.method": "top_mean", "split.validation": "none", "panel.min_sections": None,
    "tiles.tile_um": 112, "data.cache": "cache",
    "split.shared_patients": [],
}  # fmt: skip
HOLDOUT = ["--split.method", "holdout", "--split.test", "[P01]"]
SHORT = {  # what is added to a command that begins so, so that it takes seconds
    "train visium": HOLDOUT,
    "train hest": HOLDOUT,
    "train configs": [],
    "bench": ["--methods", "ridge", "GenAR", "--seeds", "1"],
}
REVISION = "0" * 40  # of OWNER/NAME at the stand-in for the hub
REPLACED = {"local:4": "local:1", "OWNER/NAME@REVISION": f"OWNER/NAME@{REVISION}"}
ONCE = r"genar (train|bench|evaluate|demo|doctor)|.*--cluster"  # not again on a later page, with the same words
WRITERS = ("train", "bench", "predict", "demo")  # they refuse a folder of other settings


def not_run(words: list[str]) -> str | None:
    """Return the entry of ``NOT_RUN`` that a command is of."""
    return next((pattern for pattern in NOT_RUN if re.match(pattern, " ".join(words))), None)


class Shell:
    """What runs a page's commands, in the current folder.

    Parameters
    ----------
    done
        Commands that need not be run again; those that are run are added.
    """

    def __init__(self, done: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = done
        self.monkeypatch = monkeypatch
        self.written: set[str] = set()  # folders that hold what this page's commands made

    def run(self, words: list[str]) -> int:
        """Run a command, but for one of ``NOT_RUN`` or done, and return its status.

        Raises
        ------
        ValueError
            If it is none that is known.
        """
        text = " ".join(words)
        if not_run(words) is not None or text in self.done:
            return 0
        if re.match(ONCE, text):
            self.done.add(text)
        tool, *rest = words
        if tool == "genar":
            return self.genar([REPLACED.get(word, word) for word in rest])
        if tool == "export":
            self.monkeypatch.setenv(*rest[0].split("=", 1))
            return 0
        if tool == "printf" and words[-2] == ">":
            with Path(words[-1]).open("wb") as out:
                return subprocess.run(words[:-2], stdout=out, check=False).returncode
        msg = f"{words}: run it, or say in NOT_RUN why not"
        raise ValueError(msg)

    def genar(self, words: list[str]) -> int:
        """Run a command of genar in this process, its paths expanded as a shell does, its trainings short."""
        command, *words = (path for word in words for path in expanded(word))
        if command in WRITERS:
            self.make_room(words)
        if command in ("train", "bench"):
            settings = {f"--{name}": value for name, value in SETTINGS.items() if f"--{name}" not in words}
            text = " ".join([command, *words])
            words += [word for name, value in settings.items() for word in (name, json.dumps(value))]
            words += next(more for start, more in SHORT.items() if text.startswith(start))
        with pytest.raises(SystemExit) as left:
            app.main([command, *words])
        return int(left.value.code or 0)

    def make_room(self, words: list[str]) -> None:
        """Remove what the folder was prepared with where a command is to write."""
        for option, output in pairwise(words):
            if option in ("-o", "--output") and output not in self.written:
                shutil.rmtree(output, ignore_errors=True)
                self.written.add(output)


def expanded(word: str) -> list[str]:
    """Return the paths that a pattern matches, or the word."""
    return sorted(map(str, Path().glob(word))) if "*" in word else [word]
