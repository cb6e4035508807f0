"""What a page says of each spot."""

import numpy as np
from numpy.typing import NDArray

from genar import keys
from genar.write.report.pack import pack_numbers, pack_texts
from genar.write.report.section import Shown

# obs column: what it is called, unit, and its range where that does not follow the values
VIEWS: dict[str, tuple[str, tuple[float, float] | None]] = {
    keys.TOTAL_COUNTS: ("Total counts", None),
    keys.N_GENES: ("Genes detected", None),
    keys.OOD: ("Unlike training tissue (percentile)", (0.0, 100.0)),
    keys.TISSUE_FRACTION: ("Share of tissue", (0.0, 1.0)),
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
    for name, (label, limits) in VIEWS.items():
        values = _values(section, name)
        if values is not None:
            views.append({"key": name, "label": label, "limits": limits, "data": pack_numbers(values)})
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
