"""Options that say where to predict, told apart before a model is loaded."""

from pathlib import Path

import pytest

from genar.errors import ConfigError
from genar.jobs.given import check_where

DEFAULTS = {"spots": None, "pitch": None, "tissue": "auto", "features": None, "encoder_weights": None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pitch": 50.0}, "--pitch: it goes with --spots grid alone"),
        ({"spots": "vissium"}, "--spots: 'vissium' is no lattice"),
        ({"spots": "st", "features": Path("f")}, "--features: their tiles say"),
        ({"features": Path(), "tissue": "none"}, "--tissue: the places of the spots are given"),
        ({"tissue": "visium"}, "--tissue: there is no file or folder 'visium'"),
        ({"encoder_weights": Path("w")}, "--encoder-weights: there is no file or folder 'w'"),
    ],
)
def test_what_cannot_be(options: dict, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_where(**DEFAULTS)
    with pytest.raises(ConfigError, match=said):
        check_where(**DEFAULTS | options)
