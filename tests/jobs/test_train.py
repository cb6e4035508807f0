"""Training on made-up features: what it checks first, what it keeps, and how it stops."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.cli import app
from genar.cli.config import load
from genar.errors import ConfigError, OutputError
from genar.jobs import train as training
from genar.jobs.config import TrainConfig

CONFIG = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"
LIGHTNING = [
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore:.*does not have many workers.*",
    "ignore:.*isinstance.treespec.*",
    "ignore:.*lr_scheduler.step.*",
]
pytestmark = [pytest.mark.filterwarnings(w) for w in LIGHTNING]
Configure = Callable[..., TrainConfig]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def make(**changes: object) -> TrainConfig:
        small = {
            "data.root": str(tmp_path / "none"), "data.sections": ["A", "B"], "output": str(tmp_path / "run"),
            "panel.n_genes": 4, "hierarchy.scales": [1, 4], "trainer.max_epochs": 1, "trainer.batch_size": 4,
            "trainer.accelerator": "cpu",
        }  # fmt: skip
        return load(CONFIG, TrainConfig, small | {k.replace("__", "."): v for k, v in changes.items()})

    return make


def section(name: str, seed: int) -> AnnData:
    """Twelve spots with counts of five genes and four features, of which the last never varies."""
    random = np.random.default_rng(seed)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical([name] * 12)}, index=[f"{name}{i}" for i in range(12)])
    counts = csr_matrix(random.poisson([9, 7, 5, 3, 1], (12, 5)).astype(np.int32))
    adata = AnnData(counts, obs=obs, var=pd.DataFrame(index=list("PQRST")))
    adata.obsm[keys.SPATIAL] = random.random((12, 2)) * 100
    features = random.random((12, 4)).astype(np.float32)
    features[:, 3] = 0.25
    adata.obsm[keys.features("efficientnet_lite0")] = features
    geometry = {keys.LATTICE: "st", keys.SPOT_UM: 100.0, keys.PITCH_UM: 200.0, keys.TILE_UM: 154.0}
    adata.uns[keys.SPATIAL] = {name: {keys.METADATA: geometry}}
    return adata


@pytest.fixture
def sections(monkeypatch: pytest.MonkeyPatch) -> list[AnnData]:
    found = [section("A", 0), section("B", 1)]
    monkeypatch.setattr(training, "load_sections", lambda _: found)
    return found


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load_sections", lambda _: pytest.fail("the work began"))


@pytest.mark.usefixtures("no_work")
def test_a_folder_of_the_users_is_not_replaced(configure: Configure, tmp_path: Path) -> None:
    for name in ("model", "folds/B"):
        folder = tmp_path / "run" / name
        folder.mkdir(parents=True)
        (folder / "thesis.txt").touch()
        with pytest.raises(OutputError, match=f"{name}: it exists and is not a model"):
            training.train(configure())
        (folder / "thesis.txt").unlink()
        folder.rmdir()
    (tmp_path / "run" / "model").mkdir()
    (tmp_path / "run" / "heldout.csv").mkdir()
    with pytest.raises(OutputError, match="heldout.csv: a folder of that name is in the way"):
        training.train(configure())


@pytest.mark.usefixtures("no_work")
def test_a_folder_that_cannot_be_written_to_is_found_first(configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot be written to \(Not a directory\)"):
        training.train(configure(output=str(tmp_path / "file" / "run")))


@pytest.mark.usefixtures("no_work")
def test_a_missing_gpu_is_found_first(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    for accelerator in (training.CUDAAccelerator, training.MPSAccelerator):
        monkeypatch.setattr(accelerator, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="trainer.accelerator: there is no GPU here"):
        training.train(configure(trainer__accelerator="gpu"))


@pytest.mark.usefixtures("no_work")
def test_one_section_leaves_none_to_train_on(configure: Configure) -> None:
    with pytest.raises(ConfigError, match="leaving one section out needs two"):
        training.train(configure(data__sections=["A"]))


@pytest.mark.usefixtures("sections")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"run: it cannot be written to \(No space left on device\)"),
        (
            OSError(errno.EIO, "Input/output error", "/run/a"),
            r"^/run/a: it cannot be written to \(Input/output error\)",
        ),
    ],
    ids=["disk", "file"],
)
def test_a_disk_that_fills_up(configure: Configure, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str) -> None:
    def fit(*_: object) -> None:
        raise error

    monkeypatch.setattr(training, "fit", fit)
    with pytest.raises(OutputError, match=said):
        training.train(configure())


def test_features_are_scaled_by_their_spread(configure: Configure, sections: list[AnnData], tmp_path: Path) -> None:
    model = training.fit(configure(), sections, tmp_path / "logs" / "a")
    features = np.concatenate([s.obsm[keys.features("efficientnet_lite0")] for s in sections])
    std = model.network.condition.feature_std.numpy()
    np.testing.assert_allclose(std[:3], features.std(axis=0)[:3], rtol=1e-6)
    assert std[3] == 1  # as it never varies, what another slide has there is not blown up
    assert keys.GENE_IDS not in model.panel


def test_gene_ids_come_along(configure: Configure, sections: list[AnnData], tmp_path: Path) -> None:
    for s in sections:
        s.var[keys.GENE_IDS] = pd.Categorical([f"ENSG{gene}" for gene in s.var_names])
    model = training.fit(configure(), sections, tmp_path / "logs" / "a")
    assert model.panel[keys.GENE_IDS].tolist() == [f"ENSG{gene}" for gene in model.panel.index]


def test_an_undefined_correlation_counts_as_none(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P is defined in one of two folds; S is in the panel of the first alone."""
    folds = iter([pd.Series({"P": 0.8, "S": 0.5}), pd.Series({"P": np.nan})])
    made = SimpleNamespace(panel=pd.DataFrame(index=["P", "S"]), info=None)
    monkeypatch.setattr(training, "fit", lambda *_: made)
    monkeypatch.setattr(training, "evaluate", lambda *_: (pd.DataFrame({"method": ["GenAR"]}), next(folds)))
    for name in ("save", "model_card"):
        monkeypatch.setattr(training, name, lambda *_: None)
    (tmp_path / "run").mkdir()
    _, pcc = training._leave_one_section_out(configure(), sections)
    assert pcc.to_dict() == {"P": 0.4, "S": 0.5}
    assert pd.read_csv(tmp_path / "run" / "heldout_genes.csv", index_col="gene")["B"].isna().tolist() == [False, True]


@pytest.mark.usefixtures("sections")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_and_status_130(
    configure: Configure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    """Lightning catches an interrupt and leaves with status 1; the command line must not."""

    def step(*_: object) -> torch.Tensor:
        os.kill(os.getpid(), number)
        pytest.fail("the training went on")

    monkeypatch.setattr(training.GenARModule, "training_step", step)
    (tmp_path / "c.yaml").write_text(configure().model_dump_json())
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as left:
            app.main(["train", str(tmp_path / "c.yaml")])
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
    assert left.value.code == 130
    assert capsys.readouterr().err == "genar: training without section A\ngenar: interrupted\n"
    assert not (tmp_path / "run" / "model").exists()


def losses(folder: Path) -> list[float]:
    return pd.read_csv(folder / "metrics.csv")["loss"].dropna().tolist()


def test_arithmetic_and_memory_change_no_more_than_rounding(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function: compiled.append(function) or function)
    more = {"model__drop_path": 0.0, "model__dropout": 0.0, "model__feature_dropout": 0.0, "trainer__max_epochs": 3}
    training.fit(configure(**more), sections, tmp_path / "logs" / "plain")
    plain = losses(tmp_path / "logs" / "plain")
    assert compiled == []
    for name, value, close in (("recompute", True, 1e-6), ("compile", True, 1e-6), ("precision", "bf16-mixed", 0.02)):
        training.fit(configure(**more, **{f"trainer__{name}": value}), sections, tmp_path / "logs" / name)
        assert losses(tmp_path / "logs" / name) == pytest.approx(plain, rel=close)
    assert len(compiled) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hierarchy__scales": [4]}, 'gene_attention "coarser" needs a scale coarser than the genes'),
        ({"model__scale_weights": [1.0]}, "1 scale_weights for 2 scales"),
        ({"model__decoder": "cumulative"}, "set handed_on to greedy"),
    ],
)
def test_a_network_that_does_not_fit_is_found_first(configure: Configure, changes: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configure(**changes)
