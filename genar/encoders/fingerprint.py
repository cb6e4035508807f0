"""A few features of one fixed picture, by which weights are told apart whatever file they come from."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genar.errors import ModelError

LENGTH = 16
TOLERANCE = 1e-2  # of the largest feature; devices and runtimes differ by less, other weights by more


def picture(px: int) -> Tensor:
    """Return the fixed picture, uint8 [1, 3, px, px]: waves of three colours, computed in whole numbers."""
    y, x = np.mgrid[:px, :px].astype(np.int64)
    colours = [x * x * (c + 1) + 3 * y * y + 5 * x * y for c in range(3)]
    return torch.from_numpy((np.stack(colours) // 64 % 256).astype(np.uint8))[None]


def check(found: NDArray[np.floating], expected: NDArray[np.floating] | tuple[float, ...], encoder: str) -> None:
    """Raise unless two fingerprints are of the same weights.

    Parameters
    ----------
    found
        Of the encoder that made the features, [16].
    expected
        Of the encoder that a model was trained with, [16].
    encoder
        The encoder's name.

    Raises
    ------
    ModelError
        If they differ by more than devices make them.
    """
    known = np.asarray(expected, np.float64)
    values = np.asarray(found, np.float64)
    if values.shape == known.shape and np.abs(values - known).max() <= TOLERANCE * np.abs(known).max():
        return
    why = "its features are of other weights than those that the model was trained with (their fingerprints differ)"
    raise ModelError(encoder, why, "use the weights that it was trained with; see --encoder-weights")
