"""What a baseline says of the spots of a section."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Prediction:
    """A prediction of N spots and G genes on two scales.

    Parameters
    ----------
    log
        Estimate of log2(count + 1), float64 [N, G].
    counts
        Estimate of the count, float64 [N, G].
    spread
        Standard deviation of the predicted distribution, [N, G]; None where the method has none.
    """

    log: NDArray[np.float64]
    counts: NDArray[np.float64]
    spread: NDArray[np.float64] | None = None
