"""Units as types, so that a micrometre is never passed for a pixel."""

from typing import NewType

TilePx = NewType("TilePx", int)
"""A length in pixels of an encoder's input."""

Mpp = NewType("Mpp", float)
"""A resolution, in µm per pixel of level 0."""
