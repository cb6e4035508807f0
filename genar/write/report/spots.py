"""What a page says of each spot."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genar import keys
from genar.write.report.pack import pack_numbers, pack_texts
from genar.write.report.section import Shown

UNLIKE = "Percentile among spots of the training tissue. Above 99, do not believe the prediction there."


class View(NamedTuple):
    """A column of ``obs`` that can be shown: what it is called, its range if that is fixed, and what to know of it."""

    label: str
    limits: tuple[float, float] | None = None
    note: str = ""


VIEWS = {
    keys.TOTAL_COUNTS: View("Total counts"),
    keys.N_GENES: View("Genes detected"),
    keys.OOD: View("Unlike training tissue", (0.0, 100.0), UNLIKE),
    keys.TISSUE_FRACTION: View("Share of tissue", (0.0, 1.0)),
}


def spots_of(section: Shown) -> dict[str, object]:
    """Pack the spots' names, places in the picture and in the array, and each view of them that is known."""
    obs = section.adata.obs
    packed: dict[str, object] = {
        "names": pack_texts([str(name) for name in section.adata.obs_names]),
        "x": pack_numbers(section.xy[:, 0]),
        "y": pack_numbers(section.xy[:, 1]),
    }
    for name in (keys.ARRAY_ROW, keys.ARRAY_COL):
        if name in obs:
            packed[name] = pack_numbers(obs[name].to_numpy(float))
    return packed


def views_of(section: Shown) -> list[dict[str, object]]:
    """Pack the values of each view of the spots."""
    views: list[dict[str, object]] = []
    for name, view in VIEWS.items():
        values = _values(section, name)
        if values is not None:
            views.append(view._asdict() | {"key": name, "data": pack_numbers(values)})
    return views


def total_counts(section: Shown) -> NDArray[np.float64]:
    """Return the counts of each spot over the genes of the file, float64 [N]."""
    return np.asarray(section.counts.sum(axis=1), dtype=np.float64).ravel()


def _values(section: Shown, name: str) -> NDArray[np.float64] | None:
    """Return the values of a view; counts are taken from ``X`` where ``obs`` does not have them."""
    obs = section.adata.obs
    if name in obs:
        return np.asarray(obs[name], dtype=np.float64)
    if name == keys.TOTAL_COUNTS:
        return total_counts(section)
    if name == keys.N_GENES:
        return np.asarray((section.counts > 0).sum(axis=1), dtype=np.float64).ravel()
    return None
