"""Predict spatial gene expression, as integer counts per spot, from H&E whole-slide images.

``genar.read`` opens slides and sections, ``genar.pp`` lays and embeds spots, ``genar.tl`` predicts, ``genar.pl``
draws, and :func:`genar.predict` does all of it; :func:`genar.report` writes a page of a result, :func:`genar.export`
hands results on to other programs, and ``genar.lazyslide`` is for use within LazySlide. Everything is loaded when
first used.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar import datasets, lazyslide, metrics, pl, pp, read, tl
    from genar.jobs.export import export
    from genar.jobs.predict import predict
    from genar.write.report import report

__version__ = version("genar")
__all__ = ["__version__", "datasets", "export", "lazyslide", "metrics", "pl", "pp", "predict", "read", "report", "tl"]

_SUBMODULES = ("datasets", "lazyslide", "metrics", "pl", "pp", "read", "tl")
_FUNCTIONS = {"export": "genar.jobs.export", "predict": "genar.jobs.predict", "report": "genar.write.report"}


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"genar.{name}")
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    msg = f"module 'genar' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
