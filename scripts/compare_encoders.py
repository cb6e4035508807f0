"""Compare encoders on her2st: how well ridge regression on their features predicts sections left out, and how fast.

Every section of C2 to C6 is predicted from the other four, by PCA and ridge regression on the features of its spots'
tiles: log2(count + 1) of the 200 genes with the highest mean on the four. The five sections are neighbours in one
tumour, so that the figures rank encoders, and say nothing of a new patient.

    python scripts/compare_encoders.py DATA --cache features efficientnet_lite0 mobilenetv2 uni=weights/uni
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from genar import metrics, read
from genar.baselines.known import Known
from genar.baselines.ridge import fit_pca_ridge
from genar.encoders.cache import features
from genar.encoders.registry import Encoder, create, spec_of

SECTIONS = ("C2", "C3", "C4", "C5", "C6")
MPP = 0.687
GENES = 200
FIGURES = ("PCC-10", "PCC-50", "PCC-200", "MSE")
TIMED, TURNS = 32, 8  # tiles, and how often


def main() -> None:
    """Print a table, an encoder a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of her2st")
    parser.add_argument("encoders", nargs="+", help="names of encoders, or NAME=WEIGHTS")
    parser.add_argument("--cache", type=Path, required=True, help="a folder to keep features in")
    parser.add_argument("--tile-um", type=float, default=154.0, help="side of a tile in µm (154)")
    args = parser.parse_args()
    sections = [read.st(args.data, name, mpp=MPP) for name in SECTIONS]
    shared = sorted(set.intersection(*(set(section.var_names) for section in sections)))
    counts = [section[:, shared].X.toarray() for section in sections]
    given = {name: Path(path) if path else None for name, _, path in (given.partition("=") for given in args.encoders)}
    figures = {}
    for name, weights in given.items():
        found = [features(s, encoder=name, weights=weights, tile_um=args.tile_um, cache=args.cache) for s in sections]
        figures[name] = leave_one_out([np.asarray(f.plain) for f in found], counts)
        print(name, figures[name], file=sys.stderr, flush=True)
    speeds = speed({name: create(name, weights) for name, weights in given.items()})
    print(f"| encoder | dimension | tiles/s | {' | '.join(FIGURES)} |\n|---|---|---|---|---|---|---|")
    for name, values in figures.items():
        cells = [spec_of(name).dim, f"{speeds[name]:.0f}", *(f"{value:.3f}" for value in values)]
        print(f"| {name} | {' | '.join(map(str, cells))} |")


def leave_one_out(seen: list[NDArray[np.float32]], counts: list[NDArray[np.int32]]) -> list[float]:
    """Return PCC of the best 10, 50 and 200 genes and the MSE, the mean of five sections left out."""
    found = []
    for left in range(len(seen)):
        rest = [i for i in range(len(seen)) if i != left]
        known = np.concatenate([counts[i] for i in rest])
        genes = np.argsort(-known.mean(axis=0), kind="stable")[:GENES]
        section = np.repeat(rest, [len(seen[i]) for i in rest])
        spots = Known(np.concatenate([seen[i] for i in rest]), metrics.log_counts(known[:, genes]), section)
        (predicted,) = fit_pca_ridge(spots, [seen[left]])
        figures = metrics.score(metrics.Prediction.of_log(predicted), counts[left][:, genes])
        found.append([figures[name] for name in FIGURES])
    return [float(value) for value in np.mean(found, axis=0)]


def speed(encoders: dict[str, Encoder]) -> dict[str, float]:
    """Return tiles a second on the CPU: the best of turns that they take, so that a busy machine slows all alike."""
    best = dict.fromkeys(encoders, float("inf"))
    with torch.inference_mode():
        for _ in range(TURNS):
            for name, encoder in encoders.items():
                px = encoder.spec.input_px
                tiles = torch.zeros((TIMED, 3, px, px), dtype=torch.uint8)
                start = time.perf_counter()
                encoder(tiles)
                best[name] = min(best[name], time.perf_counter() - start)
    return {name: TIMED / seconds for name, seconds in best.items()}


if __name__ == "__main__":
    main()
