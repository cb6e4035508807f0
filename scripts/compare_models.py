"""Accuracy of forms of the model on held-out sections: a row a form and section, then a table of their means.

Each form is trained on the other sections of a configuration with some of its settings changed, and judged on the
section left out. Rows are appended to a CSV as they come, and those that it holds are not computed again.
``python scripts/compare_models.py configs/her2st-mini.yaml --output runs/forms.csv``
"""

import argparse
import logging
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from genar import metrics, tl
from genar.cli.config import load, overrides
from genar.data.spots import counts_of, library_size
from genar.jobs.config import TrainConfig
from genar.jobs.judge import compared
from genar.jobs.train import Data, train_one
from genar.jobs.train import load as load_data
from genar.metrics.errors import mse

DEFAULT: dict[str, object] = {
    "model.gene_layers": None,
    "model.gene_attention": "coarser",
    "model.neighbours": 0,
    "model.position": "none",
    "model.library_size": False,
    "model.distribution": "gaussian",
    "trainer.thin_to": 1.0,
}
FORMS: dict[str, dict[str, object]] = {
    "default": {},
    "whole": {"model.gene_layers": "all", "model.gene_attention": "scale"},
    "depth": {"model.library_size": True},
    "depth, thinned": {"model.library_size": True, "trainer.thin_to": 0.2},
    "8 neighbours": {"model.neighbours": 8},
    "position published": {"model.position": "published"},
    "position relative_um": {"model.position": "relative_um"},
    "cross_entropy": {"model.distribution": "cross_entropy"},
    "ordinal": {"model.distribution": "ordinal"},
    "nb": {"model.distribution": "nb"},
    "cumulative": {"model.decoder": "cumulative", "model.handed_on": "greedy"},
}
SHALLOW = 0.25


def changed(config: TrainConfig, settings: dict[str, object]) -> TrainConfig:
    """Return the configuration with some ``section.key`` settings changed."""
    tree = config.model_dump()
    for name, value in (DEFAULT | settings).items():
        section, key = name.split(".")
        tree[section][key] = tree["model"]["layers"] if value == "all" else value
    return TrainConfig.model_validate(tree)


def main() -> None:
    """Train and judge what the CSV lacks, then print the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("config", type=Path)
    add("--output", type=Path, required=True, help="CSV of the rows")
    add("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    add("--sections", nargs="+", help="sections to hold out (all)")
    add("--threads", type=int, help="threads of torch")
    options, settings = parser.parse_known_args()  # the rest are settings, as of genar train
    if options.threads:
        torch.set_num_threads(options.threads)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    config = load(options.config, TrainConfig, overrides(settings))
    data = load_data(config)
    for form in options.forms:
        for name in options.sections or [run for run, split in data.runs.items() if split.test]:
            done = pd.read_csv(options.output) if options.output.exists() else pd.DataFrame({"form": [], "section": []})
            if ((done["form"] == form) & (done["section"] == name)).any():
                continue
            row = {"form": form, "section": name} | measure(changed(config, FORMS[form]), data, name)
            print(row, flush=True)
            pd.DataFrame([row]).to_csv(options.output, mode="a", header=not options.output.exists(), index=False)
    rows = pd.read_csv(options.output)
    means = rows.drop(columns="section").groupby("form", sort=False).mean()
    print("| form | " + " | ".join(means.columns) + " |")
    print("|---" * (len(means.columns) + 1) + "|")
    for form, values in means.iterrows():
        print(f"| {form} | " + " | ".join(f"{v:.3f}" for v in values) + " |")


def measure(config: TrainConfig, data: Data, run: str) -> dict[str, float]:
    """Train without a section and judge on it: as measured, and with its counts thinned to a quarter.

    The model is told the section's own depth, or none (the median of its training sections), where it takes it.
    """
    split = data.runs[run]
    (test,) = data.of(split.test)
    start = time.perf_counter()
    model = train_one(config, data, run, Path("runs") / "forms" / f"{run}-{time.time_ns()}")
    seconds = time.perf_counter() - start
    table = compared(model, [], {run: test}, [])[0].short()
    found = table.drop(columns=["section", "method"]).iloc[0].to_dict()
    genes = model.panel.index
    measured = counts_of(test, genes)
    thin = np.random.default_rng(0).binomial(measured, SHALLOW)
    depth = library_size(test)
    takes = config.model.library_size
    for name, truth, share in (("MSE, depth told", measured, 1.0), ("MSE, 1/4 depth told", thin, SHALLOW)):
        predicted = tl.predict(test, model, depth=share * depth if takes else None).X.toarray()
        found[name] = float(mse(metrics.log_counts(predicted), metrics.log_counts(truth)).mean())
    return found | {"train s": seconds}


if __name__ == "__main__":
    main()
