from collections.abc import Iterator

import pytest

from genar.encoders import cache
from genar.encoders.run import batches


class Encoded:
    """Counts the tiles that were encoded for a cache."""

    def __init__(self) -> None:
        self.tiles = 0

    def __call__(self, *args, **options) -> Iterator:
        for batch in batches(*args, **options):
            self.tiles += len(batch)
            yield batch


@pytest.fixture
def encoded(monkeypatch):
    counter = Encoded()
    monkeypatch.setattr(cache, "batches", counter)
    return counter
