"""Plots, in scanpy's sense.

What draws into one axes takes ``ax`` and returns it; without, it opens a pyplot figure, as seaborn does. What draws
several returns a figure of its own.
"""

from genar.pl.correlations import correlations
from genar.pl.heldout import genes
from genar.pl.hierarchy import hierarchy
from genar.pl.reliability import reliability
from genar.pl.spots import gene, marker, overview, save_overview
from genar.pl.tissue import tissue
from genar.pl.training import curves

__all__ = [
    "correlations",
    "curves",
    "gene",
    "genes",
    "hierarchy",
    "marker",
    "overview",
    "reliability",
    "save_overview",
    "tissue",
]
