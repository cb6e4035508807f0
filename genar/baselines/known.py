"""Training spots as a regression takes them, all in memory."""

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genar import metrics
from genar.data.spots import SpotTable, filled

logger: logging.Logger = logging.getLogger("genar")

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
        rows = table.sample(MOST_FITTED, seed)
        if len(rows) < len(table):
            logger.info("the baseline is fitted to %s of %s training spots", f"{len(rows):,}", f"{len(table):,}")
        section = table.section[rows]
        logs = filled(metrics.log_counts(table.counts[rows]), table.measured[section])
        return cls(table.seen(rows), logs, section)


def features_of(table: SpotTable) -> NDArray[np.float32]:
    """Return the features of a table's spots, float32 [N, D], in memory."""
    return table.seen(np.arange(len(table)))
