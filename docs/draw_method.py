"""Draw the method in one picture: ``python docs/draw_method.py`` writes ``docs/images/method.svg``."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch, Rectangle

INK, MUTED, TISSUE, NUCLEUS, SPOT, CONDITION = "#222222", "#666666", "#e9b7d0", "#8d4f91", "#2b6cb0", "#d9822b"
SCALES = (1, 2, 4, 8)  # groups of genes at each
WIDTH, HEIGHT = 13.2, 4.4
TILE = (1.55, 2.25)  # centre of the spot that is followed
rng = np.random.default_rng(7)


def main() -> None:
    """Draw and save."""
    mpl.rcParams.update({"font.family": "DejaVu Sans", "svg.fonttype": "path", "svg.hashsalt": "genar"})
    figure = plt.figure(figsize=(WIDTH, HEIGHT))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal")
    ax.set_axis_off()
    for number, (x, head, text) in enumerate(
        [
            (1.5, "slide", "spots on the tissue,\n55 or 100 µm wide"),
            (3.75, "tile", "a square in µm\naround each spot"),
            (5.45, "encoder", "a frozen network:\nfeatures"),
            (8.4, "decoder", "counts coarse to fine: every scale sees the\ncoarser ones, and the condition"),
            (11.9, "AnnData", "integer counts per spot,\nslide image, warnings"),
        ],
        start=1,
    ):
        ax.text(x, HEIGHT - 0.25, f"{number}  {head}", ha="center", va="center", fontsize=13, weight="bold", color=INK)
        ax.text(x, 0.36, text, ha="center", va="center", fontsize=10, color=MUTED)
    slide(ax)
    tile(ax)
    encoder(ax)
    decoder(ax)
    result(ax)
    path = Path(__file__).parent / "images" / "method.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def slide(ax: Axes) -> None:
    """Draw tissue on glass with a lattice of spots."""
    ax.add_patch(Rectangle((0.3, 0.95), 2.4, 2.85, facecolor="#f7f7f7", edgecolor=MUTED))
    outline = [Ellipse((1.45, 2.4), 1.9, 2.3, angle=20), Ellipse((1.95, 2.9), 1.05, 1.25)]
    for part in outline:
        part.set(facecolor=TISSUE, edgecolor="none")
        ax.add_patch(part)
    for row, y in enumerate(np.arange(1.35, 3.7, 0.225)):
        for x in np.arange(0.55 + 0.13 * (row % 2), 2.6, 0.26):
            if any(part.contains_point(ax.transData.transform((x, y))) for part in outline):
                ax.add_patch(Circle((x, y), 0.075, facecolor="none", edgecolor=SPOT, linewidth=0.9))
    ax.add_patch(
        Rectangle((TILE[0] - 0.17, TILE[1] - 0.17), 0.34, 0.34, facecolor="none", edgecolor=INK, linewidth=1.6)
    )


def tile(ax: Axes) -> None:
    """Draw the tile with its nuclei and the spot, and lines that lead to it."""
    left, bottom, side = 3.05, 1.65, 1.4
    for dy, to in ((0.17, bottom + side), (-0.17, bottom)):
        ax.plot([TILE[0] + 0.17, left], [TILE[1] + dy, to], color=INK, linewidth=0.7)
    frame = Rectangle((left, bottom), side, side, facecolor=TISSUE, edgecolor=INK, linewidth=1.6)
    ax.add_patch(frame)
    for x, y, angle in zip(*rng.uniform(0.06, side - 0.06, (2, 42)), rng.uniform(0, 180, 42), strict=True):
        nucleus = Ellipse(
            (left + x, bottom + y), 0.16, 0.1, angle=angle, facecolor=NUCLEUS, edgecolor="none", alpha=0.85
        )
        ax.add_patch(nucleus).set_clip_path(frame)
    ax.add_patch(Circle((left + side / 2, bottom + side / 2), 0.42, facecolor="none", edgecolor=SPOT, linewidth=2))
    arrow(ax, (4.52, 2.35), (4.9, 2.35))


def encoder(ax: Axes) -> None:
    """Draw the network as a funnel, the features, and the condition they become."""
    ax.fill([4.95, 5.65, 5.65, 4.95], [1.65, 2.05, 2.65, 3.05], facecolor="#e6eef7", edgecolor=SPOT, linewidth=1.4)
    for number, value in enumerate(rng.uniform(0, 1, 7)):
        shade = plt.get_cmap("Purples")(0.15 + 0.7 * value)
        ax.add_patch(
            Rectangle((5.78, 1.97 + 0.11 * number), 0.16, 0.11, facecolor=shade, edgecolor="white", linewidth=0.5)
        )
    arrow(ax, (6.0, 2.35), (6.3, 2.35), CONDITION)
    box = FancyBboxPatch((6.38, 1.2), 0.26, 2.3, boxstyle="round,pad=0.03", facecolor="#fbeedd", edgecolor=CONDITION)
    ax.add_patch(box)
    ax.text(6.51, 2.35, "condition", rotation=90, ha="center", va="center", fontsize=10.5, color="#8a4b0f")


def decoder(ax: Axes) -> None:
    """Draw the tree of gene groups, a row a scale, from one group to the genes."""
    left, right = 7.62, 10.3
    rows = np.linspace(3.5, 1.2, len(SCALES))
    values = rng.gamma(1.6, 2.2, SCALES[-1])
    names = ("all genes", "groups", "smaller groups", "genes")
    places = [left + (np.arange(n) + 0.5) * (right - left) / n for n in SCALES]
    top = values.max()
    for k, (y, n) in enumerate(zip(rows, SCALES, strict=True)):
        ax.add_patch(FancyArrowPatch((6.72, y), (7.02, y), arrowstyle="-|>", mutation_scale=9, color=CONDITION))
        means = values.reshape(n, -1).mean(axis=1)
        for j, x in enumerate(places[k]):
            if k:
                parent = places[k - 1][j * SCALES[k - 1] // n]
                ax.plot([parent, x], [rows[k - 1] - 0.17, y + 0.17], color="#9a9a9a", linewidth=0.9, zorder=0)
            colour = plt.get_cmap("viridis")(0.12 + 0.8 * means[j] / top)
            text = f"{means[j]:.0f}" if k == len(SCALES) - 1 else f"{means[j]:.1f}"
            size = 0.27 if k == len(SCALES) - 1 else 0.42
            ax.add_patch(
                FancyBboxPatch((x - size / 2 + 0.06, y - 0.1), size - 0.12, 0.2, boxstyle="round,pad=0.06",
                               facecolor=colour, edgecolor="none")
            )  # fmt: skip
            dark = means[j] / top < 0.6
            ax.text(x, y, text, ha="center", va="center", fontsize=8.5, color="white" if dark else INK)
        ax.text(7.1, y, names[k].replace(" ", "\n"), ha="left", va="center", fontsize=8, color=MUTED, linespacing=0.95)
    arrow(ax, (10.42, 2.35), (10.8, 2.35))


def result(ax: Axes) -> None:
    """Draw the table of counts with what stands beside it."""
    left, bottom, cell = 11.0, 1.55, 0.2
    counts = rng.gamma(1.6, 2.2, (8, 7))
    for (row, column), value in np.ndenumerate(counts):
        shade = plt.get_cmap("viridis")(0.1 + 0.85 * min(value / 11, 1))
        place = (left + column * cell, bottom + row * cell)
        ax.add_patch(Rectangle(place, cell, cell, facecolor=shade, edgecolor="white", linewidth=0.6))
    right, top = left + 7 * cell, bottom + 8 * cell
    ax.text((left + right) / 2, top + 0.5, "var: genes", ha="center", va="center", fontsize=9, color=MUTED)
    ax.add_patch(Rectangle((left, top + 0.1), 7 * cell, 0.2, facecolor="#dddddd", edgecolor="none"))
    ax.add_patch(Rectangle((right + 0.1, bottom), 0.2, 8 * cell, facecolor="#dddddd", edgecolor="none"))
    ax.text(
        right + 0.5, bottom + 4 * cell, "obs: spots", rotation=270, ha="center", va="center", fontsize=9, color=MUTED
    )
    ax.text((left + right) / 2, bottom - 0.25, "X", ha="center", va="center", fontsize=11, weight="bold", color=INK)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
    """Draw an arrow between stages."""
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, linewidth=1.5, color=colour))


if __name__ == "__main__":
    main()
