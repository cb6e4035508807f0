"""One self-contained HTML page of a result: the slide with its spots, which opens from disk and asks no network.

The page is drawn by a few small scripts of our own on a canvas, not by bokeh: a gene is one compressed piece of some
ten kilobytes that the browser unpacks when it is chosen, spots are drawn at their true size, every control is a native
one or follows the ARIA patterns, and what is inlined beside the data is 50 kB in place of 1.4 MB.
"""

from genar.write.report.page import report

__all__ = ["report"]
