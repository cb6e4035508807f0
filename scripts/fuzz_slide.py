"""Damaged slides through ``genar predict``: each must be predicted, or refused with one clear line.

Every case is a small slide (of its own making, or given) that was truncated, bit-flipped or had its header overwritten,
and runs in a process of its own under limits of memory and time. A hang, a traceback, an internal error, a crash of a
decoder, more on stdout than the result's line, and a partial output are failures: they are kept with ``--keep``, and
the status is 1. ``python scripts/fuzz_slide.py --n 300 --seeds shared/data/wsi/*.dcm``
"""

import argparse
import collections
import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", GENAR_RUNTIME="torch", MPLBACKEND="agg")  # a fork must find no threads

from mutate import make_seeds, mutate

OPTIONS = "--spots grid --pitch 120 --device cpu --batch-size 8".split()
UNDAMAGED = "undamaged"
SEEDS = "seeds"  # the folder of the slides that are made here
PREDICTED, REFUSED, MEMORY = "predicted", "refused", "out of memory, said so"
FINE = (PREDICTED, REFUSED, MEMORY)


@dataclass
class Case:
    """A damaged slide, and the process that predicts it."""

    number: int
    seed: Path
    folder: Path
    told: str
    words: list[str]
    pid: int = 0
    began: float = 0.0

    @property
    def slide(self) -> Path:
        """The damaged file."""
        return self.folder / self.seed.name


def main() -> int:
    """Run the cases and print what came of them."""
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        seeds = gather(Path(scratch), options.seeds)
        warm()
        numbers = range(options.n + len(seeds))
        chosen = numbers if options.only is None else options.only
        cases = [prepare(number, seeds, Path(scratch), options) for number in chosen]
        verdicts = run(cases, options)
        tables(cases, verdicts)
        failed = [case for case in cases if verdicts[case.number][0] not in FINE]
        for case in failed if options.keep else []:
            shutil.copytree(case.folder, options.keep / str(case.number), dirs_exist_ok=True)
    return int(bool(failed))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--n", type=int, default=300, help="damaged slides, beside one undamaged of each kind (300)")
    add("--seed", type=int, default=0, help="seed (0)")
    add("--seeds", type=Path, nargs="*", default=[], metavar="SLIDE", help="more slides to damage")
    add("--memory", type=float, default=4.0, metavar="GB", help="memory of a case, above that of the program (4)")
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds a case may take (60)")
    add("--jobs", type=int, default=os.cpu_count(), metavar="N", help="cases at once")
    add("--only", type=int, nargs="*", metavar="N", help="run these of the n cases alone")
    add("--list", action="store_true", help="print every case")
    add("--keep", type=Path, metavar="DIR", help="where cases that fail are kept")
    return parser.parse_args()


def gather(scratch: Path, given: list[Path]) -> list[Path]:
    """Make the small slides, in a process of its own since zarr starts threads, and add those given."""
    folder = scratch / SEEDS
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        make_seeds(folder)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("the slides to damage could not be written")
    return sorted(folder.iterdir()) + sorted(given)


def warm() -> None:
    """Import what a prediction needs, so that each case starts at once."""
    import torch

    import genar.jobs.predict_file
    import genar.pl.section
    import genar.write.anndata  # noqa: F401
    from genar.encoders.registry import create
    from genar.store import load

    torch.set_num_threads(1)
    create(load("her2st-mini").info.encoder)


def prepare(number: int, seeds: list[Path], scratch: Path, options: argparse.Namespace) -> Case:
    """Damage a slide, the same way for the same number and seed; the cases from ``--n`` on are undamaged."""
    rng = random.Random(f"{options.seed}-{number}")
    folder = scratch / str(number)
    folder.mkdir()
    if number >= options.n:
        seed = seeds[number - options.n]
        (folder / seed.name).symlink_to(seed.resolve())
        return Case(number, seed, folder, UNDAMAGED, [])
    seed = seeds[number % len(seeds)]
    told = mutate(seed, folder / seed.name, rng)
    words = ["--mpp", "0.5"] if rng.random() < 0.7 else []
    words += ["--tissue", "none"] if rng.random() < 0.5 else []
    return Case(number, seed, folder, told, words)


def run(cases: list[Case], options: argparse.Namespace) -> dict[int, tuple[str, str]]:
    """Run the cases, some at once, and judge each."""

    def say(case: Case, verdict: str, detail: str) -> None:
        verdicts[case.number] = verdict, detail
        if options.list or verdict not in FINE:
            print(f"{case.number} {case.seed.name}, {case.told}: {verdict}: {detail}", flush=True)

    waiting, running, verdicts = collections.deque(cases), dict[int, Case](), dict[int, tuple[str, str]]()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            case = waiting.popleft()
            case.began, case.pid = time.monotonic(), start(case, options.memory)
            running[case.pid] = case
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            case = running.pop(pid)
            say(case, *judge(case, os.waitstatus_to_exitcode(status)))
        for case in [c for c in running.values() if time.monotonic() - c.began > options.timeout]:
            os.kill(case.pid, signal.SIGABRT)  # on which it prints where it is
            time.sleep(0.5)
            os.kill(case.pid, signal.SIGKILL)
            os.waitpid(running.pop(case.pid).pid, 0)
            say(case, "hang", f"stopped after {options.timeout:g} s")
        time.sleep(0.01)
    return verdicts


def start(case: Case, memory: float) -> int:
    """Predict in a fork; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(case.folder / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        faulthandler.enable()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + int(memory * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from genar.cli.app import main

        main(["predict", str(case.slide), "-o", str(case.folder / "out"), *OPTIONS, *case.words])
    except SystemExit as e:
        status = int(e.code or 0)
    except BaseException:  # noqa: BLE001 - nothing may return from a fork
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def judge(case: Case, status: int) -> tuple[str, str]:
    """Return the verdict on a case that has ended, and its detail."""
    out, err = (case.folder / name for name in ("stdout", "stderr"))
    stdout, stderr = (path.read_text(errors="replace") if path.exists() else "" for path in (out, err))
    lines = [line for line in stderr.splitlines() if line.startswith("genar:")]
    errors = [line for line in lines if "error:" in line]
    last = (errors or lines or stderr.splitlines() or [""])[-1]
    written = sorted(path.name for path in (case.folder / "out").rglob("*")) if (case.folder / "out").exists() else []
    if status < 0:
        return f"killed by {signal.Signals(-status).name}", last
    if "Traceback" in stderr:
        return "traceback", last
    if status == 0:
        stem = case.slide.stem
        complete = written == [f"{stem}.h5ad", f"{stem}.png"] and stdout.count("\n") == 1 and not errors
        return (PREDICTED if complete else "partial output"), f"{written} {stdout[:100]!r}"
    if written:
        return "partial output", f"{written}, status {status}"
    if stdout:
        return "stdout", stdout[:100]
    if len(errors) == 1 and errors[0].startswith("genar: error: out of memory"):
        return MEMORY, last
    if case.told == UNDAMAGED and case.slide.resolve().parent.name == SEEDS:
        return "refused though undamaged", last
    if status == 2 and len(errors) == 1 and errors[0].startswith("genar: error: ") and ";" in errors[0]:
        return REFUSED, last
    return f"status {status}", last


def tables(cases: list[Case], verdicts: dict[int, tuple[str, str]]) -> None:
    """Print how many of each kind of slide came to which end, and the reasons of refusals."""
    ends = sorted({verdict for verdict, _ in verdicts.values()}, key=lambda v: (v not in FINE, v))
    print("| slide | " + " | ".join(ends) + " |\n|---" + "|---" * len(ends) + "|")
    for name in dict.fromkeys(case.seed.name for case in cases):
        of = [verdicts[case.number][0] for case in cases if case.seed.name == name]
        print(f"| {name} | " + " | ".join(str(of.count(end)) for end in ends) + " |")
    totals = [verdict for verdict, _ in verdicts.values()]
    print(f"| all {len(cases)} | " + " | ".join(str(totals.count(end)) for end in ends) + " |")


if __name__ == "__main__":
    sys.exit(main())
