import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData, concat, read_h5ad
from matplotlib import colormaps
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from PIL import Image
from scipy.sparse import csr_matrix

import genar
from genar import keys, pl
from genar.errors import DataError
from genar.write.anndata import result, write_h5ad

GENES = ["ERBB2", "GAPDH", "COL1A1", "FLAT"]


def section(columns: int, rows: int, name: str = "slide.svs") -> AnnData:
    """Spots 40 px apart at 2.5 µm/px on a pink slide; x differs from y, so that an exchange shows."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(columns) * 40.0 + 60, np.arange(rows) * 40.0 + 100))
    n = len(x)
    spots = AnnData(obs=pd.DataFrame({keys.LIBRARY_ID: pd.Categorical(["s"] * n), keys.IN_TISSUE: 1},
                                     index=[f"s{i}" for i in range(n)]))  # fmt: skip
    spots.obsm[keys.SPATIAL] = np.column_stack([x, y])
    shape = int(y.max() + 100) // 2, int(x.max() + 60) // 2, 3
    spots.uns[keys.SPATIAL] = {
        "s": {
            keys.IMAGES: {keys.HIRES: np.full(shape, (230, 180, 210), np.uint8)},
            keys.SCALEFACTORS: {keys.HIRES_SCALE: 0.5, keys.SPOT_DIAMETER: 22.0},
            keys.METADATA: {keys.MPP: 2.5, keys.SLIDE_NAME: name},
        }
    }
    counts = np.random.default_rng(0).poisson([9, 90, 30, 0], (n, 4))
    counts[:, 3] = 7
    panel = pd.DataFrame({keys.HELDOUT_PCC: [0.3, 0.2, 0.6, 0.9]}, index=GENES)
    mean = counts + 0.5
    return result(
        spots,
        panel=panel,
        counts=counts,
        layers={keys.EXPECTED: mean, keys.STD: mean},
        provenance={"model": "her2st-mini"},
    )


@pytest.fixture
def adata() -> AnnData:
    return section(4, 3)


def circles(ax: Axes) -> EllipseCollection:
    (found,) = [c for c in ax.collections if isinstance(c, EllipseCollection)]
    return found


def drawn(figure: Figure) -> None:
    """Draw; a missing glyph, a layout that collapses and the like are warnings, hence errors here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figure).draw()


def test_gene_is_drawn_where_its_spots_are(adata: AnnData) -> None:
    ax = pl.gene(adata, "COL1A1")
    spots = circles(ax)
    np.testing.assert_array_equal(spots.get_offsets(), adata.obsm[keys.SPATIAL])
    np.testing.assert_array_equal(spots.get_array(), adata[:, "COL1A1"].X.toarray().ravel())
    assert spots.get_offset_transform() == ax.transData
    np.testing.assert_allclose(spots.get_widths(), 22)
    assert ax.get_title() == "COL1A1"
    assert ax.yaxis_inverted()
    assert not ax.xaxis_inverted()
    height, width = adata.uns[keys.SPATIAL]["s"][keys.IMAGES][keys.HIRES].shape[:2]
    assert tuple(ax.images[0].get_extent()) == (0, 2 * width, 2 * height, 0)
    (x0, x1), (y1, y0) = ax.get_xlim(), ax.get_ylim()
    xy = adata.obsm[keys.SPATIAL]
    assert x0 < xy[:, 0].min() - 11 < xy[:, 0].max() + 11 < x1
    assert y0 < xy[:, 1].min() - 11 < xy[:, 1].max() + 11 < y1
    drawn(ax.figure)


def test_pixels_have_the_genes_colours(adata: AnnData) -> None:
    """Where a spot is brightest in the picture, the gene's count is the highest."""
    figure = Figure(figsize=(6, 5), dpi=100)
    ax = figure.add_subplot()
    assert pl.gene(adata, "ERBB2", ax=ax) is ax
    drawn(figure)
    picture = np.asarray(figure.canvas.buffer_rgba())
    values = adata[:, "ERBB2"].X.toarray().ravel()
    for i in (values.argmax(), values.argmin()):
        column, row = ax.transData.transform(adata.obsm[keys.SPATIAL][i])
        pixel = picture[picture.shape[0] - int(round(row)), int(round(column)), :3]
        colour = 255 * np.array(colormaps["viridis"](float(values[i] == values.max()))[:3])
        np.testing.assert_allclose(pixel, 0.85 * colour + 0.15 * np.array([230, 180, 210]), atol=4)


def test_a_gene_is_a_pyplot_figure_where_no_axes_are_given(adata: AnnData) -> None:
    """As seaborn's: a notebook shows it below its cell, and ``plt.show`` or ``plt.savefig`` do in a script."""
    ax = pl.gene(adata, "ERBB2")
    assert plt.get_fignums() == [ax.figure.number]
    assert plt.gcf() is ax.figure
    assert plt.gca() is ax
    other = pl.gene(adata, "ERBB2")  # not over the first
    assert len(plt.get_fignums()) == 2
    assert other.figure is not ax.figure


def test_pyplot_is_left_alone_otherwise(adata: AnnData, tmp_path: Path) -> None:
    """What is given axes, returns a figure or saves one leaves none to be closed."""
    pl.gene(adata, "ERBB2", ax=Figure().add_subplot())
    figure = pl.overview(adata)
    pl.save_overview(adata, tmp_path / "a.png")
    assert not plt.get_fignums()
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows of a cell's result


def test_the_command_line_loads_no_pyplot(adata: AnnData, tmp_path: Path) -> None:
    write_h5ad(adata, tmp_path / "a.h5ad")
    code = (
        "import sys, pathlib, anndata; from genar import pl;"
        f"pl.save_overview(anndata.read_h5ad({str(tmp_path / 'a.h5ad')!r}), pathlib.Path({str(tmp_path / 'a.png')!r}));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "a.png").exists()


def test_gene_of_a_layer(adata: AnnData) -> None:
    ax = pl.gene(adata, "ERBB2", layer=keys.EXPECTED)
    np.testing.assert_allclose(circles(ax).get_array(), adata[:, "ERBB2"].X.toarray().ravel() + 0.5)
    assert ax.child_axes[0].get_ylabel() == "expected"


@pytest.mark.parametrize(
    ("gene", "said"),
    [("ERBB", "try ERBB2;"), ("erbb2", "try ERBB2;"), ("zzz", "var_names lists"), ("ERBB2,GAPDH", "write spaces")],
)
def test_unknown_gene(adata: AnnData, gene: str, said: str) -> None:
    with pytest.raises(DataError, match=f"{gene}: this gene is not in the result; {said}"):
        pl.gene(adata, gene)
    with pytest.raises(DataError, match=said):
        pl.overview(adata, gene)


def test_unknown_layer(adata: AnnData) -> None:
    with pytest.raises(DataError, match="zzz: there is no such layer; choose among expected, std"):
        pl.gene(adata, "ERBB2", layer="zzz")


def test_one_of_several_sections(adata: AnnData) -> None:
    other = section(3, 5)
    other.obs[keys.LIBRARY_ID] = pd.Categorical(["t"] * other.n_obs)
    other.uns[keys.SPATIAL]["t"] = other.uns[keys.SPATIAL].pop("s")
    both = concat([adata, other], index_unique="-", uns_merge="unique", merge="same")
    for name, alone in (("s", adata), ("t", other)):
        ax = pl.gene(both, "ERBB2", library_id=name)
        np.testing.assert_array_equal(circles(ax).get_offsets(), alone.obsm[keys.SPATIAL])
        np.testing.assert_array_equal(circles(ax).get_array(), alone[:, "ERBB2"].X.toarray().ravel())
        assert ax.images[0].get_array().shape == alone.uns[keys.SPATIAL][name][keys.IMAGES][keys.HIRES].shape
        total = circles(pl.overview(both, library_id=name).axes[2])
        np.testing.assert_array_equal(total.get_array(), alone.obs[keys.TOTAL_COUNTS])
    for draw in (pl.overview, lambda a, **k: pl.gene(a, "ERBB2", **k)):
        with pytest.raises(DataError, match="library_id: which section to draw is not clear; choose among s, t"):
            draw(both)
        with pytest.raises(DataError, match="u: no such section with spots and an image; choose among s, t"):
            draw(both, library_id="u")


def test_spots_without_an_image(adata: AnnData) -> None:
    del adata.uns[keys.SPATIAL]
    with pytest.raises(DataError, match="choose among none"):
        pl.gene(adata, "ERBB2")


def test_a_visium_section_as_others_read_it(adata: AnnData) -> None:
    """No ``library_id``, no resolution, a low-resolution image alone."""
    entry = adata.uns[keys.SPATIAL]["s"]
    entry[keys.IMAGES] = {keys.LOWRES: entry[keys.IMAGES][keys.HIRES][::2, ::2]}
    entry[keys.SCALEFACTORS] = {keys.LOWRES_SCALE: 0.25, keys.SPOT_DIAMETER: 22.0}
    del entry[keys.METADATA], adata.obs[keys.LIBRARY_ID]
    ax = pl.gene(adata, "ERBB2")
    drawn(ax.figure)
    height, width = entry[keys.IMAGES][keys.LOWRES].shape[:2]
    assert tuple(ax.images[0].get_extent()) == (0, 4 * width, 4 * height, 0)
    assert not ax.lines
    assert pl.overview(adata)._suptitle.get_text() == "s  ·  model her2st-mini"


def test_scale_bar_has_the_length_that_it_says(adata: AnnData) -> None:
    ax = pl.gene(adata, "ERBB2")
    (bar,) = ax.lines
    start, end = bar.get_xdata()
    number, unit = ax.texts[0].get_text().split()
    assert (end - start) * 2.5 == float(number) * {"µm": 1, "mm": 1000}[unit]
    assert 0.1 < (end - start) / (ax.get_xlim()[1] - ax.get_xlim()[0]) < 0.5


@pytest.mark.parametrize("columns_rows", [(4, 3), (60, 2), (2, 60), (200, 1), (1, 1), (30, 30)], ids=str)
def test_overview_of_any_shape(columns_rows: tuple[int, int]) -> None:
    adata = section(*columns_rows)
    figure = pl.overview(adata)
    drawn(figure)
    tissue, counts, total = figure.axes[:3]
    np.testing.assert_array_equal(circles(tissue).get_array(), 1)
    np.testing.assert_array_equal(circles(counts).get_array(), adata[:, counts.get_title()].X.toarray().ravel())
    np.testing.assert_array_equal(circles(total).get_array(), adata.obs[keys.TOTAL_COUNTS])
    assert len(circles(tissue).get_facecolor()) == 0  # rings, so that the tissue shows
    assert circles(tissue).get_linewidth()[0] > 0
    assert tissue.get_title() == f"{adata.n_obs:,} spot{'' if adata.n_obs == 1 else 's'} on tissue"
    width = adata.uns[keys.SPATIAL]["s"][keys.IMAGES][keys.HIRES].shape[1] / 0.5
    lowest = adata.obsm[keys.SPATIAL][:, 1].max() + 11
    for ax in (tissue, counts, total):
        assert 0 <= ax.get_xlim()[0] < ax.get_xlim()[1] <= width  # no band beside the slide
        assert ax.get_ylim()[1] >= 0
        assert ax.lines[0].get_ydata()[0] > lowest  # the scale bar covers no spot
    boxes = [a.get_window_extent() for a in (tissue, counts, total)]
    for ax, box in zip((tissue, counts, total), boxes, strict=True):
        bar = ax.child_axes[0].get_window_extent()
        assert (bar.y0, bar.y1) == pytest.approx((box.y0, box.y1), abs=1)  # as high as its panel
        assert bar.x0 > box.x1
    # nothing sticks out, nothing overlaps
    width, height = figure.canvas.get_width_height()
    whole = [a.get_tightbbox() for a in (tissue, counts, total)]
    whole += [t.get_window_extent() for t in (figure._suptitle, figure._supxlabel)]
    for i, a in enumerate(whole):
        assert a.x0 >= 0
        assert a.y0 >= 0
        assert a.x1 <= width
        assert a.y1 <= height
        for b in whole[:i]:
            assert not (a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1)


@pytest.mark.parametrize("columns_rows", [(4, 3), (60, 2), (1, 1)], ids=str)
def test_the_picture_shows_the_warnings(columns_rows: tuple[int, int], tmp_path: Path) -> None:
    adata = section(*columns_rows)
    warned = [f"{62 + i} % of spots look unlike the tissue that $m_1$ was trained on; {'more ' * 20}" for i in range(3)]
    adata.uns[keys.GENAR]["warnings"] = np.array(warned, dtype=object)
    plain = pl.overview(section(*columns_rows))
    write_h5ad(adata, tmp_path / "a.h5ad")
    for one in (adata, read_h5ad(tmp_path / "a.h5ad")):
        figure = pl.overview(one)
        drawn(figure)
        caption = figure._supxlabel
        assert caption.get_text().replace("\n", " ").startswith(" ".join(text.strip() for text in warned))
        assert caption.get_text().endswith("\nPredicted counts, for research use only.")
        assert caption.get_color() != plain._supxlabel.get_color()
        box, (width, height) = caption.get_window_extent(), figure.canvas.get_width_height()
        assert (box.x0 >= 0, box.y0 >= 0, box.x1 <= width, box.y1 < height / 2) == (True,) * 4
        assert all(ax.get_tightbbox().y0 > box.y1 for ax in figure.axes[:3])
    drawn(plain)
    assert figure.axes[0].get_window_extent().height > 0.8 * plain.axes[0].get_window_extent().height


def test_a_cohort_s_section_shows_its_own_warnings(adata: AnnData) -> None:
    adata.uns[keys.GENAR] = {"sections": {"s": {"warnings": ["of s"]}, "t": {"warnings": ["of t"]}}}
    assert pl.overview(adata)._supxlabel.get_text() == "of s\nPredicted counts, for research use only."


def test_a_constant_gene(adata: AnnData) -> None:
    figure = pl.overview(adata, "FLAT")
    drawn(figure)
    spots = circles(figure.axes[1])
    assert spots.get_clim() == (7, 8)
    ticks = figure.axes[1].child_axes[0].get_yticks()
    assert list(ticks) == [7, 8]  # counts are whole


def test_overview_shows_the_share_of_tissue(adata: AnnData) -> None:
    adata.obs[keys.TISSUE_FRACTION] = np.linspace(0.5, 1, adata.n_obs)
    tissue = circles(pl.overview(adata).axes[0])
    np.testing.assert_array_equal(tissue.get_array(), np.linspace(0.5, 1, adata.n_obs))
    assert tissue.get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Schnitt_größe µ.svs", "Schnitt_größe µ.svs"),
        ("組織.svs", "??.svs"),
        (r"a$\frac$b_$x.svs", r"a$\frac$b_$x.svs"),
        ("a\nb\x07.svs", "a?b?.svs"),
        ("x" * 300 + ".svs", "x" * 57 + "..."),
    ],
)
def test_any_name_can_be_drawn(name: str, shown: str) -> None:
    figure = pl.overview(section(4, 3, name))
    drawn(figure)
    assert figure._suptitle.get_text() == f"{shown}  ·  2.500 µm/px  ·  model her2st-mini"


def test_marker(adata: AnnData) -> None:
    assert pl.marker(adata) == "COL1A1"  # the best of those that vary; FLAT does not
    adata.var[keys.HELDOUT_PCC] = [np.nan, 0.1, np.nan, np.nan]
    assert pl.marker(adata) == "GAPDH"
    most_varied = GENES[np.log1p(adata.X.toarray()).var(axis=0).argmax()]
    adata.var = pd.DataFrame({keys.HELDOUT_PCC: np.nan}, index=GENES)
    assert pl.marker(adata) == most_varied
    adata.var = pd.DataFrame(index=GENES)
    assert pl.marker(adata) == most_varied
    adata.X = csr_matrix(np.full(adata.shape, 3, np.int32))
    assert pl.marker(adata) in GENES


def test_save_overview(adata: AnnData, tmp_path: Path) -> None:
    pl.save_overview(adata, tmp_path / "a.png", "GAPDH")
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert image.width > 1000
        assert np.asarray(image.convert("RGB")).std() > 10


def test_real_section(shared: Path) -> None:
    measured = genar.read.st(shared / "data/her2st", "C2", mpp=0.687)[:, ["ERBB2", "GAPDH", "COL1A1"]].copy()
    counts = measured.X.toarray()
    adata = result(
        measured, panel=measured.var, counts=counts, layers={keys.EXPECTED: counts, keys.STD: counts}, provenance={}
    )
    figure = pl.overview(adata, "ERBB2")
    drawn(figure)
    ax = figure.axes[1]
    picture = np.asarray(figure.canvas.buffer_rgba())
    x, y = np.round(ax.transData.transform([(5200, 6300)])[0]).astype(int)
    window = picture[picture.shape[0] - y - 40 : picture.shape[0] - y + 40, x - 40 : x + 40, :3]
    assert window.std() > 20  # tissue shows between the spots


def test_the_tissue_mask_is_outlined_where_it_lies() -> None:
    adata = section(4, 3)
    entry = adata.uns[keys.SPATIAL]["s"]
    height, width = entry[keys.IMAGES][keys.HIRES].shape[:2]
    mask = np.zeros((height // 2, width // 2), dtype=bool)
    mask[: height // 4, : width // 4] = True  # the upper left quarter
    entry[keys.TISSUE_MASK] = mask
    tissue = pl.overview(adata).axes[0]
    (outline,) = [c for c in tissue.collections if isinstance(c, ContourSet)]
    border = np.concatenate([path.vertices for path in outline.get_paths()])
    scale = entry[keys.SCALEFACTORS][keys.HIRES_SCALE]
    assert border[:, 0].max() * scale == pytest.approx(width / 2, abs=4)
    assert border[:, 1].max() * scale == pytest.approx(height / 2, abs=4)
