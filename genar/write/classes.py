"""A column of a result's spots as classes with colours, as QuPath has them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from genar import keys
from genar.errors import ConfigError
from genar.ood import FAR
from genar.pl.colours import BLUE, ORANGE, PALETTE

LIKE, UNLIKE = "like the training tissue", "unlike the training tissue"
MOST = 100  # classes


@dataclass(frozen=True)
class Classes:
    """The class of every spot.

    Parameters
    ----------
    codes
        Its number, -1 for none, int [N].
    names
        Names of the classes.
    colours
        Their colours, RGB from 0 to 255.
    """

    codes: NDArray[np.integer]
    names: list[str]
    colours: list[list[int]]

    def of(self, row: int) -> dict[str, object] | None:
        """Return a spot's classification as QuPath writes it; None for none."""
        code = int(self.codes[row])
        return None if code < 0 else {"name": self.names[code], "color": self.colours[code]}


def classes_of(adata: AnnData, column: str) -> Classes:
    """Return the classes that a column of ``obs`` tells: categories, text, whole numbers or yes and no, or ``ood``.

    Colours are scanpy's, ``uns["<column>_colors"]``, where it has drawn the column.

    Raises
    ------
    ConfigError
        If there is no such column, it holds measurements, or more than 100 classes.
    """
    if column not in adata.obs:
        known = ", ".join(map(str, adata.obs.columns))
        raise ConfigError("--classify", f"there is no column {column!r} in obs", f"give one of: {known}")
    found = adata.obs[column]
    if column == keys.OOD:
        percentile = found.to_numpy(np.float64, na_value=np.nan)
        codes = np.where(np.isnan(percentile), -1, (percentile >= FAR).astype(np.int64))
        return Classes(codes, [LIKE, UNLIKE], [_rgb(BLUE), _rgb(ORANGE)])
    if pd.api.types.is_float_dtype(found.dtype):
        why = f"the column {column!r} holds measurements, not classes"
        raise ConfigError("--classify", why, "give a column of categories, such as clusters")
    category = found.astype("category").cat
    names = [f"{column} {value}" if len(str(value)) < 3 else str(value) for value in category.categories]
    if pd.api.types.is_bool_dtype(category.categories.dtype):
        names = [column if value else f"not {column}" for value in category.categories]
    if len(names) > MOST:
        raise ConfigError("--classify", f"the column {column!r} has {len(names)} values", f"give one of up to {MOST}")
    return Classes(category.codes.to_numpy(), names, _colours(adata, column, len(names)))


def _colours(adata: AnnData, column: str, number: int) -> list[list[int]]:
    """Choose a colour a class."""
    drawn = [str(colour) for colour in adata.uns.get(f"{column}_colors", ())]
    if len(drawn) >= number:
        return [_rgb(colour) for colour in drawn[:number]]
    few = number <= len(PALETTE)
    palette = list(PALETTE) if few else colormaps["tab20"].colors  # type: ignore[attr-defined]
    return [_rgb(palette[i % len(palette)]) for i in range(number)]


def _rgb(colour: str | tuple[float, float, float]) -> list[int]:
    return [round(255 * part) for part in to_rgb(colour)]
