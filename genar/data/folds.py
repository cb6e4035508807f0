"""Inner folds, by which what cannot be fitted is chosen on training spots alone."""

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from genar.errors import DataError

FOLDS = 5  # of the training sections, or of the spots of a single one

Rows = NDArray[np.int64]


def inner_folds(section: NDArray[np.generic]) -> list[tuple[Rows, Rows]]:
    """Split training spots: each section left out, or a fifth of them where they are many.

    Parameters
    ----------
    section
        The section of each spot, [N]. Of a single one a fifth of the spots is left out at a time.

    Returns
    -------
    Rows of the spots to fit and of those left out, int64 each.

    Raises
    ------
    DataError
        If there is but one spot.
    """
    if len(section) < 2:
        raise DataError("the training spots", f"there are {len(section)}", "give two at least, or all that there are")
    sections = len(np.unique(section))
    groups = section if sections > 1 else np.arange(len(section))
    few = 1 < sections <= FOLDS
    splitter = LeaveOneGroupOut() if few else GroupKFold(min(FOLDS, sections if sections > 1 else len(section)))
    return list(splitter.split(groups, groups=groups))
