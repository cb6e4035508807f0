from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from genar import keys, pl, store
from genar.errors import DataError


@pytest.fixture
def panel() -> pd.DataFrame:
    """Five genes, of which the fourth was not judged, in two groups, then three."""
    groups = {keys.group(2): [0, 0, 0, 1, 1], keys.group(3): [0, 0, 1, 2, 2], keys.group(5): range(5)}
    panel = pd.DataFrame(groups, index=list("ABCDE"))
    panel[keys.TRAIN_MEAN] = [4.0, 2.0, 6.0, 1.0, 1.0]
    panel[keys.HELDOUT_PCC] = [0.5, 0.3, 0.1, np.nan, 0.2]
    return panel


@pytest.mark.parametrize("kind", ["model", "result", "panel"])
def test_boxes_are_the_groups_and_show_the_mean_of_their_genes(panel: pd.DataFrame, kind: str) -> None:
    given = {"model": SimpleNamespace(panel=panel), "result": AnnData(var=panel), "panel": panel}[kind]
    ax = pl.hierarchy(given)  # type: ignore[arg-type]
    (boxes,) = ax.collections
    corners = [(*path.vertices.min(axis=0), *path.vertices.max(axis=0)) for path in boxes.get_paths()]
    expected = [(0, 0, 1, 3), (0, 3, 1, 5), (1, 0, 2, 2), (1, 2, 2, 3), (1, 3, 2, 5)]
    assert corners == expected + [(2, k, 3, k + 1) for k in range(5)]
    shown = np.ma.filled(boxes.get_array(), np.nan)
    np.testing.assert_allclose(shown, [0.3, 0.2, 0.4, 0.1, 0.2, 0.5, 0.3, 0.1, np.nan, 0.2])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "3", "5"]
    assert [t.get_text() for t in ax.get_yticklabels()] == list("ABCDE")
    assert ax.yaxis_inverted()
    assert sorted(t.get_text() for t in ax.texts) == ["2", "2", "2", "3"]
    assert plt.get_fignums() == [ax.figure.number]


def test_another_column_on_an_axes_that_is_given(panel: pd.DataFrame) -> None:
    ax = Figure().add_subplot()
    assert pl.hierarchy(panel, color=keys.TRAIN_MEAN, ax=ax) is ax
    np.testing.assert_allclose(ax.collections[0].get_array()[:2], [4, 1])
    assert not plt.get_fignums()


def test_what_cannot_be_drawn(panel: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="nothing: the panel has no such column of numbers; choose among group_2"):
        pl.hierarchy(panel, color="nothing")
    with pytest.raises(DataError, match="the panel: it has no column group_<number>"):
        pl.hierarchy(panel[[keys.TRAIN_MEAN]])


def test_names_of_the_bundled_model_do_not_overlap() -> None:
    ax = pl.hierarchy(store.load("her2st-mini"))
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 200
    assert all(above.y0 - below.y0 >= 0.9 * above.height * 0.7 for above, below in zip(boxes, boxes[1:], strict=False))
    small = Figure(figsize=(4, 3)).add_subplot()
    assert not any(t.get_text() for t in pl.hierarchy(store.load("her2st-mini"), ax=small).get_yticklabels())
