"""Encoders that stay in memory from slide to slide, where many are predicted."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from genar.encoders import registry
from genar.encoders.registry import Encoder, weights_sha256

_keeping: ContextVar[bool] = ContextVar("keeping", default=False)


@contextmanager
def keeping() -> Iterator[None]:
    """Keep the last encoder that is created within, for as long as the process lives, and take it again within."""
    token = _keeping.set(True)
    try:
        yield
    finally:
        _keeping.reset(token)


def create(name: str, weights: Path | None = None) -> Encoder:
    """Return an encoder as :func:`genar.encoders.registry.create` does, within :func:`keeping` the one that is there.

    Raises
    ------
    ModelError
        As that function.
    """
    if _keeping.get():
        return _kept(name, weights, weights_sha256(name, weights))
    return registry.create(name, weights)


@lru_cache(maxsize=1)
def _kept(name: str, weights: Path | None, _: str) -> Encoder:
    return registry.create(name, weights)
