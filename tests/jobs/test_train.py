"""The job as a whole, on small sections on disk: what it checks first, what it writes, and how it stops."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy.sparse import csr_matrix

from genar import keys, store
from genar.cli import app
from genar.errors import ConfigError, DataError, ModelError, OutputError
from genar.jobs import train as training
from genar.jobs.train import train
from tests.jobs.conftest import Configure

PATIENTS = {"split__validation": "patient", "split__shared_patients": []}
HOLDOUT = PATIENTS | {"split__method": "holdout", "split__test": ["patient D"]}


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load", lambda _: pytest.fail("the work began"))


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep features between the tests, whose sections are alike."""
    monkeypatch.setenv("GENAR_CACHE", str(tmp_path_factory.getbasetemp() / "features"))


@pytest.mark.usefixtures("no_work")
def test_a_folder_of_the_users_is_not_written_to(configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").touch()
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(OutputError, match="run: it exists and is not a run folder"):
            train(configure(), **how)


@pytest.mark.usefixtures("no_work")
def test_a_folder_that_cannot_be_written_to_is_found_first(configure: Configure, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot be written to \(Not a directory\)"):
        train(configure(output=str(tmp_path / "file" / "run")))


@pytest.mark.usefixtures("no_work")
def test_a_missing_gpu_is_found_first(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="trainer.accelerator: there is no GPU with CUDA here"):
        train(configure(trainer__accelerator="gpu"))


@pytest.mark.usefixtures("cached")
def test_folds_are_judged_beside_the_baselines_and_the_model_tells_of_them(
    configure: Configure, cohort: Path, tmp_path: Path
) -> None:
    config = configure(data__root=str(cohort), **PATIENTS, split__method="leave_one_patient_out", trainer__max_epochs=1)
    heldout = train(config)
    assert heldout["section"].tolist() == [name for name in "ABCD" for _ in range(3)]
    assert heldout["method"].tolist() == ["GenAR", "ridge", "gene mean"] * 4
    run = tmp_path / "run"
    pd.testing.assert_frame_equal(pd.read_csv(run / "heldout.csv"), heldout)
    splits = json.loads((run / "split.json").read_text())
    assert list(splits.pop("features")) == list("ABCD")
    assert list(splits) == ["patient A", "patient B", "patient C", "patient D", "final"]
    for name, split in splits.items():
        model = store.load(run / "model" if name == "final" else run / "folds" / name.replace(" ", "_") / "model")
        assert model.info.split is not None
        assert model.info.split.sha256 == split["sha256"]
        assert not set(split["train"]) & set(split["test"])
    by_gene = pd.read_csv(run / "heldout_genes.csv", index_col="gene")
    final = store.load(run / "model")
    pd.testing.assert_series_equal(
        final.panel[keys.HELDOUT_PCC], by_gene.mean(axis=1).reindex(final.panel.index), check_names=False, rtol=1e-4
    )
    np.testing.assert_allclose(final.panel[keys.HELDOUT_PCC_MIN], by_gene.min(axis=1)[final.panel.index], rtol=1e-4)
    told = (final.panel[keys.HELDOUT_PCC] >= 0.4) & (final.panel[keys.HELDOUT_PCC_MIN] >= 0.2)
    assert final.panel[keys.RELIABLE].tolist() == told.tolist()
    assert final.reference is not None
    warned = f"{told.sum()} of 6 genes are reliable" in (run / "train.log").read_text()
    assert warned == (told.sum() < 3)
    fold = store.load(run / "folds" / "patient_A" / "model").panel
    np.testing.assert_allclose(fold[keys.HELDOUT_PCC], fold[keys.HELDOUT_PCC_MIN])  # its one section
    assert "patient B" in (run / "train.log").read_text()  # the check, which came before the folder was there
    assert "patient A" not in (run / "model" / "config.json").read_text()
    for name in ("curves.png", "hierarchy.png", "folds/patient_A/genes-A.png", "folds/patient_A/curves.png"):
        assert (run / name).stat().st_size > 500
    card = (run / "model" / "README.md").read_text()
    assert "**Optimistic**" not in card
    assert "| **mean** | ridge |" in card
    assert yaml.safe_load((run / "config.yaml").read_text())["trainer"]["max_epochs"] == 1


@pytest.mark.usefixtures("cached")
def test_a_model_that_no_section_judged_says_nothing_of_its_genes(configure: Configure, cohort: Path) -> None:
    changes = PATIENTS | {"split__method": "none", "split__validation": "none", "trainer__max_epochs": 1}
    config = configure(data__root=str(cohort), **changes)
    assert train(config).empty
    panel = store.load(config.output / "model").panel
    assert not {keys.HELDOUT_PCC, keys.HELDOUT_PCC_MIN, keys.RELIABLE} & set(panel)


@pytest.mark.usefixtures("cached")
def test_panels_are_of_the_training_sections_alone(configure: Configure, cohort: Path) -> None:
    """GENE0 is the rarest gene, but in section D, which is held out, made the most frequent."""
    path = cohort.parent / "D.h5ad"
    section = ad.read_h5ad(path)
    section.X = csr_matrix(section.X.toarray() + [5000, *[0] * 9])
    section.write_h5ad(path)
    data = training.load(configure(data__root=str(cohort), **HOLDOUT))
    assert "GENE0" not in data.panels["final"]
    assert "GENE9" in data.panels["final"]
    assert data.sections["D"].n_vars == 6


@pytest.mark.usefixtures("cached")
def test_weights_of_the_encoder_may_be_given(configure: Configure, cohort: Path) -> None:
    with pytest.raises(ModelError, match=r"none.safetensors"):
        training.load(configure(data__root=str(cohort), **HOLDOUT, tiles__weights="none.safetensors"))


@pytest.mark.usefixtures("cached")
def test_a_shared_patient_is_told_on_the_card(configure: Configure, cohort: Path, tmp_path: Path) -> None:
    sheet = pd.read_csv(cohort).assign(patient="the one")
    sheet.to_csv(cohort, index=False)
    changes = {"data__root": str(cohort), "trainer__max_epochs": 1, "data__sections": ["A", "B", "C"]}
    with pytest.raises(ConfigError, match="patient the one would be on two sides"):
        train(configure(**changes, split__shared_patients=[]))
    assert not (tmp_path / "run").exists()
    train(configure(**changes, split__shared_patients=["the one"], trainer__refit=True))
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "**Optimistic**: a held-out section is not a held-out patient" in card
    assert "the one" in card
    refit = store.load(tmp_path / "run" / "folds" / "A" / "model").info.split
    assert refit is not None
    assert set(refit.train) == {"B", "C"}
    assert store.load(tmp_path / "run" / "folds" / "A" / "selection" / "model").info.sections != ("B", "C")


@pytest.mark.usefixtures("cached")
def test_spots_of_two_kinds_are_not_mixed(configure: Configure, cohort: Path) -> None:
    path = cohort.parent / "C.h5ad"
    section = ad.read_h5ad(path)
    lattice = np.stack(np.meshgrid(np.arange(150, 551, 50), np.arange(150, 551, 50)), axis=-1).reshape(-1, 2) * 1.0
    section.obsm[keys.SPATIAL] = lattice[: section.n_obs]
    section.write_h5ad(path)
    with pytest.raises(DataError, match=r"their spots differ: st spots of 100 µm \(A\), grid spots of 100 µm \(C\)"):
        training.load(configure(data__root=str(cohort), **HOLDOUT))


@pytest.mark.usefixtures("cached")
def test_genes_by_id_and_by_symbol_are_one(configure: Configure, cohort: Path) -> None:
    """A has both; B has ids, two of which share a symbol with another gene."""
    names = {f"GENE{i}": f"ENSG{i:011d}" for i in range(10)}
    for name in "AB":
        path = cohort.parent / f"{name}.h5ad"
        section = ad.read_h5ad(path)
        if name == "A":
            section.var[keys.GENE_IDS] = [names[g] for g in section.var_names]
        else:
            section.var_names = [names[g] for g in section.var_names[:8]] + ["GENE0", "GENE9"]
        section.write_h5ad(path)
    data = training.load(configure(data__root=str(cohort), **HOLDOUT, panel__min_sections=1))
    assert data.panels["final"].str.startswith("GENE").all()
    assert {"GENE7", "GENE9"} <= set(data.sections["B"].var_names)


@pytest.mark.usefixtures("cached")
def test_a_bad_section_stops_the_run_before_anything_is_written(
    configure: Configure, cohort: Path, tmp_path: Path
) -> None:
    path = cohort.parent / "B.h5ad"
    section = ad.read_h5ad(path)
    section.X = section.X.astype("float32") / 3
    section.write_h5ad(path)
    with pytest.raises(DataError, match=r"section B: .*counts"):
        train(configure(data__root=str(cohort), **HOLDOUT))
    with pytest.raises(ConfigError, match="data.sections: there is no section 'E'; choose among A, B, C, D"):
        train(configure(data__root=str(cohort), **HOLDOUT, data__sections=["A", "E"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("cached")
def test_a_run_is_resumed_or_replaced_only_when_asked(configure: Configure, cohort: Path, tmp_path: Path) -> None:
    config = configure(data__root=str(cohort), **HOLDOUT, trainer__max_epochs=1)
    first = train(config, resume=True)  # nothing is there yet: it begins
    with pytest.raises(OutputError, match="it holds a run already; add --resume to go on with it, --overwrite"):
        train(config)
    pd.testing.assert_frame_equal(train(config, resume=True), first)
    other = configure(data__root=str(cohort), **HOLDOUT, trainer__max_epochs=1, optimizer__lr=0.5)
    with pytest.raises(ConfigError, match=r"begun with other settings, optimizer.lr: 0.001 .now 0.5.; resume"):
        train(other, resume=True)
    train(other, overwrite=True)
    sheet = pd.read_csv(cohort)
    sheet.loc[0, "patient"] = "somebody else"
    sheet.to_csv(cohort, index=False)
    with pytest.raises(ConfigError, match=r"split.json: the run was begun with other data"):
        train(other, resume=True)


@pytest.mark.usefixtures("cached")
def test_genes_that_a_section_lacks_are_masked_if_allowed(configure: Configure, cohort: Path) -> None:
    path = cohort.parent / "B.h5ad"
    section = ad.read_h5ad(path)
    section[:, [g for g in section.var_names if g != "GENE8"]].copy().write_h5ad(path)
    strict = training.load(configure(data__root=str(cohort), **HOLDOUT))
    lenient = training.load(configure(data__root=str(cohort), **HOLDOUT, panel__min_sections=1))
    in_training = "B" in strict.runs["final"].train
    assert ("GENE8" in strict.panels["final"]) == (not in_training)
    assert "GENE8" in lenient.panels["final"]
    assert "GENE8" not in lenient.sections["B"].var_names


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), r"run: it cannot be written to \(No space left on device\)"),
        (OSError(errno.EIO, "Input/output error", "/run/a"), r"^/run/a: it cannot be written to \(Input/output error"),
    ],
    ids=["disk", "file"],
)
def test_a_disk_that_fills_up(
    configure: Configure, cohort: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def fit(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(training, "fit", fit)
    with pytest.raises(OutputError, match=said):
        train(configure(data__root=str(cohort), **HOLDOUT))


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_and_status_130(
    configure: Configure,
    cohort: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    """Lightning catches an interrupt and leaves with status 1; the command line must not."""

    def step(*_: object) -> torch.Tensor:
        os.kill(os.getpid(), number)
        pytest.fail("the training went on")

    monkeypatch.setattr("genar.jobs.module.GenARModule.training_step", step)
    (tmp_path / "c.yaml").write_text(configure(data__root=str(cohort), **HOLDOUT).model_dump_json())
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as left:
            app.main(["train", str(tmp_path / "c.yaml")])
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
    assert left.value.code == 130
    assert capsys.readouterr().err.endswith("genar: interrupted\n")
    assert not (tmp_path / "run" / "model").exists()


def command(config: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "genar", "train", str(config), *more]


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_a_killed_run_ends_with_the_weights_of_one_that_was_not(
    configure: Configure, cohort: Path, tmp_path: Path
) -> None:
    """Killed without warning, twice, as soon as some epochs are done."""
    drawing = {"trainer__ema": 0.9, "model__dropout": 0.2, "trainer__max_epochs": 100, "trainer__patience": 100}
    config = tmp_path / "c.yaml"
    config.write_text(configure(data__root=str(cohort), **HOLDOUT, **drawing).model_dump_json())
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(command(config, "-o", str(whole)), check=True, capture_output=True)
    for lines in (5, 60):
        process = subprocess.Popen(command(config, "-o", str(cut), "--resume"), stderr=subprocess.DEVNULL)
        metrics = cut / "metrics.csv"
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            if metrics.exists() and len(metrics.read_text().splitlines()) > lines and (cut / "last.ckpt").exists():
                break
            time.sleep(0.005)
        process.kill()
        process.wait()
        assert not (cut / "fit.json").exists(), "it was done before it could be killed"
    subprocess.run(command(config, "-o", str(cut), "--resume"), check=True, capture_output=True)
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (whole, cut)]
    assert weights[0] == weights[1]
    a, b = (pd.read_csv(folder / "metrics.csv") for folder in (whole, cut))
    pd.testing.assert_frame_equal(a, b[a.columns])


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_two_processes_have_the_losses_of_one(configure: Configure, cohort: Path, tmp_path: Path) -> None:
    still = {"model__dropout": 0.0, "model__feature_dropout": 0.0, "model__drop_path": 0.0, "trainer__ema": 0.9}
    config = tmp_path / "c.yaml"
    config.write_text(configure(data__root=str(cohort), **HOLDOUT, **still).model_dump_json())
    subprocess.run(command(config, "-o", str(tmp_path / "one")), check=True, capture_output=True)
    two = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "-o", str(tmp_path / "two")]
    done = subprocess.run(command(config, *two), check=True, capture_output=True, text=True)
    assert done.stdout.count("wrote ") == 1
    a, b = (pd.read_csv(tmp_path / name / "metrics.csv") for name in ("one", "two"))
    assert a["loss"].notna().sum() >= 3
    pd.testing.assert_frame_equal(a, b[a.columns], rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("cached")
def test_finished_folds_are_not_judged_again(
    configure: Configure, cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power fails after the first fold was judged, and the model's description must survive it."""
    pd.read_csv(cohort).assign(section=["001", "002", "003", "NA"]).to_csv(cohort, index=False)
    config = configure(data__root=str(cohort), **PATIENTS, split__method="kfold", split__folds=2, trainer__max_epochs=1)
    compared, judged = training.compared, []

    def counted(model: store.Model, *args: object, **options: object) -> object:
        judged.append(model.info.sections)
        if len(judged) == 2:
            raise RuntimeError("power failure")
        return compared(model, *args, **options)

    monkeypatch.setattr(training, "compared", counted)
    with pytest.raises(RuntimeError, match="power failure"):
        train(config)
    table = train(config, resume=True)
    assert len(judged) == 3
    assert table["section"].nunique() == 4
    monkeypatch.setattr(training, "compared", lambda *_, **__: pytest.fail("judged again"))
    pd.testing.assert_frame_equal(train(config, resume=True), table)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hierarchy__scales": [6]}, 'gene_attention "coarser" needs a scale coarser than the genes'),
        ({"hierarchy__scales": [2, 5]}, "must rise to panel.n_genes"),
        ({"model__scale_weights": [1.0]}, "1 scale_weights for 3 scales"),
        ({"model__decoder": "cumulative"}, "set handed_on to greedy"),
        ({"trainer__devices": 3}, r"batch_size \(8\) must be a multiple of the 3 devices"),
        ({"trainer__refit": True, "split__validation": "none"}, "trainer.refit needs split.validation"),
        ({"hierarchy__method": "file"}, "method: file and file: PATH go together"),
    ],
)
def test_settings_that_do_not_fit_are_found_first(configure: Configure, changes: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        configure(**changes)
