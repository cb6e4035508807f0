"""Predict spatial gene expression, as integer counts per spot, from H&E whole-slide images.

``genar.read`` opens slides and sections, ``genar.pp`` lays and embeds spots, ``genar.tl`` predicts, ``genar.pl``
draws, :func:`genar.predict` does all of it, and :func:`genar.report` writes a page of a result. Everything is loaded
when first used.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genar import datasets, metrics, pl, pp, read, tl
    from genar.jobs.predict import predict
    from genar.write.report import report

__version__ = version("genar")
__all__ = ["__version__", "datasets", "metrics", "pl", "pp", "predict", "read", "report", "tl"]

_SUBMODULES = ("datasets", "metrics", "pl", "pp", "read", "tl")


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"genar.{name}")
    if name == "predict":
        return import_module("genar.jobs.predict").predict
    if name == "report":
        return import_module("genar.write.report").report
    msg = f"module 'genar' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
