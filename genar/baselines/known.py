"""Training spots as a regression takes them, all in memory."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genar import metrics
from genar.data.spots import SpotTable

logger = logging.getLogger("genar")

MOST_FITTED = 50_000  # training spots of a baseline that holds them in memory


@dataclass(frozen=True)
class Known:
    """Training spots, N of S sections.

    Parameters
    ----------
    features
        [N, D].
    logs
        log2(count + 1), float64 [N, G].
    section
        The section of each spot, [N].
    """

    features: NDArray[np.floating]
    logs: NDArray[np.float64]
    section: NDArray[np.generic]

    @classmethod
    def of(cls, table: SpotTable, seed: int) -> "Known":
        """Take the spots of a table, or :data:`MOST_FITTED` of very many; the seed draws them.

        What a section did not measure has its gene's mean over the spots that measured it, 0 where none did.
        """
        rows = np.arange(len(table))
        if len(rows) > MOST_FITTED:
            logger.info("the baseline is fitted to %s of %s training spots", f"{MOST_FITTED:,}", f"{len(rows):,}")
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_FITTED, replace=False))
        section = table.section[rows]
        logs = metrics.log_counts(table.counts[rows])
        seen = table.measured[section]
        mean = (logs * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        return cls(table.batch(rows)["features"].numpy(), np.where(seen, logs, mean), section)


def features_of(table: SpotTable) -> NDArray[np.float32]:
    """Return the features of a table's spots, float32 [N, D], in memory."""
    return np.concatenate([np.asarray(features, dtype=np.float32) for features in table.features])
