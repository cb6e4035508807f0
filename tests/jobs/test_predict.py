"""What the prediction refuses before it begins."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from genar.errors import ConfigError, ModelError, OutputError
from genar.jobs import predict as job
from genar.jobs import predict_file
from genar.jobs.options import Options
from genar.model.config import ModelConfig
from genar.store import Model, ModelInfo


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((job, "load"), (predict_file, "load"), (job, "open_slide")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("the work began"))


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("folder", [".", "link"])
def test_the_slide_is_never_overwritten(
    tmp_path: Path, tissue_image: Callable[..., np.ndarray], folder: str, overwrite: bool
) -> None:
    slide = tmp_path / "slide.png"
    Image.fromarray(tissue_image(100, 30)).save(slide)
    (tmp_path / "link").symlink_to(tmp_path)
    before = slide.read_bytes()
    with pytest.raises(OutputError, match=r"slide.png: it is the slide itself; choose another folder with -o"):
        predict_file.predict_to_file(slide, tmp_path / folder, Options(mpp=0.5), overwrite=overwrite)
    assert slide.read_bytes() == before


def test_what_is_at_the_target_may_be_another_file(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for folder in (tmp_path, tmp_path / "results"):
        (folder / "slide.png").touch()
    with pytest.raises(OutputError, match="it exists; add --overwrite"):
        predict_file.predict_to_file(tmp_path / "slide.png", tmp_path / "results", Options())


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_seeds_that_a_file_cannot_hold(seed: int) -> None:
    with pytest.raises(ConfigError, match=r"--seed: -?\d+ is out of range; give a whole number from 0 to 2\*\*63 - 1"):
        job.predict("slide.svs", seed=seed)


def test_an_unknown_estimator() -> None:
    with pytest.raises(ConfigError, match="--estimator: 'median' is not known; give one of: mean, log_mean"):
        job.predict("slide.svs", estimator="median")  # type: ignore[arg-type]


def test_a_model_that_cannot_do_it_is_refused_before_the_slide_is_opened() -> None:
    info = ModelInfo(
        name="m", encoder="mine", feature_dim=3, tile_um=112.0, lattice="st", spot_um=100.0, pitch_um=200.0,
        scales=(1, 2), max_count=5, network=ModelConfig(), genar_version="0", sections=(),
    )  # fmt: skip
    model = Model(info, pd.DataFrame(index=["A", "B"]), torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"cannot compute the mine features .* obsm\['X_mine'\] .* genar\.tl\.predict"):
        job.predict("slide.svs", model)
    with pytest.raises(ConfigError, match="--depth: model m is not conditioned on the sequencing depth"):
        job.predict("slide.svs", model, depth=500.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"features": "f.h5", "spots": "st"}, "--features: their tiles say where the spots are; leave --spots"),
        ({"features": "f.h5", "tissue": "none"}, "--tissue: the places of the spots are given; leave it out"),
        ({"features": "none.h5"}, "--features: there is no file or folder 'none.h5'"),
        ({"tissue": "none.png"}, "--tissue: there is no file or folder 'none.png'"),
        ({"encoder_weights": "none.pt"}, "--encoder-weights: there is no file or folder 'none.pt'"),
        ({"pitch": 50.0}, "--pitch: it goes with --spots grid alone"),
        ({"spots": "hexes"}, "--spots: 'hexes' is no lattice, and there is no such file"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_the_slide_is_opened(options: dict[str, object], said: str) -> None:
    info = ModelInfo(
        name="m", encoder="efficientnet_lite0", feature_dim=1280, tile_um=112.0, lattice="st", spot_um=100.0,
        pitch_um=200.0, scales=(1, 2), max_count=5, network=ModelConfig(), genar_version="0", sections=(),
    )  # fmt: skip
    model = Model(info, pd.DataFrame(index=["A", "B"]), torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as e:
        job.predict("slide.svs", model, **options)  # type: ignore[arg-type]
    assert str(e.value).startswith(said)
