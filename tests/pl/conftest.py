from collections.abc import Iterator

import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _pyplot_is_empty() -> Iterator[None]:
    """Pyplot keeps figures from test to test, and warns of many."""
    plt.close("all")
    yield
    plt.close("all")
