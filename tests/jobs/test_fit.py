"""One training: what the model takes from its sections, when it stops, what it keeps, and how it goes on."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from anndata import AnnData
from safetensors.torch import load_file

from genar import keys
from genar.data.module import SpotsDataModule
from genar.data.splits import Split
from genar.errors import ConfigError, ModelError
from genar.jobs import fit as fitting
from genar.jobs.fit import best_epoch, fit, prepare
from genar.jobs.module import GenARModule
from genar.store import Model, load
from tests.jobs.conftest import Configure, section

GENES = pd.Index(list("PQRSTU"))
NOTHING = {"model__drop_path": 0.0, "model__dropout": 0.0, "model__feature_dropout": 0.0}


@pytest.fixture
def sections() -> list[AnnData]:
    return [section(name, seed) for seed, name in enumerate("ABC")]


def split(train: list[AnnData], validation: list[AnnData] | None = None) -> Split:
    names = [[str(s.obs[keys.LIBRARY_ID].iloc[0]) for s in side] for side in (train, validation or [])]
    sides = [dict.fromkeys(side, "hash") for side in names]
    return Split(train=sides[0], validation=sides[1], patients={n: n for side in names for n in side})


def run(configure: Configure, train: list[AnnData], held: list[AnnData], folder: Path, **changes: object) -> Model:
    epochs = changes.pop("epochs", None)
    return fit(configure(**changes), train, held, GENES, split(train, held), folder, epochs=epochs)


def log(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "metrics.csv")


def test_features_are_scaled_by_their_spread(configure: Configure, sections: list[AnnData]) -> None:
    model, _ = prepare(configure(), sections, [], GENES, split(sections))
    features = np.concatenate([s.obsm[keys.features("efficientnet_lite0")] for s in sections])
    std = model.network.condition.feature_std.numpy()
    np.testing.assert_allclose(std[:3], features.std(axis=0)[:3], rtol=1e-5)
    assert std[3] == 1  # as it never varies, what another slide has there is not blown up
    assert keys.GENE_IDS not in model.panel


def test_what_the_model_says_of_its_training(configure: Configure, sections: list[AnnData]) -> None:
    known = split(sections[:2], sections[2:])
    model, _ = prepare(configure(panel__max_count=17), sections[:2], sections[2:], GENES, known)
    assert model.info.sections == ("A", "B")
    assert model.info.split == known.for_model()
    assert "patient" not in model.info.model_dump_json().replace("patients", "")  # whose names are not passed on
    assert model.info.max_count == 17
    counts = np.concatenate([s[:, model.panel.index].X.toarray() for s in sections[:2]])
    np.testing.assert_allclose(model.panel[keys.TRAIN_MEAN], counts.mean(axis=0))


def test_the_model_knows_what_its_training_sections_look_like(
    configure: Configure, sections: list[AnnData], tmp_path: Path
) -> None:
    """Of those alone: other validation sections make no difference."""
    trained = run(configure, sections[:2], sections[2:], tmp_path / "run", trainer__max_epochs=1)
    other, _ = prepare(configure(), sections[:2], sections[1:], GENES, split(sections))
    whole, _ = prepare(configure(), sections, [], GENES, split(sections))
    features = [np.asarray(s.obsm[keys.features("efficientnet_lite0")]) for s in sections]
    for reference in (trained.reference, other.reference, whole.reference):
        assert reference is not None
    np.testing.assert_array_equal(trained.reference.mean, other.reference.mean)  # type: ignore[union-attr]
    np.testing.assert_array_equal(trained.reference.quantiles, other.reference.quantiles)  # type: ignore[union-attr]
    assert not np.array_equal(trained.reference.mean, whole.reference.mean)  # type: ignore[union-attr]
    assert (trained.reference.percentile(-features[2]) == 100).all()  # type: ignore[union-attr]
    assert trained.reference.percentile(features[2]).mean() < 80  # type: ignore[union-attr]


def test_gene_ids_come_along_from_whichever_section_has_them(configure: Configure, sections: list[AnnData]) -> None:
    sections[1].var[keys.GENE_IDS] = pd.Categorical([f"ENSG{gene}" for gene in sections[1].var_names])
    sections[2].var[keys.GENE_IDS] = "other"
    model, _ = prepare(configure(), sections, [], GENES, split(sections))
    assert model.panel[keys.GENE_IDS].tolist() == [f"ENSG{gene}" for gene in model.panel.index]


def test_a_gene_that_a_section_lacks_has_its_mean_over_the_others(
    configure: Configure, sections: list[AnnData], tmp_path: Path
) -> None:
    sections[1] = sections[1][:, [g for g in sections[1].var_names if g != "Q"]].copy()
    model, (table, _) = prepare(configure(), sections, [], GENES, split(sections))
    assert not table.measured.all()
    expected = np.concatenate([sections[i][:, "Q"].X.toarray() for i in (0, 2)]).mean()
    assert model.panel.loc["Q", keys.TRAIN_MEAN] == pytest.approx(expected)
    trained = run(configure, sections, [sections[1]], tmp_path / "run")
    assert all(p.isfinite().all() for p in trained.network.parameters())


@pytest.mark.parametrize(("monitor", "best"), [("pcc", "max"), ("nll", "min")])
def test_the_best_epoch_is_kept_and_stops_the_training(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monitor: str, best: str
) -> None:
    """A rate far too high makes later epochs worse."""
    settings = {"trainer__max_epochs": 12, "trainer__patience": 2, "trainer__monitor": monitor, "optimizer__lr": 0.03}
    model = run(configure, sections[:2], sections[2:], tmp_path / "run", **settings)
    scores = log(tmp_path / "run")[f"val_{monitor}"].dropna()
    assert best_epoch(tmp_path / "run") == 1 + (scores.argmax() if best == "max" else scores.argmin())
    assert len(scores) == min(12, best_epoch(tmp_path / "run") + 2) < 12
    assert not (tmp_path / "run" / "last.ckpt").exists()
    alone = SpotsDataModule(*prepare(configure(), sections[:2], sections[2:], GENES, split(sections))[1], 64)
    module = GenARModule(model.network, configure().optimizer, configure().trainer, sections=1)
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    for batch in alone.val_dataloader():
        module.validation_step(batch, 0)
    found = module.pearson if monitor == "pcc" else module.nll
    assert float(found.compute()) == pytest.approx(getattr(scores, best)(), abs=1e-5)  # the weights are that epoch's


def test_no_epoch_is_chosen_before_the_first_that_may_be(
    configure: Configure, sections: list[AnnData], tmp_path: Path
) -> None:
    settings = {"trainer__max_epochs": 9, "trainer__patience": 3, "trainer__min_epochs": 5, "optimizer__lr": 0.03}
    run(configure, sections[:2], sections[2:], tmp_path / "run", **settings)
    scores = log(tmp_path / "run")["val_pcc"].dropna().to_numpy()
    assert scores[:4].max() > scores[4:].max()  # else this says nothing
    assert best_epoch(tmp_path / "run") == 5 + scores[4:].argmax()
    assert len(scores) == min(9, best_epoch(tmp_path / "run") + 3)


def test_the_model_can_be_loaded_while_training_goes_on(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def start(self: GenARModule) -> None:
        if self.current_epoch:
            seen.append(load(tmp_path / "run" / "model").info.name)

    monkeypatch.setattr(GenARModule, "on_train_epoch_start", start, raising=False)
    run(configure, sections[:2], sections[2:], tmp_path / "run")
    assert seen == ["her2st-mini"] * 2


def test_without_validation_the_last_epoch_is_kept(
    configure: Configure, sections: list[AnnData], tmp_path: Path
) -> None:
    run(configure, sections, [], tmp_path / "run")
    assert best_epoch(tmp_path / "run") == 3
    run(configure, sections, [], tmp_path / "two", epochs=2)
    assert best_epoch(tmp_path / "two") == 2
    a, b = (log(tmp_path / name).dropna(subset="loss") for name in ("run", "two"))
    assert b["loss"].tolist() == a["loss"].tolist()[: len(b)]  # the learning rate is that of the whole schedule


def test_the_average_of_the_weights_is_judged_and_kept(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"optimizer__lr": 0.02, "trainer__max_epochs": 4}
    plain = run(configure, sections[:2], [], tmp_path / "plain", **settings)
    heads, step = [], GenARModule.optimizer_step

    def noted(self: GenARModule, *args: object, **kwargs: object) -> None:
        step(self, *args, **kwargs)
        heads.append(self.network.head.weight.detach().clone())

    monkeypatch.setattr(GenARModule, "optimizer_step", noted)
    average = run(configure, sections[:2], [], tmp_path / "ema", **settings, trainer__ema=0.9)
    assert log(tmp_path / "ema")["loss"].dropna().tolist() == log(tmp_path / "plain")["loss"].dropna().tolist()
    assert torch.equal(plain.network.head.weight, heads[-1])
    expected = heads[0]
    for updates, head in enumerate(heads[1:], 1):
        decay = min(0.9, (1 + updates) / (10 + updates))
        expected = decay * expected + (1 - decay) * head
    assert torch.allclose(average.network.head.weight, expected, atol=1e-6)


def test_the_average_forgets_sooner_at_the_start(configure: Configure, sections: list[AnnData]) -> None:
    model, _ = prepare(configure(), sections, [], GENES, split(sections))
    module = GenARModule(model.network, configure().optimizer, configure(trainer__ema=0.9).trainer)
    for updates, decay in ((0, 0.1), (10, 0.55), (1000, 0.9)):
        average = [torch.ones(3)]
        module._average(average, [torch.zeros(3)], updates)
        assert average[0].tolist() == pytest.approx([decay] * 3)


def test_a_finished_training_is_not_done_again(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(configure, sections, [], tmp_path / "run")
    monkeypatch.setattr(fitting, "prepare", lambda *_: pytest.fail("the work began"))
    assert run(configure, sections, [], tmp_path / "run").sha256 == first.sha256


@pytest.mark.parametrize("dies_in", [0, 1, 2])
def test_an_interrupted_training_goes_on_as_it_would_have(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_in: int
) -> None:
    """With everything that draws: dropout, paths, thinning, views and the running average."""
    for s in sections:
        plain = s.obsm[keys.features("efficientnet_lite0")]
        s.obsm[keys.views("efficientnet_lite0")] = np.stack([plain + 0.01, plain - 0.01], axis=1)
    settings = {"trainer__ema": 0.8, "model__library_size": True, "trainer__thin_to": 0.5, "trainer__patience": 2}
    whole = run(configure, sections[:2], sections[2:], tmp_path / "whole", **settings)
    step = GenARModule.training_step

    def dies(self: GenARModule, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        if self.current_epoch == dies_in and number == 3:
            raise RuntimeError("power failure")
        return step(self, batch, number)

    monkeypatch.setattr(GenARModule, "training_step", dies)
    with pytest.raises(RuntimeError, match="power failure"):
        run(configure, sections[:2], sections[2:], tmp_path / "run", **settings)
    monkeypatch.setattr(GenARModule, "training_step", step)
    torch.manual_seed(99)
    resumed = run(configure, sections[:2], sections[2:], tmp_path / "run", **settings)
    assert resumed.sha256 == whole.sha256
    a, b = log(tmp_path / "whole"), log(tmp_path / "run")
    pd.testing.assert_frame_equal(a, b[a.columns])
    assert (tmp_path / "run" / "fit.json").read_text() == (tmp_path / "whole" / "fit.json").read_text()


def test_a_training_that_dies_after_its_last_epoch_is_not_trained_on(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"trainer__patience": 1, "trainer__max_epochs": 12, "optimizer__lr": 0.03}
    whole = run(configure, sections[:2], sections[2:], tmp_path / "whole", **settings)
    assert best_epoch(tmp_path / "whole") < 11
    done = fitting._done

    def dies(*_: object) -> None:
        raise RuntimeError("power failure")

    monkeypatch.setattr(fitting, "_done", dies)
    with pytest.raises(RuntimeError, match="power failure"):
        run(configure, sections[:2], sections[2:], tmp_path / "run", **settings)
    monkeypatch.setattr(fitting, "_done", done)
    assert run(configure, sections[:2], sections[2:], tmp_path / "run", **settings).sha256 == whole.sha256
    assert (tmp_path / "run" / "fit.json").read_text() == (tmp_path / "whole" / "fit.json").read_text()


def test_what_cannot_be_resumed_is_told(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: GenARModule) -> None:
        if self.current_epoch == 1:
            raise RuntimeError("power failure")

    monkeypatch.setattr(GenARModule, "on_train_epoch_start", dies, raising=False)
    with pytest.raises(RuntimeError, match="power failure"):
        run(configure, sections, [], tmp_path / "run")
    with pytest.raises(ConfigError, match="model: the panel or its groups are not those"):
        run(configure, sections, [], tmp_path / "run", hierarchy__method="random")
    last = tmp_path / "run" / "last.ckpt"
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"last.ckpt: it is damaged .*; remove it"):
        run(configure, sections, [], tmp_path / "run")


def test_a_loss_that_is_no_number_ends_the_training(
    configure: Configure, sections: list[AnnData], tmp_path: Path
) -> None:
    sections[0].obsm[keys.features("efficientnet_lite0")][3, 0] = np.nan
    with pytest.raises(ConfigError, match=r"optimizer.lr: the loss is nan at step \d; set it lower than 0.001"):
        run(configure, sections, [], tmp_path / "run")


def test_validation_is_not_told_the_depth_of_its_section(configure: Configure, sections: list[AnnData]) -> None:
    sections[2].X = sections[2].X * 5
    model, (_, held_out) = prepare(configure(), sections[:2], sections[2:], GENES, split(sections))
    assert held_out is not None
    np.testing.assert_allclose(held_out.log_library_size, np.log(model.info.library_size), rtol=1e-6)


def test_arithmetic_and_memory_change_no_more_than_rounding(
    configure: Configure, sections: list[AnnData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function: compiled.append(function) or function)
    run(configure, sections, [], tmp_path / "plain", **NOTHING)
    plain = log(tmp_path / "plain")["loss"].dropna().tolist()
    assert compiled == []
    for name, value, close in (("recompute", True, 1e-6), ("compile", True, 1e-6), ("precision", "bf16-mixed", 0.02)):
        run(configure, sections, [], tmp_path / name, **NOTHING, **{f"trainer__{name}": value})
        assert log(tmp_path / name)["loss"].dropna().tolist() == pytest.approx(plain, rel=close)
    assert len(compiled) == 1


def test_tensorboard_is_written_where_asked(configure: Configure, sections: list[AnnData], tmp_path: Path) -> None:
    run(configure, sections, [], tmp_path / "run", trainer__tensorboard=True, trainer__max_epochs=1)
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))
    assert not (tmp_path / "run" / "tensorboard" / "checkpoints").exists()


def test_the_weights_on_disk_are_those_in_memory(configure: Configure, sections: list[AnnData], tmp_path: Path) -> None:
    model = run(configure, sections, [], tmp_path / "run", trainer__max_epochs=1)
    state = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(state[k], v) for k, v in model.network.state_dict().items())
    assert json.loads((tmp_path / "run" / "model" / "config.json").read_text())["split"]["train"].keys() == set("ABC")
    assert dataclasses.is_dataclass(model)
