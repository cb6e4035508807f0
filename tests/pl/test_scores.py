import pandas as pd
from matplotlib.colors import to_hex

from genar.pl.colours import PALETTE
from genar.pl.scores import scores


def test_a_point_a_section_and_a_bar_at_their_mean() -> None:
    table = pd.DataFrame({
        "section": ["A", "B", "A", "B"], "method": ["GenAR", "GenAR", "ridge", "ridge"],
        "PCC": [0.5, 0.7, 0.4, 0.2], "MSE": [1.0, 2.0, 3.0, 5.0],
    })  # fmt: skip
    figure = scores(table, ("PCC", "MSE"))
    pcc, mse = figure.axes
    assert [t.get_text() for t in pcc.get_yticklabels()] == ["GenAR", "ridge"]
    assert (pcc.get_title(), mse.get_title()) == ("PCC", "MSE")
    points, bar, _, other = mse.get_lines()
    assert list(points.get_xdata()) == [1.0, 2.0]
    assert (bar.get_xdata()[0], other.get_xdata()[0]) == (1.5, 4.0)
    assert to_hex(other.get_color()).upper() == PALETTE[1]
