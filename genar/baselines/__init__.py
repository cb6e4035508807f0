"""What a prediction has to beat: every baseline is one function of the same shape."""

from collections.abc import Callable, Sequence

from genar.baselines.hest import hest_bench_ridge
from genar.baselines.mean import gene_mean
from genar.baselines.mlp import mlp_regression
from genar.baselines.nb import nb_regression
from genar.baselines.neighbours import nearest_spots
from genar.baselines.ridge import tuned_ridge
from genar.data.spots import SpotTable
from genar.metrics import Prediction

__all__ = ["BASELINES", "Baseline", "Prediction"]

Baseline = Callable[[SpotTable, Sequence[SpotTable], int], list[Prediction]]
"""Of the training spots of all training sections, a table a test section, and a seed: a prediction a test section."""

BASELINES: dict[str, Baseline] = {
    "gene mean": gene_mean,
    "k-nearest spots": nearest_spots,
    "HEST-Bench ridge": hest_bench_ridge,
    "ridge": tuned_ridge,
    "MLP": mlp_regression,
    "NB regression": nb_regression,
}
"""By the names that tables use."""
