"""Figures as a notebook expects them."""

from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows where it is the result of a cell, whether or not pyplot is loaded.

    Pyplot does not know it: it is not shown a second time, and a program that draws thousands closes none.
    """

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def label_bar(bar: Colorbar, label: str) -> None:
    """Label a colour bar in small letters, without a frame."""
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def new_axes(size: tuple[float, float]) -> Axes:
    """Return the axes of a new pyplot figure of ``size`` inches: a notebook shows it, and ``plt.show`` a script's."""
    from matplotlib import pyplot as plt  # not at the top: it looks for a display, and nothing else here needs one

    return plt.figure(figsize=size, layout="constrained").add_subplot()
