"""Units as types, so that a micrometre is never passed for a pixel, and the bound on a tile."""

from typing import NewType

TilePx = NewType("TilePx", int)
"""A length in pixels of an encoder's input."""

Mpp = NewType("Mpp", float)
"""A resolution, in µm per pixel of level 0."""

LARGEST_TILE_UM = 10_000.0
"""Side of the largest tile that is sensible, in µm."""
