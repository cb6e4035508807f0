"""Units as types, so that a micrometre is never passed for a pixel."""

from typing import NewType

Microns = NewType("Microns", float)
"""A length on the tissue, in µm."""

SlidePx = NewType("SlidePx", float)
"""A length or coordinate in pixels of the slide's level 0 (full resolution)."""

TilePx = NewType("TilePx", int)
"""A length in pixels of an encoder's input."""

Mpp = NewType("Mpp", float)
"""A resolution, in µm per pixel of level 0."""
