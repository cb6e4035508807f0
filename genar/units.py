"""Units as types, so that a micrometre is never passed for a pixel, and the bounds on a tile."""

from typing import NewType

TilePx = NewType("TilePx", int)
"""A length in pixels of an encoder's input."""

Mpp = NewType("Mpp", float)
"""A resolution, in µm per pixel of level 0."""

LARGEST_TILE_UM = 10_000.0
"""Side of the largest tile that is sensible, in µm."""

TILE_TOLERANCE = 0.02
"""By how much, relative to its side, a tile that another program cut may be wider or narrower: it rounds to pixels, and
takes a scan of 0.2528 µm/px for one of 0.25."""
