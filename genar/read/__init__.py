"""Slides and measured sections."""

from genar.read.st import st
from genar.slide.open import open_slide as slide

__all__ = ["slide", "st"]
