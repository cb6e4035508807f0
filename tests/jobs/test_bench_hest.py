"""HEST-Bench as a benchmark: the official regression and GenAR on its own folds, cell by cell."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genar import metrics, store
from genar.cli.config import load
from genar.errors import DataError
from genar.jobs import bench_hest as job
from genar.jobs.bench_hest import bench_hest, means, table_of_tasks
from genar.jobs.cells import Cell
from genar.jobs.config import TrainConfig
from genar.jobs.hest_bench import read_task, run_fold
from genar.jobs.judge import predicted
from genar.read.hest_bench import tasks
from genar.read.hest_sample import log1p
from tests.jobs.conftest import CONFIG, SMALL

ENCODER = "efficientnet_lite0"


def test_the_official_regression_and_genar(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {
        "data.root": str(written), "output": str(tmp_path / "out"), "data.cache": str(tmp_path / "cache"),
        "hierarchy.scales": None, "trainer.refit": True, "trainer.max_epochs": 1, "model.layers": 1,
    }  # fmt: skip
    config = load(CONFIG, TrainConfig, SMALL | own)
    found = bench_hest(config, seeds=1)
    folds = pd.read_csv(tmp_path / "out/folds.csv")
    genes = pd.read_csv(tmp_path / "out/genes.csv")
    ridge = folds[folds["method"] == "HEST-Bench ridge"].reset_index(drop=True)
    (task,) = tasks(written)
    sections = read_task(task, ENCODER, cache=tmp_path / "cache")
    direct = [run_fold(fold, sections, ENCODER)[0] for fold in task.folds]
    np.testing.assert_allclose(ridge["PCC"], [score.pcc for score in direct], rtol=0, atol=1e-8)
    by_gene = np.concatenate([score.by_gene for score in direct])
    np.testing.assert_allclose(genes[genes["method"] == "HEST-Bench ridge"]["pcc"], by_gene, atol=1e-8)
    assert means(found).loc["HEST-Bench ridge"].tolist() == pytest.approx([ridge["PCC"].mean()] * 2)
    said = json.loads((tmp_path / "out/bench.json").read_text())
    assert said["mean"]["GenAR"] == pytest.approx(folds[folds["method"] == "GenAR"]["PCC"].mean(), rel=1e-5)
    assert (tmp_path / "out/table.md").read_text().startswith(table_of_tasks(found))

    cell = Cell("IDC-1", "GenAR", 0)
    model = store.load(cell.folder(tmp_path / "out") / "model")
    assert sorted(model.panel.index) == sorted(task.genes)
    assert model.info.tile_um == 16.0  # the patches' own side
    assert model.info.split is not None
    assert set(model.info.split.train) == {"IDC/A", "IDC/C"}  # in the end
    assert store.load(cell.folder(tmp_path / "out") / "selection/model").info.split.validation
    test = sections[task.folds[1].test[0]]
    log = predicted(model, test).log[:, model.panel.index.get_indexer(task.genes)]
    expected = np.nan_to_num(metrics.pearson(log, log1p(test)))
    assert folds.query("method == 'GenAR' and fold == 1")["PCC"].item() == pytest.approx(expected.mean(), abs=1e-6)

    (cell.folder(tmp_path / "out") / "scores.csv").unlink()
    done = []
    judged = job._judged
    monkeypatch.setattr(job, "_judged", lambda fold, cell, folder: done.append(cell) or judged(fold, cell, folder))
    monkeypatch.setattr(job, "run_fold", lambda *_: pytest.fail("done again"))
    again = bench_hest(config, seeds=1, resume=True)
    assert done == [cell]
    pd.testing.assert_frame_equal(again["IDC"].scores, found["IDC"].scores)


def test_a_folder_that_is_not_the_benchmarks(tmp_path: Path) -> None:
    config = load(
        CONFIG, TrainConfig, {"data.root": str(tmp_path), "data.sections": None, "output": str(tmp_path / "o")}
    )
    with pytest.raises(DataError, match="it holds no task; give a folder laid out as HEST-Bench"):
        bench_hest(config)
    assert not (tmp_path / "o").exists()
