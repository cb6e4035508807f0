from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from genar import pl
from genar import reliability as rule
from genar.errors import DataError
from genar.pl.reliability import RELIABLE, UNRELIABLE


@pytest.fixture
def panel() -> pd.DataFrame:
    """Reliable; its worst too bad; its mean; not judged; reliable."""
    by_gene = pd.DataFrame({"s": [0.5, 0.9, 0.3, np.nan, 0.8], "t": [0.4, 0.1, 0.3, np.nan, 0.6]}, index=list("ABCDE"))
    panel = pd.DataFrame(index=by_gene.index)
    rule.add(panel, by_gene)
    return panel


@pytest.mark.parametrize("kind", ["model", "result", "panel"])
def test_genes_stand_from_the_best_to_the_worst(panel: pd.DataFrame, kind: str) -> None:
    given = {"model": SimpleNamespace(panel=panel), "result": AnnData(var=panel), "panel": panel}[kind]
    ax = pl.reliability(given)  # type: ignore[arg-type]
    good, bad, mean, worst = ax.lines
    np.testing.assert_allclose(good.get_xydata(), [[1, 0.7], [3, 0.45]])
    np.testing.assert_allclose(bad.get_xydata(), [[2, 0.5], [4, 0.3]])
    assert (to_rgb(good.get_color()), to_rgb(bad.get_color())) == (to_rgb(RELIABLE), to_rgb(UNRELIABLE))
    assert (mean.get_ydata()[0], worst.get_ydata()[0]) == (rule.MEAN_PCC, rule.WORST_PCC)
    ends = [segment.tolist() for lines in ax.collections for segment in lines.get_segments()]
    np.testing.assert_allclose(
        ends, [[[1, 0.6], [1, 0.7]], [[3, 0.4], [3, 0.45]], [[2, 0.1], [2, 0.5]], [[4, 0.3]] * 2]
    )
    assert ax.get_title() == "2 of 5 genes are reliable, 1 not judged"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["reliable: 2", "not reliable: 2"]
    assert plt.get_fignums() == [ax.figure.number]


def test_it_draws_where_it_is_told(panel: pd.DataFrame) -> None:
    ax = Figure().add_subplot()
    assert pl.reliability(panel, ax=ax) is ax
    assert not plt.get_fignums()


def test_nothing_reliable_and_nothing_judged() -> None:
    panel = pd.DataFrame(index=["A", "B"])
    rule.add(panel, pd.DataFrame({"s": [np.nan, np.nan]}, index=["A", "B"]))
    assert pl.reliability(panel).get_title() == "0 of 2 genes are reliable, 2 not judged"


def test_a_model_that_was_not_judged() -> None:
    with pytest.raises(DataError, match="the genes: they have no heldout_pcc: the model was not judged"):
        pl.reliability(pd.DataFrame(index=["A"]))
