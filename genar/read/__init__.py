"""Slides and measured sections."""

from genar.read.features import features
from genar.read.h5ad import h5ad
from genar.read.hest import hest
from genar.read.points import points
from genar.read.source import Source, find, section
from genar.read.spatialdata import spatialdata
from genar.read.st import st
from genar.read.visium import visium
from genar.slide.open import open_slide as slide

__all__ = ["Source", "features", "find", "h5ad", "hest", "points", "section", "slide", "spatialdata", "st", "visium"]
