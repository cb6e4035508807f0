from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.sparse import csr_matrix

import genar
from genar import pl
from genar.errors import DataError
from genar.genes import grouping


def drawn(figure: Figure) -> None:
    """Draw; nothing sticks out, and pyplot knows nothing of it."""
    FigureCanvasAgg(figure).draw()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert -0.01 <= box.x0 < box.x1 <= width + 0.01
    assert -0.01 <= box.y0 < box.y1 <= height + 0.01
    assert not plt.get_fignums()


def panel_of(n_genes: int, scales: tuple[int, ...] | None = None) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(1.0, 9.0, (80, 4)).repeat(-(-n_genes // 4), axis=1)[:, :n_genes]).astype(float)
    genes = pd.Index([f"G{i}" for i in range(n_genes)])
    order, tree = grouping.build(counts, genes, "kmeans", scales, 0)
    return tree.columns().set_index(genes[order]), counts[:, order]


def heat_map(figure: Figure) -> tuple[Axes, np.ma.MaskedArray]:
    ax = figure.axes[1]
    return ax, ax.images[0].get_array()


def test_correlations_in_the_order_of_the_panel() -> None:
    panel, counts = panel_of(20, (1, 4, 10, 20))
    figure = pl.correlations(panel, counts)
    drawn(figure)
    ax, shown = heat_map(figure)
    np.testing.assert_allclose(shown, np.corrcoef(np.log1p(counts).T), atol=1e-12)
    assert [t.get_text() for t in ax.get_yticklabels()] == list(panel.index)
    assert ax.yaxis_inverted()  # the first gene stands on top
    # the heading of a strip, and the boxes, are those of the groups
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["4", "10"]
    boxes = {(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in ax.patches if isinstance(p, Rectangle)}
    for scale in (4, 10):
        start = np.searchsorted(panel[f"group_{scale}"], np.arange(scale))
        sizes = np.bincount(panel[f"group_{scale}"])
        assert {(s - 0.5, s - 0.5, n, n) for s, n in zip(start, sizes, strict=True)} <= boxes


def test_a_model_or_its_panel_and_a_section_or_its_counts() -> None:
    panel, counts = panel_of(20)
    section = AnnData(csr_matrix(counts), var=pd.DataFrame(index=panel.index))[:, ::-1].copy()
    expected = heat_map(pl.correlations(panel, counts))[1]
    np.testing.assert_array_equal(heat_map(pl.correlations(SimpleNamespace(panel=panel), section))[1], expected)


def test_genes_that_were_not_measured_or_do_not_vary() -> None:
    panel, counts = panel_of(20)
    partly = counts.copy()
    partly[:30, 2] = np.nan
    partly[:, 4] = 3
    figure = pl.correlations(panel, partly)
    drawn(figure)
    shown = heat_map(figure)[1]
    rest = np.log1p(counts[30:])
    centred = rest[:, 2] - rest[:, 2].mean()
    other = np.log1p(counts[:, 5])
    expected = np.mean(centred / centred.std() * (other[30:] - other.mean()) / other.std())
    assert shown[2, 5] == pytest.approx(expected)
    assert shown.mask[4].all()
    section = AnnData(counts[:, 1:], var=pd.DataFrame(index=panel.index[1:]))
    shown = heat_map(pl.correlations(panel, section))[1]
    assert shown.mask[0].all()
    assert not shown.mask[1:, 1:].any()


@pytest.mark.parametrize("n_genes", [2, 4, 200, 320])
def test_panels_of_any_size(n_genes: int) -> None:
    figure = pl.correlations(*panel_of(n_genes))
    drawn(figure)
    names = figure.axes[1].get_yticklabels()
    assert len(names) == (n_genes if n_genes <= 300 else 0)
    if len(names) > 2:  # readable: of 4 pt at least, and one does not cover the next
        boxes = [name.get_window_extent() for name in names[:3]]
        assert names[0].get_fontsize() >= 4.5
        assert boxes[0].y0 > boxes[1].y0 > boxes[2].y0
        assert boxes[0].y0 - boxes[1].y0 >= 0.9 * names[0].get_fontsize() * figure.dpi / 72


def test_the_bundled_model_on_a_real_section(shared: Path) -> None:
    panel = pd.read_csv(Path(genar.__file__).parent / "models/her2st-mini/genes.tsv", sep="\t", index_col="gene")
    counts = pd.read_csv(shared / "data/her2st/ST-cnts/C2.tsv.gz", sep="\t", index_col=0)
    figure = pl.correlations(panel, AnnData(counts.astype(np.float32)))
    drawn(figure)
    shown = heat_map(figure)[1]
    at = [panel.index.get_loc(gene) for gene in ("IGKC", "IGHG3", "ERBB2")]
    assert shown[at[0], at[1]] > shown[at[0], at[2]]  # immunoglobulins go together, not with the tumour


@pytest.mark.parametrize(
    ("panel", "counts", "said"),
    [
        (pd.DataFrame({"mean": [1, 2]}), np.ones((3, 2)), "it has no column group_<number>"),
        (pd.DataFrame({"group_2": [0, 1]}), np.ones((3, 4)), r"\(3, 4\); give spots x 2 genes"),
        (pd.DataFrame({"group_2": [0, 1]}, index=["a", "b"]), AnnData(np.ones((3, 2))), "no gene of the panel"),
    ],
)
def test_what_cannot_be_drawn(panel: pd.DataFrame, counts: object, said: str) -> None:
    with pytest.raises(DataError, match=said):
        pl.correlations(panel, counts)


def log(epochs: int = 8, steps: int = 10, *, val: bool = True, lr: bool = True) -> pd.DataFrame:
    """What Lightning's CSVLogger writes: sparse rows, and learning rates without an epoch."""
    rows: list[dict[str, float]] = []
    for epoch in range(epochs):
        for step in range(epoch * steps + 4, (epoch + 1) * steps, 5):
            rows += [{"step": step, "lr-AdamW": 1e-3 * step}] if lr else []
            rows.append({"epoch": epoch, "step": step, "loss": 50 / (step + 1)})
        if val:
            pcc = 0.4 - 0.01 * (epoch - 5) ** 2
            rows.append({"epoch": epoch, "step": (epoch + 1) * steps - 1, "val_nll": 3 - epoch / 9, "val_pcc": pcc})
    return pd.DataFrame(rows)


def panels(figure: Figure) -> dict[str, Axes]:
    return {ax.get_ylabel(): ax for ax in figure.axes}


def test_curves_over_epochs(tmp_path: Path) -> None:
    log().to_csv(tmp_path / "metrics.csv", index=False)
    figure = pl.curves(pd.read_csv(tmp_path / "metrics.csv"))
    drawn(figure)
    shown = panels(figure)
    assert set(shown) == {"training loss", "held-out NLL", "held-out PCC", "learning rate"}
    steps, means = shown["training loss"].lines[:2]
    np.testing.assert_allclose(steps.get_xdata()[:3], [0.5, 1.0, 1.5])  # 5, 10, 15 of 10 steps an epoch
    np.testing.assert_allclose(means.get_xdata(), np.arange(1, 9))
    np.testing.assert_allclose(means.get_ydata()[0], (50 / 5 + 50 / 10) / 2)
    curve = shown["held-out PCC"].lines[0]
    np.testing.assert_allclose(curve.get_xdata(), np.arange(1, 9))
    np.testing.assert_allclose(shown["learning rate"].lines[0].get_xdata()[:2], [0.5, 1.0])
    # the best epoch, the sixth, is marked in every panel
    assert shown["held-out PCC"].get_title(loc="right") == "best: 0.400 after 6 epochs"
    for ax in shown.values():
        assert any(np.allclose(line.get_xdata(), 6) for line in ax.lines)


def test_the_metric_that_chooses() -> None:
    shown = panels(pl.curves(log(), "val_nll"))
    assert shown["held-out NLL"].get_title(loc="right") == "best: 2.222 after 8 epochs"
    assert not shown["held-out PCC"].get_title(loc="right")
    with pytest.raises(DataError, match="val_mse: there is no such metric; choose among val_nll, val_pcc"):
        pl.curves(log(), "val_mse")


def test_logs_with_less_in_them() -> None:
    figure = pl.curves(log(val=False, lr=False))
    drawn(figure)
    assert set(panels(figure)) == {"training loss"}
    figure = pl.curves(log(epochs=1).drop(columns=["loss", "val_nll"]))
    drawn(figure)
    assert panels(figure)["held-out PCC"].get_title(loc="right") == "best: 0.150 after 1 epoch"
    figure = pl.curves(log(val=False).drop(columns="epoch"))
    drawn(figure)
    broken = log()
    broken.loc[broken["epoch"] == 5, "val_pcc"] = np.nan
    assert "0.390 after 5" in panels(pl.curves(broken))["held-out PCC"].get_title(loc="right")
    with pytest.raises(DataError, match="neither loss nor val_ columns"):
        pl.curves(pd.DataFrame({"step": [1, 2], "lr-AdamW": [0.1, 0.2]}))
