import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data: GENAR_SHARED, by default ``shared`` beside the checkout."""
    folder = Path(os.environ.get("GENAR_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "data").is_dir():
        reason = f"the real data are not at {folder} (set GENAR_SHARED)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
