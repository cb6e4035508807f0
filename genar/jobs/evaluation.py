"""What an evaluation found, and its files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.figure import Figure

from genar.data.spots import counts_of
from genar.metrics import Prediction
from genar.metrics.bootstrap import over_sections
from genar.pl.heldout import genes as draw_genes
from genar.pl.scores import scores as draw_scores
from genar.slide.section import library_name
from genar.write.atomic import atomic

GENAR = "GenAR"
SCORES, GENES, SUMMARY, PICTURE = "scores.csv", "genes.csv", "evaluation.json", "scores.png"
ENDS = ("low", "high")
NAMES = ("section", "method", "gene")  # columns that hold names
SHORT = ("PCC-10", "PCC-50", "PCC-200", "PCC", "Spearman", "MSE")  # figures of a table to read at a glance


@dataclass(frozen=True)
class Evaluation:
    """What was found.

    Parameters
    ----------
    model
        Name of the model.
    scores
        A row a section and method: ``section``, ``method``, and the figures of :func:`genar.metrics.score`.
    genes
        A row a section, method and gene: ``section``, ``method``, ``gene``, and the columns of
        :func:`genar.metrics.by_gene`.
    warnings
        What a reader of the figures should know.
    spots
        Bootstrap intervals (95 %) over the spots of each section: ``section``, ``method``, ``figure``, ``low``,
        ``high``; None where none were asked for.
    """

    model: str
    scores: pd.DataFrame
    genes: pd.DataFrame
    warnings: tuple[str, ...] = ()
    spots: pd.DataFrame | None = None

    def means(self) -> pd.DataFrame:
        """Return the mean of each figure over sections, a row a method, in the order of the methods."""
        return self.scores.drop(columns="section").groupby("method", sort=False).mean()

    def intervals(self, level: float = 0.95) -> pd.DataFrame:
        """Return bootstrap intervals of the means, over sections: columns (figure, ``low`` or ``high``)."""
        rows = {}
        for method, group in self.scores.drop(columns="section").groupby("method", sort=False):
            found = {name: over_sections(values, level=level) for name, values in group.set_index("method").items()}
            rows[method] = {(name, end): v for name, pair in found.items() for end, v in zip(ENDS, pair, strict=True)}
        return pd.DataFrame(rows).T

    def short(self) -> pd.DataFrame:
        """Return ``scores`` with the figures of :data:`SHORT` alone."""
        return self.scores[["section", "method", *SHORT]]

    def correlations(self, panel: pd.Index) -> pd.DataFrame:
        """Return the correlation of GenAR's genes, those of ``panel``, on each section, [G, S].

        It is 0 where it is undefined, NaN where the gene was not measured.
        """
        own = self.genes[self.genes["method"] == GENAR].fillna({"pcc": 0.0})
        found = own.pivot(index="gene", columns="section", values="pcc")
        return found.reindex(index=panel, columns=own["section"].unique()).rename_axis(columns=None)


def write(
    result: Evaluation, sections: dict[str, AnnData], predictions: Sequence[Prediction], panel: pd.Index, folder: Path,
    *, overwrite: bool,
) -> None:  # fmt: skip
    """Write the tables and the pictures, all or none.

    Parameters
    ----------
    result
        What was found.
    sections
        The sections that were judged on, by name.
    predictions
        What the model predicted of each, of the genes of ``panel``.
    panel
        The model's genes.
    folder
        Where to write.
    overwrite
        Replace files that exist.

    Raises
    ------
    OutputError
        If a file exists, or cannot be written.
    """
    pictures = [folder / picture_of(name) for name in sections]
    targets = [folder / name for name in (SCORES, GENES, SUMMARY, PICTURE)] + pictures
    with atomic(*targets, overwrite=overwrite) as (scores, genes, summary, picture, *of_sections):
        result.scores.to_csv(scores, index=False)
        result.genes.to_csv(genes, index=False)
        summary.write_text(_json(result), encoding="utf-8")
        draw_scores(result.scores).savefig(picture, dpi=150)
        for path, (name, section), prediction in zip(of_sections, sections.items(), predictions, strict=True):
            draw(result, name, section, prediction, panel).savefig(path)


def read_back(path: Path) -> pd.DataFrame:
    """Read figures as they were written, of sections, methods and genes that may be called 007, or NA."""
    return pd.read_csv(path, float_precision="round_trip", converters=dict.fromkeys(NAMES, str))


def picture_of(section: str) -> str:
    """Return the name of the file that shows genes of a section."""
    return f"genes-{library_name(section)}.png"


def draw(result: Evaluation, name: str, section: AnnData, prediction: Prediction, panel: pd.Index) -> Figure:
    """Draw the best, median and worst of GenAR's genes on a section, of whose ``panel`` it predicted the counts."""
    own = result.genes[(result.genes["section"] == name) & (result.genes["method"] == GENAR)]
    at, shown = panel.get_indexer(pd.Index(own["gene"])), list(own["gene"])
    return draw_genes(
        counts_of(section, pd.Index(shown)), Prediction.of_log(prediction.log[:, at]).counts, shown, own["pcc"],
        title=name,
    )  # fmt: skip


def _json(result: Evaluation) -> str:
    """Return means over sections with intervals, and what is to be known of them; undefined figures are null."""
    sections = list(result.scores["section"].unique())
    said = {"model": result.model, "sections": sections, "methods": by_method(result.means(), result.intervals())}
    return json.dumps(said | {"by_section": _by_section(result), "warnings": list(result.warnings)}, indent=1)


def by_method(means: pd.DataFrame, intervals: pd.DataFrame) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return the ``mean`` of each figure with the ends of its interval, as JSON holds them, by method and name."""
    return {
        str(method): {
            str(name): {"mean": number(means[name][method])}
            | {end: number(intervals[name, end][method]) for end in ENDS}
            for name in means
        }
        for method in means.index
    }


def _by_section(result: Evaluation) -> dict[str, dict[str, dict[str, dict[str, float | None]]]]:
    """Return figures that have an interval over spots, by section, method and name."""
    found: dict[str, dict[str, dict[str, dict[str, float | None]]]] = {}
    if result.spots is None:
        return found
    scores = {(row["section"], row["method"]): row for row in result.scores.to_dict("records")}
    for row in result.spots.to_dict("records"):
        section, method, figure = row["section"], row["method"], row["figure"]
        said = {"value": scores[section, method][figure]} | {end: row[end] for end in ENDS}
        of_section = found.setdefault(section, {})
        of_section.setdefault(method, {})[figure] = {name: number(value) for name, value in said.items()}
    return found


def number(value: float) -> float | None:
    """Return a figure as JSON takes it: to six digits, null where it is undefined."""
    return float(f"{value:.6g}") if np.isfinite(value) else None
