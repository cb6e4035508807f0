"""What the metrics take: values of N spots and G genes."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating] | NDArray[np.integer]
FEW = 64  # spots, among which most genes vary


def constant(values: Numbers) -> NDArray[np.bool_]:
    """Return which genes have one value at all spots, bool [G], of ``values`` [N, G]."""
    flat: NDArray[np.bool_] = (values[:FEW] == values[0]).all(axis=0)
    if flat.any():
        flat[flat] = (values[:, flat] == values[0, flat]).all(axis=0)
    return flat
