"""Every shipped configuration trains: its own decoder, hierarchy and loss, on a small network and a few spots."""

from pathlib import Path

import pandas as pd
import pytest

from genar import keys, tl
from genar.cli.config import load
from genar.data.splits import Split
from genar.genes.hierarchy import Blocks
from genar.jobs.config import TrainConfig
from genar.jobs.fit import fit
from tests.jobs.conftest import section

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))
GENES = [f"G{i}" for i in range(200)]
SMALL = {
    "model.width": 16, "model.layers": 2, "model.heads": 2, "model.condition_width": 16, "model.histology_width": 16,
    "trainer.max_epochs": 1, "trainer.min_epochs": 1, "trainer.batch_size": 16, "trainer.accelerator": "cpu",
    "panel.max_count": 40,
}  # fmt: skip


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_it_trains_and_predicts(path: Path, tmp_path: Path) -> None:
    config = load(path, TrainConfig, SMALL | {"output": str(tmp_path)})
    sections = [section(name, seed, genes=GENES, tile_um=config.tiles.tile_um) for seed, name in enumerate("AB")]
    split = Split(train={"A": ""}, validation={"B": ""}, patients={"A": "a", "B": "b"})
    model = fit(config, sections[:1], sections[1:], pd.Index(GENES), split, tmp_path)
    assert model.info.network == config.model
    assert config.hierarchy.scales in (None, model.info.scales)
    assert isinstance(model.network.hierarchy, Blocks) == (config.hierarchy.method == "published")
    assert sorted(model.panel.index) == sorted(GENES)
    log = pd.read_csv(tmp_path / "metrics.csv")
    assert log["loss"].notna().any()
    assert log["val_pcc"].notna().any()
    predicted = tl.predict(sections[1], model)
    assert predicted.shape == (24, 200)
    assert predicted.X.max() <= model.info.max_count
    assert predicted.var[keys.TRAIN_MEAN].gt(0).all()
