"""Memory of training on many sections, and the share of an epoch that reading them takes.

Made-up sections with features on disk, memory-mapped as the cache maps them, go through what ``genar train`` does with
them: hierarchy, tables, batches, steps. Prints a table of Markdown.
``python scripts/bench_train.py configs/visium.yaml`` takes 100 sections of 5,000 spots, 200 genes, 1,536 features.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.cli.config import load
from genar.data.module import Batches
from genar.data.splits import Split
from genar.data.spots import spots_of
from genar.jobs.config import TrainConfig
from genar.jobs.fit import prepare


def section(number: int, spots: int, genes: int, dim: int, folder: Path) -> AnnData:
    """Make a section of spots with counts like Visium's, and its features on disk."""
    name, random = f"S{number}", np.random.default_rng(number)
    counts = csr_matrix(random.poisson(random.gamma(0.6, 6.0, genes), (spots, genes)).astype(np.int32))
    adata = AnnData(counts, var=pd.DataFrame(index=[f"G{i}" for i in range(genes)]))
    adata.obs[keys.LIBRARY_ID] = pd.Categorical([name] * spots)
    adata.obs[keys.TOTAL_COUNTS] = np.asarray(counts.sum(axis=1)).ravel()
    adata.obsm[keys.SPATIAL] = random.random((spots, 2)) * 2e4
    path = folder / f"{name}.npy"
    written = np.lib.format.open_memmap(path, "w+", np.float32, (spots, dim))
    written[:] = random.standard_normal((spots, dim), dtype=np.float32)
    written.flush()
    del written
    adata.obsm[keys.features("efficientnet_lite0")] = np.load(path, mmap_mode="r")
    geometry = {keys.LATTICE: "visium", keys.SPOT_UM: 55.0, keys.PITCH_UM: 100.0, keys.MPP: 0.5}
    adata.uns[keys.SPATIAL] = {name: {keys.METADATA: geometry}}
    return adata


def memory() -> dict[str, float]:
    """Return resident memory in GB: of the process itself, and of files that it maps, which the system may reclaim."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) / 1e6 for name in ("RssAnon", "RssFile", "VmHWM")}


def main() -> None:
    """Make the sections, train some steps, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("config", type=Path)
    for name, default in (("sections", 100), ("spots", 5000), ("genes", 200), ("dim", 1536), ("steps", 20)):
        add(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    config = load(options.config, TrainConfig, {"data.root": "none", "panel.n_genes": options.genes})
    with tempfile.TemporaryDirectory() as folder:
        made = range(options.sections)
        sections = [section(i, options.spots, options.genes, options.dim, Path(folder)) for i in made]
        names = [f"S{i}" for i in made]
        split = Split(train=dict.fromkeys(names, ""), patients={n: n for n in names})
        start = time.perf_counter()
        model, (table, _) = prepare(config, sections, [], sections[0].var_names, split)
        prepared = time.perf_counter() - start
        batches = Batches(table, config.trainer.batch_size, config.seed)
        draws = [draw for draw, _ in zip(batches, range(10 * options.steps), strict=False)]
        start = time.perf_counter()
        for draw in draws:
            table[draw]
        reading = (time.perf_counter() - start) / len(draws)
        network = model.network.train()
        optimizer = torch.optim.AdamW(network.parameters(), fused=True)
        start = time.perf_counter()
        for draw in draws[: options.steps]:
            batch = table[draw]
            loss = network.loss(spots_of(batch, "cpu"), batch["counts"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        step = (time.perf_counter() - start) / options.steps
        used = memory()
    print("| | |")
    print("|---|---|")
    disk = len(table) * options.dim * 4 / 1e9
    print(f"| spots x features | {len(table):,} x {options.dim:,}, {disk:.2f} GB on disk |")
    print(f"| preparing (hierarchy, means, tables) | {prepared:.1f} s |")
    print(f"| reading a batch of {config.trainer.batch_size} | {1000 * reading:.2f} ms |")
    print(f"| a training step, with reading | {1000 * step:.0f} ms |")
    print(f"| reading's share of an epoch | {100 * reading / step:.1f} % |")
    print(f"| peak resident memory | {used['VmHWM']:.2f} GB |")
    print(f"| of that at the end: own, mapped files | {used['RssAnon']:.2f} GB, {used['RssFile']:.2f} GB |")


if __name__ == "__main__":
    main()
