"""The files of a benchmark: tables, a summary, a picture."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from genar.jobs.benchmark import COMPARED, Benchmark, figures
from genar.jobs.evaluation import ENDS, GENAR, GENES, PICTURE, SCORES, by_method, number
from genar.pl.scores import scores as draw_scores
from genar.write.atomic import atomic

SUMMARY, TABLE = "bench.json", "table.md"
DIGITS = 3


def write(result: Benchmark, folder: Path) -> None:
    """Write what was found, all files or none, in place of those of an earlier call."""
    targets = [folder / name for name in (SCORES, GENES, SUMMARY, TABLE, PICTURE)]
    with atomic(*targets, overwrite=True) as (scores, genes, summary, table, picture):
        result.scores.to_csv(scores, index=False)
        result.genes.to_csv(genes, index=False)
        summary.write_text(json.dumps(summarised(result) | {"warnings": list(result.warnings)}, indent=1), "utf-8")
        table.write_text(report(result), encoding="utf-8")
        draw_scores(result.averaged, figures(result.averaged, (*COMPARED, "MAE"))).savefig(picture)


def summarised(result: Benchmark) -> dict[str, object]:
    """Return what was found as JSON holds it; undefined figures are null."""
    means, intervals, sd, lead = result.means(), result.intervals(), result.seeds(), result.differences()
    methods = by_method(means, intervals)
    for method, figures_of in methods.items():
        for name, said in figures_of.items():
            said["sd_seeds"] = number(sd[name][method])
    differences = {
        method: {
            name: {part: number(lead[name, part][method]) for part in ("mean", *ENDS)}
            for name in lead.columns.unique(0)
        }
        for method in lead.index
    }
    seeds = {method: [int(s) for s in own.unique()] for method, own in result.scores.groupby("method")["seed"]}
    sections = [str(name) for name in result.scores["section"].unique()]
    return {"sections": sections, "seeds": seeds, "methods": methods, f"{GENAR} less": differences}


def report(result: Benchmark, what: str = "section") -> str:
    """Return a Markdown table of the methods, and one of GenAR's lead."""
    parts = [table(result), caption(result, what)]
    lead = result.differences()
    if len(lead):
        ends = [[lead[name, part] for part in ("mean", *ENDS)] for name in _of(lead)]
        rows = [[m, *(_cell(mean[m], low[m], high[m], "+") for mean, low, high in ends)] for m in lead.index]
        parts += [f"{GENAR}'s lead, {what} by {what}:", markdown([f"{GENAR} less", *_of(lead)], rows)]
    return "\n\n".join([*parts, *result.warnings]) + "\n"


def table(result: Benchmark) -> str:
    """Return the Markdown table of the methods."""
    means, intervals = result.means(), result.intervals()
    names = figures(means)
    low, high = ENDS
    rows = [
        [str(m), *(_cell(means[n][m], intervals[n, low][m], intervals[n, high][m]) for n in names)] for m in means.index
    ]
    return markdown(["method", *names], rows)


def caption(result: Benchmark, what: str) -> str:
    """Say what the figures are of."""
    counted = [(result.scores["section"].nunique(), what), (result.scores["seed"].nunique(), "seed")]
    said = " and ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counted)
    return f"Mean of {said}, with a 95 % bootstrap interval over {what}s."


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Lay out a table in Markdown that is legible as it is."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)) + " |" for row in lines)


def _of(lead: pd.DataFrame) -> list[str]:
    return [str(name) for name in lead.columns.unique(0)]


def _cell(mean: float, low: float, high: float, sign: str = "") -> str:
    """Write a mean and its interval."""
    if not np.isfinite(mean):
        return "-"
    return f"{mean:{sign}.{DIGITS}f} [{low:{sign}.{DIGITS}f}, {high:{sign}.{DIGITS}f}]"
