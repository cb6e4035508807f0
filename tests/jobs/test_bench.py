"""A benchmark: the same sections for every method, cells that are done once, and figures that can be made again."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genar import store
from genar.baselines import BASELINES
from genar.baselines.fit import Recipe
from genar.cli.config import load as load_config
from genar.data.splits import plan
from genar.data.spots import SpotTable
from genar.errors import ConfigError, OutputError
from genar.jobs import bench as job
from genar.jobs import cells, contenders
from genar.jobs.bench import bench
from genar.jobs.benchmark import Benchmark
from genar.jobs.config import TrainConfig
from genar.jobs.judge import judged, predicted
from genar.jobs.prepare import FEATURES
from genar.jobs.train import Data
from genar.metrics import Training
from genar.metrics.bootstrap import over_sections
from tests.jobs.conftest import CONFIG, SMALL, section

METHODS = ("gene mean", "ridge", "MLP", "GenAR", "continuous GenAR")
PANEL = pd.Index(list("PQRSTU"))


def loaded(config: TrainConfig) -> Data:
    """Four sections of one patient each, whose features are at hand."""
    sections = {name: section(name, seed) for seed, name in enumerate("ABCD")}
    for name, one in sections.items():
        one.uns[FEATURES] = name
    runs = plan(config.split, {name: name for name in sections}, {name: f"#{name}" for name in sections}, config.seed)
    return Data(sections, runs, dict.fromkeys(runs, PANEL), dict.fromkeys(runs, PANEL))


def configured(output: Path, **changes: object) -> TrainConfig:
    fixed = {
        "data.root": "none", "output": str(output), "split.method": "holdout", "split.test": ["A", "B"],
        "split.validation": "none", "split.shared_patients": [], "model.layers": 1, "trainer.max_epochs": 1,
    }  # fmt: skip
    more = {key.replace("__", "."): value for key, value in changes.items()}
    return load_config(CONFIG, TrainConfig, SMALL | fixed | more)


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "load", loaded)
        patch.setattr("genar.baselines.mlp.RECIPE", Recipe(max_epochs=2))
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Benchmark]:
    folder = tmp_path_factory.mktemp("bench") / "out"
    return folder, bench(configured(folder), seeds=2, methods=METHODS)


def test_every_method_is_judged_on_every_section_with_its_seeds(done: tuple[Path, Benchmark]) -> None:
    folder, found = done
    expected = [
        (name, method, seed)
        for method in METHODS
        for seed in range(1 if method in contenders.UNSEEDED else 2)
        for name in "AB"
    ]
    scores = pd.read_csv(folder / "scores.csv")
    assert list(scores[["section", "method", "seed"]].itertuples(index=False, name=None)) == expected
    pd.testing.assert_frame_equal(scores, found.scores)
    genes = pd.read_csv(folder / "genes.csv")
    assert genes.groupby(["section", "method", "seed"])["gene"].apply(set).map(set(PANEL).__eq__).all()
    mean = genes.fillna({"pcc": 0.0}).groupby(["section", "method", "seed"])["pcc"].mean()
    np.testing.assert_allclose(mean[expected], scores["PCC"])
    for name in ("scores.png", "bench.log", "config.yaml", "split.json"):
        assert (folder / name).stat().st_size > 100


def test_seeds_differ_for_those_that_draw(done: tuple[Path, Benchmark]) -> None:
    by_seed = done[1].scores.pivot(index=["method", "section"], columns="seed", values="MSE")
    for method in ("MLP", "GenAR", "continuous GenAR"):
        assert (by_seed.loc[method, 0] != by_seed.loc[method, 1]).all()


@pytest.mark.parametrize("method", ["GenAR", "continuous GenAR", "ridge"])
def test_a_cells_figures_are_those_of_its_model(done: tuple[Path, Benchmark], method: str) -> None:
    folder, found = done
    data = loaded(configured(folder))
    known = SpotTable.of(data.of("CD"), PANEL, "efficientnet_lite0")
    genes = PANEL
    if method == "ridge":
        test = SpotTable.of(data.of("A"), None, "efficientnet_lite0")
        (prediction,) = BASELINES["ridge"](known, [test], 0)
    else:
        model = store.load(cells.Cell("final", method, 1).folder(folder) / "model")
        prediction, genes = predicted(model, data.sections["A"]), model.panel.index
    training = Training.of(known.counts).genes(PANEL.get_indexer(genes))
    expected, _ = judged(prediction, data.sections["A"], genes, training)
    row = found.scores.query("section == 'A' and method == @method").iloc[-1]
    for name in ("PCC", "MSE", "NB NLL", "Moran PCC"):
        assert row[name] == pytest.approx(expected[name], rel=1e-6), name
    assert np.isfinite(row["NLL"]) == (method == "GenAR")


def test_the_control_regresses_and_has_no_likelihood(done: tuple[Path, Benchmark]) -> None:
    folder, found = done
    model = store.load(cells.Cell("final", "continuous GenAR", 0).folder(folder) / "model")
    assert (model.info.network.distribution, model.info.network.linear) == ("mse", False)
    own = found.scores[found.scores["method"] == "continuous GenAR"]
    assert own["NLL"].isna().all()
    assert own["PCC"].ne(0).all()  # rounded to counts, so short a training would predict constants


def test_the_summary_has_seeds_intervals_and_the_lead(done: tuple[Path, Benchmark]) -> None:
    folder, found = done
    said = json.loads((folder / "bench.json").read_text())
    of_seeds = found.scores.groupby(["method", "section"], sort=False)["MSE"].mean()
    ridge = said["methods"]["ridge"]["MSE"]
    assert ridge["mean"] == pytest.approx(of_seeds["ridge"].mean(), rel=1e-5)
    assert [ridge["low"], ridge["high"]] == pytest.approx(over_sections(of_seeds["ridge"]), rel=1e-5)
    assert ridge["sd_seeds"] is None
    own = found.scores.query("method == 'GenAR'").groupby("seed")["MSE"].mean()
    assert said["methods"]["GenAR"]["MSE"]["sd_seeds"] == pytest.approx(abs(own[0] - own[1]) / 2**0.5, rel=1e-5)
    lead = (of_seeds["GenAR"] - of_seeds["ridge"]).to_numpy()
    less = said["GenAR less"]["ridge"]["MSE"]
    assert less["mean"] == pytest.approx(lead.mean(), rel=1e-5)
    assert [less["low"], less["high"]] == pytest.approx(over_sections(lead), rel=1e-5)
    assert said["methods"]["ridge"]["NLL"] == {"mean": None, "low": None, "high": None, "sd_seeds": None}
    table = (folder / "table.md").read_text()
    line = next(line for line in table.splitlines() if line.startswith("| ridge"))
    assert f"{ridge['mean']:.3f} [{ridge['low']:.3f}, {ridge['high']:.3f}]" in line
    assert f"{less['mean']:+.3f} [{less['low']:+.3f}, {less['high']:+.3f}]" in table
    assert "Mean of 2 sections and 2 seeds" in table


def test_only_what_is_missing_is_done(done: tuple[Path, Benchmark], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, found = done
    config, worked = configured(folder), []
    measured = job.measured

    def counted(fold: contenders.Fold, cell: cells.Cell, folder: Path) -> cells.Tables:
        worked.append(cell)
        return measured(fold, cell, folder)

    monkeypatch.setattr(job, "measured", counted)
    gone = cells.Cell("final", "GenAR", 1)
    (gone.folder(folder) / "scores.csv").unlink()
    again = bench(config, seeds=2, methods=METHODS, resume=True)
    assert worked == [gone]
    pd.testing.assert_frame_equal(again.scores, found.scores)
    more = bench(config, seeds=2, methods=(*METHODS, "k-nearest spots"), resume=True)
    assert {cell.method for cell in worked[1:]} == {"k-nearest spots"}
    assert more.scores["method"].nunique() == 6
    with pytest.raises(ConfigError, match=r"begun with other settings, optimizer.lr: 0.001 .now 0.5"):
        bench(configured(folder, optimizer__lr=0.5), seeds=2, methods=METHODS, resume=True)
    with pytest.raises(OutputError, match="add --resume"):
        bench(config)


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object) -> cells.Tables:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "measured", measured)
    with pytest.raises(KeyboardInterrupt):
        bench(configured(tmp_path / "out"), methods=("ridge",))
    assert "go on with --resume" in (tmp_path / "out" / "bench.log").read_text()


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({}, {"methods": ("magic",)}, "--methods: 'magic' is not known; give some of: GenAR, continuous GenAR, gene"),
        ({}, {"methods": ("ridge", "ridge")}, "--methods: 'ridge' is named twice"),
        ({}, {"seeds": 0}, "--seeds: 0 is too few"),
        ({"split__method": "none", "split__test": []}, {}, "none leaves no section to judge on"),
        ({"trainer__devices": 2}, {}, "runs on one device"),
    ],
)
def test_what_cannot_be(tmp_path: Path, changes: dict, options: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bench(configured(tmp_path / "out", **changes), **options)
    assert not (tmp_path / "out").exists()
