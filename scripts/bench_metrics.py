"""Seconds and memory that judging a prediction takes: synthetic counts, all figures but those of distributions.

``python scripts/bench_metrics.py --spots 100000 --genes 2000``
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

from genar import metrics
from genar.device import cores
from genar.metrics import bootstrap, spatial

BLOCK = 50  # genes that are made at once


def made(spots: int, genes: int) -> tuple[metrics.Prediction, np.ndarray, np.ndarray]:
    """Make a prediction, float32, the counts it is of, int32, and the spots' places on a hexagonal lattice."""
    rng = np.random.default_rng(0)
    log, counts = np.empty((spots, genes), dtype=np.float32), np.empty((spots, genes), dtype=np.float32)
    measured = np.empty((spots, genes), dtype=np.int32)
    width = int(np.ceil(spots**0.5))
    row, column = np.divmod(np.arange(spots), width)
    xy = np.stack([column + row % 2 / 2, row * 3**0.5 / 2], axis=1)
    for first in range(0, genes, BLOCK):
        size = min(BLOCK, genes - first)
        wave = np.sin(xy @ rng.normal(0, 0.05, (2, size)) + rng.uniform(0, 6, size))
        rate = np.exp2(rng.normal(1, 2, size) + wave).clip(max=2000)
        block = slice(first, first + size)
        counts[:, block] = rate * np.exp2(rng.normal(0, 0.3, rate.shape))
        measured[:, block] = rng.poisson(rate * rng.gamma(4, 1 / 4, rate.shape))
        log[:, block] = np.log2(counts[:, block] + 1)
    return metrics.Prediction(log, counts), measured, xy


def timed(name: str, step: Callable[[], object]) -> object:
    """Run a step, and print what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = step()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"| {name} | {time.perf_counter() - wall:.1f} | {time.process_time() - cpu:.1f} | {peak:.2f} |", flush=True)
    return result


def main() -> None:
    """Print a table, a step a line; the peak is that of all steps so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--spots", type=int, default=100_000)
    add("--genes", type=int, default=2000)
    add("--threads", type=int, default=cores())
    add("--draws", type=int, default=20, help="of the bootstrap, 0 for none (20)")
    o = parser.parse_args()
    print("| step | s | CPU s | peak GB |\n|---|---|---|---|")
    prediction, measured, xy = timed("make", lambda: made(o.spots, o.genes))
    near = timed("neighbours", lambda: spatial.adjacent(xy))
    training = timed("training", lambda: metrics.Training.of(measured))
    given = {"training": training, "neighbours": near, "threads": o.threads}
    table = timed("by_gene", lambda: metrics.by_gene(prediction, measured, **given))
    found = timed("score", lambda: metrics.score(prediction, measured, table=table))
    if o.draws:
        logs = np.log2(measured.astype(np.float32) + 1)
        section = np.zeros(o.spots, dtype=np.int8)
        timed(f"bootstrap, {o.draws} draws", lambda: bootstrap.intervals(prediction.log, logs, section, o.draws))
    print("\n" + ", ".join(f"{name} {value:.3g}" for name, value in found.items()))


if __name__ == "__main__":
    main()
