from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData

from tests.read import layouts


@pytest.fixture(scope="session")
def cut(shared: Path) -> tuple[AnnData, np.ndarray]:
    """A corner of a real her2st section, and its image."""
    return layouts.small_section(shared)


@pytest.fixture(scope="session")
def on_visium(cut: tuple[AnnData, np.ndarray]) -> tuple[AnnData, np.ndarray]:
    """Its spots on a Visium array of 100 px, which is 1 µm per pixel, with a blank slide."""
    section, side = layouts.on_visium(cut[0])
    return section, np.full((side, side, 3), 230, dtype=np.uint8)
