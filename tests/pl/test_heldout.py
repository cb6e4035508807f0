from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, PathCollection
from matplotlib.figure import Figure

import genar
from genar import metrics, pl
from genar.errors import DataError


def drawn(figure: Figure) -> None:
    FigureCanvasAgg(figure).draw()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert -0.01 <= box.x0 < box.x1 <= width + 0.01
    assert -0.01 <= box.y0 < box.y1 <= height + 0.01
    assert not plt.get_fignums()


def counts(n_genes: int, n_spots: int = 60) -> tuple[np.ndarray, np.ndarray, list[str], np.ndarray]:
    """Measured and predicted counts: the later the gene, the worse it is predicted."""
    rng = np.random.default_rng(0)
    truth = rng.gamma(2.0, 8.0, (n_spots, n_genes))
    noise = rng.normal(0, 1, (n_spots, n_genes)) * np.linspace(0.1, 60, n_genes)
    measured, predicted = rng.poisson(truth), np.clip(truth + noise, 0, None)
    r = metrics.pearson(metrics.log_counts(predicted), metrics.log_counts(measured))
    return measured, predicted, [f"G{i}" for i in range(n_genes)], np.asarray(r)


def scatters(figure: Figure) -> dict[str, Axes]:
    """The scatter plots by gene."""
    return {
        ax.get_title(loc="left"): ax
        for ax in figure.axes
        if ax.get_title(loc="left") and any(isinstance(c, PathCollection) for c in ax.collections)
    }


def test_best_median_and_worst_genes() -> None:
    measured, predicted, genes, r = counts(30)
    figure = pl.genes(measured, predicted, genes, r, each=3, title="section $C2$")
    drawn(figure)
    shown = scatters(figure)
    order = [genes[i] for i in np.argsort(-r)]
    assert set(shown) == {*order[:3], *order[13:16], *order[-3:]}
    assert figure._suptitle.get_text() == "section $C2$"
    for gene, ax in shown.items():
        i = genes.index(gene)
        (points,) = (c for c in ax.collections if isinstance(c, PathCollection))
        x, y = np.asarray(points.get_offsets()).T
        np.testing.assert_allclose(x, np.log2(measured[:, i] + 1))
        np.testing.assert_allclose(y, np.log2(predicted[:, i] + 1))
        assert ax.get_title(loc="right") == f"r = {r[i]:.2f}"
        assert ax.get_xlim() == ax.get_ylim()
        assert max(x.max(), y.max()) < ax.get_xlim()[1]
    assert figure.axes[0].get_title() == f"30 genes: mean PCC {r.mean():.3f}, median {np.median(r):.3f}"


def test_genes_without_a_correlation() -> None:
    measured, predicted, genes, r = counts(12)
    r[[0, 5]] = np.nan
    figure = pl.genes(measured, predicted, genes, r, each=2)
    drawn(figure)
    assert not {"G0", "G5"} & set(scatters(figure))
    assert figure.axes[0].get_title().endswith("; undefined for 2")
    with pytest.raises(DataError, match="no gene has a correlation"):
        pl.genes(measured, predicted, genes, np.full(12, np.nan))


@pytest.mark.parametrize("n_genes", [1, 2, 3, 4, 7])
def test_few_genes_are_shown_once(n_genes: int) -> None:
    figure = pl.genes(*counts(n_genes))
    drawn(figure)
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    assert len(titles) == len(set(titles)) >= min(n_genes, 3)


def test_shapes_that_do_not_fit() -> None:
    measured, predicted, genes, r = counts(6)
    with pytest.raises(DataError, match=r"shapes \(60, 6\), \(59, 6\) and \(6,\) do not fit 60 x 6"):
        pl.genes(measured, predicted[1:], genes, r)
    with pytest.raises(DataError, match="do not fit 60 x 5"):
        pl.genes(measured, predicted, genes[1:], r[1:])
    with pytest.raises(DataError, match="do not fit 60 x 6"):
        pl.genes(measured, predicted, genes, r[1:])
    with pytest.raises(DataError, match="do not fit 59 x 6"):
        pl.genes(measured, predicted, genes, r, section=AnnData(np.zeros((59, 6))))


def test_maps_of_a_real_section(shared: Path) -> None:
    section = genar.read.st(shared / "data/her2st", "C2", mpp=0.687)
    genes = ["ERBB2", "IGKC", "COL1A1"]
    measured = section[:, genes].X.toarray()
    predicted = measured[np.argsort(section.obsm["spatial"][:, 0])] * 0.5
    r = pd.Series([0.6, 0.2, -0.2], index=genes)
    figure = pl.genes(measured, predicted, genes, r, section=section)
    drawn(figure)
    maps = [ax for ax in figure.axes if any(isinstance(c, EllipseCollection) for c in ax.collections)]
    assert len(maps) == 6
    for gene, pair in zip(genes, zip(maps[::2], maps[1::2], strict=True), strict=True):
        spots = [next(c for c in ax.collections if isinstance(c, EllipseCollection)) for ax in pair]
        for collection, values in zip(spots, (measured, predicted), strict=True):
            np.testing.assert_array_equal(collection.get_offsets(), section.obsm["spatial"])
            np.testing.assert_allclose(collection.get_array(), np.log2(values[:, genes.index(gene)] + 1))
        assert spots[0].get_clim() == spots[1].get_clim()  # one scale of colours
        assert pair[0].get_title(loc="left") == gene
        assert pair[0].yaxis_inverted()
