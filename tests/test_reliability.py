import numpy as np
import pandas as pd
import pytest

from genar import keys
from genar.reliability import add, reliability_warning


@pytest.mark.parametrize(
    ("pcc", "reliable"),
    [
        ([0.6, 0.2], True),
        ([0.4, 0.4], True),
        ([0.4, 0.39], False),  # the mean
        ([0.9, 0.19], False),  # the worst
        ([0.9, 0.0], False),  # undefined on a section, which heldout says as 0
        ([0.9, np.nan], True),  # not measured on one
        ([np.nan, np.nan], False),
    ],
)
def test_mean_and_worst_decide(pcc: list[float], reliable: bool) -> None:
    panel = pd.DataFrame(index=["A"])
    add(panel, pd.DataFrame([pcc], index=["A"]))
    assert panel[keys.RELIABLE].tolist() == [reliable]
    assert panel[keys.RELIABLE].dtype == bool
    np.testing.assert_array_equal(panel[keys.HELDOUT_PCC], pd.Series(pcc).mean())
    np.testing.assert_array_equal(panel[keys.HELDOUT_PCC_MIN], pd.Series(pcc).min())


def test_genes_in_another_order_and_one_that_no_fold_had() -> None:
    panel = pd.DataFrame(index=["NEW", "B", "A"])
    add(panel, pd.DataFrame({"s": [0.1, 0.8], "t": [0.3, 0.6]}, index=["A", "B"]))
    np.testing.assert_allclose(panel[keys.HELDOUT_PCC], [np.nan, 0.7, 0.2])
    np.testing.assert_allclose(panel[keys.HELDOUT_PCC_MIN], [np.nan, 0.6, 0.1])
    assert panel[keys.RELIABLE].tolist() == [False, True, False]


def test_nothing_is_said_where_nothing_was_left_out() -> None:
    panel = pd.DataFrame({keys.TRAIN_MEAN: [1.0]}, index=["A"])
    add(panel, pd.DataFrame(index=["A"]))
    assert list(panel) == [keys.TRAIN_MEAN]
    assert reliability_warning(panel) is None


@pytest.mark.parametrize(("reliable", "said"), [(5, None), (6, None), (4, "4 of 10 genes"), (0, "0 of 10 genes")])
def test_a_warning_where_fewer_than_half_are(reliable: int, said: str | None) -> None:
    warning = reliability_warning(pd.DataFrame({keys.RELIABLE: np.arange(10) < reliable}))
    assert (warning is None) if said is None else str(warning).startswith(f"{said} are reliable")
