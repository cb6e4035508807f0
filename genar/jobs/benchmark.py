"""What a benchmark found: means over sections and seeds, how far they may be trusted, and GenAR's lead."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from genar.jobs.evaluation import ENDS, GENAR, Evaluation
from genar.metrics.bootstrap import over_sections

COMPARED = ("PCC-10", "PCC-50", "PCC-200", "PCC", "MSE")
TABLED = (*COMPARED, "Spearman", "NLL")


@dataclass(frozen=True)
class Benchmark:
    """What was found.

    Parameters
    ----------
    scores
        A row a section, method and seed: ``section``, ``method``, ``seed``, and the figures of
        :func:`genar.metrics.score`.
    genes
        A row a section, method, seed and gene: these, ``gene``, and the columns of :func:`genar.metrics.by_gene`.
    warnings
        What a reader of the figures should know.
    """

    scores: pd.DataFrame
    genes: pd.DataFrame
    warnings: tuple[str, ...] = ()

    @property
    def averaged(self) -> pd.DataFrame:
        """The mean over seeds: a row a section and method."""
        columns = ["section", "method"]
        mean: pd.DataFrame = self.scores.drop(columns="seed").groupby(columns, sort=False).mean().reset_index()
        return mean

    def means(self) -> pd.DataFrame:
        """Return the mean of each figure over seeds and sections, a row a method."""
        return self._evaluation().means()

    def intervals(self) -> pd.DataFrame:
        """Return 95 % intervals of the means, over sections, of the seeds' mean: columns (figure, end)."""
        return self._evaluation().intervals()

    def seeds(self) -> pd.DataFrame:
        """Return the standard deviation over seeds of the mean over sections, a row a method; NaN of a single seed."""
        of_seed = self.scores.drop(columns="section").groupby(["method", "seed"], sort=False).mean()
        return of_seed.groupby("method", sort=False).std(ddof=1)

    def differences(self) -> pd.DataFrame:
        """Return GenAR's mean less that of each other method, section by section, with 95 % intervals over these.

        Returns
        -------
        A row a method; columns (figure, ``mean``, ``low`` or ``high``), of those of :data:`COMPARED` that there are.
        Empty without GenAR.
        """
        table = self.averaged.set_index(["section", "method"])
        shown = figures(table, COMPARED)
        rows: dict[str, dict[tuple[str, str], float]] = {}
        methods = list(table.index.unique("method"))
        for method in methods if GENAR in methods else []:
            if method == GENAR:
                continue
            lead = pd.DataFrame(table.xs(GENAR, level="method") - table.xs(method, level="method"))
            rows[method] = {}
            for name in shown:
                ends = zip(ENDS, over_sections(lead[name]), strict=True)
                rows[method] |= {(name, "mean"): float(np.mean(lead[name]))} | {(name, end): v for end, v in ends}
        return pd.DataFrame(rows).T

    def _evaluation(self) -> Evaluation:
        return Evaluation(GENAR, self.averaged, self.genes, self.warnings)


def figures(table: pd.DataFrame, names: tuple[str, ...] = TABLED) -> list[str]:
    """Return those of ``names`` that a table has."""
    return [name for name in names if name in table]
