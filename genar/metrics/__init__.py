"""How well predicted counts follow measured ones: every figure by which a prediction is judged.

A :class:`Prediction` is judged by :func:`score`, one row of figures, and :func:`by_gene`, a row a gene; both are made
of the modules' functions. ``metrics.distribution`` judges distributions as they are predicted, in torch.
"""

from genar.metrics.correlation import pearson, spearman, top_pcc
from genar.metrics.genes import by_gene
from genar.metrics.negative_binomial import Training
from genar.metrics.prediction import Prediction, Spread, log_counts
from genar.metrics.table import score

__all__ = [
    "Prediction",
    "Spread",
    "Training",
    "by_gene",
    "log_counts",
    "pearson",
    "score",
    "spearman",
    "top_pcc",
]
