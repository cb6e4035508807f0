import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from pydantic import ValidationError

from genar import keys, store
from genar.errors import ModelError, OutputError
from genar.model.config import ModelConfig
from genar.ood import Reference
from genar.store import Model, ModelInfo

INFO: dict[str, Any] = {
    "name": "m", "encoder": "e", "feature_dim": 3, "tile_um": 154.0, "lattice": "st", "spot_um": 100.0,
    "pitch_um": 200.0, "scales": (1, 2), "max_count": 5, "network": ModelConfig(), "genar_version": "0",
    "sections": ("A",),
}  # fmt: skip


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model whose network is one small layer; the decoder itself is not under test."""
    monkeypatch.setattr(store, "build", lambda *_: torch.nn.Linear(2, 1))
    panel = pd.DataFrame({keys.TRAIN_MEAN: [2.0, 1.0], keys.group(1): 0, keys.group(2): [0, 1]}, index=["NA", "B"])
    return Model(ModelInfo(**INFO), panel, torch.nn.Linear(2, 1))  # type: ignore[arg-type]


def test_a_model_comes_back_as_it_was_saved(model: Model, tmp_path: Path) -> None:
    store.save(model, tmp_path / "run" / "model", "card")
    again = store.load(tmp_path / "run" / "model")
    assert again.info == model.info
    assert list(again.panel.index) == ["NA", "B"]
    assert list(again.panel) == list(model.panel)
    assert torch.equal(again.network.weight, model.network.weight)  # type: ignore[attr-defined]
    assert len(again.sha256) == 64


def test_whoever_reads_the_folder_reads_its_files(model: Model, tmp_path: Path) -> None:
    store.save(model, tmp_path / "a", "card")
    assert len({path.stat().st_mode for path in (tmp_path / "a").iterdir()}) == 1


def test_gene_ids_are_kept_where_they_are_known(model: Model, tmp_path: Path) -> None:
    model.panel.insert(0, keys.GENE_IDS, ["7157", ""])  # Entrez's are numbers, and text all the same
    store.save(model, tmp_path / "model", "card")
    assert (tmp_path / "model" / "genes.tsv").read_text().startswith("gene\tgene_id\ttrain_mean\t")
    assert store.load(tmp_path / "model").panel[keys.GENE_IDS].tolist() == ["7157", ""]


def of_tissue(dim: int = 3) -> Reference:
    return Reference(
        np.zeros(dim, np.float32), np.eye(2, dim, dtype=np.float32), np.array([0.5, 0.25], np.float32), 0.125,
        np.linspace(0, 4, 101, dtype=np.float32),
    )  # fmt: skip


def test_a_reference_comes_back_and_no_other_file_tells_of_it(model: Model, tmp_path: Path) -> None:
    store.save(model, tmp_path / "without", "card")
    store.save(replace(model, reference=of_tissue()), tmp_path / "with", "card")
    without, found = (store.load(tmp_path / name) for name in ("without", "with"))
    assert without.reference is None
    assert found.reference is not None
    features = np.random.default_rng(0).random((9, 3))
    np.testing.assert_array_equal(found.reference.percentile(features), of_tissue().percentile(features))
    assert found.sha256 == without.sha256
    store.describe(found, tmp_path / "with", "anew")
    assert store.load(tmp_path / "with").reference is not None
    store.save(without, tmp_path / "with", "card")  # an older reference does not stay behind
    assert store.load(tmp_path / "with").reference is None


@pytest.mark.parametrize("damage", ["cut", "empty", "other encoder", "lacks"])
def test_a_reference_that_is_damaged_is_refused(model: Model, tmp_path: Path, damage: str) -> None:
    store.save(replace(model, reference=of_tissue(4 if damage == "other encoder" else 3)), tmp_path / "m", "card")
    path = tmp_path / "m" / store.REFERENCE
    whole = path.read_bytes()
    if damage == "lacks":
        whole = safetensors.numpy.save({"mean": np.zeros(3, np.float32)})
    path.write_bytes({"cut": whole[:-7], "empty": b""}.get(damage, whole))
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        store.load(tmp_path / "m")


def test_which_genes_are_reliable_comes_back(model: Model, tmp_path: Path) -> None:
    model.panel[keys.RELIABLE] = [True, False]
    model.panel[keys.HELDOUT_PCC_MIN] = [0.25, np.nan]
    store.save(model, tmp_path / "m", "card")
    again = store.load(tmp_path / "m").panel
    assert again[keys.RELIABLE].dtype == bool
    assert again[keys.RELIABLE].tolist() == [True, False]
    np.testing.assert_array_equal(again[keys.HELDOUT_PCC_MIN], [0.25, np.nan])
    genes = tmp_path / "m" / "genes.tsv"
    genes.write_text(genes.read_text().replace("False", "perhaps"))
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        store.load(tmp_path / "m")


def test_an_older_model_is_replaced(model: Model, tmp_path: Path) -> None:
    store.save(model, tmp_path / "model", "old")
    store.save(model, tmp_path / "model", "new")
    assert (tmp_path / "model" / "README.md").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("config", [None, "{", "5", "[]", '{"model_type": "bert"}'])
def test_what_is_no_model_is_not_replaced(model: Model, tmp_path: Path, config: str | None) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "thesis.txt").touch()
    if config is not None:
        (folder / "config.json").write_text(config)
    before = sorted(tmp_path.rglob("*"))
    for refuse in (lambda: store.check_free(folder), lambda: store.save(model, folder, "card")):
        with pytest.raises(OutputError, match="model: it exists and is not a model"):
            refuse()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_is_free_is_left_alone(model: Model, tmp_path: Path) -> None:
    store.check_free(tmp_path / "run" / "model")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(OutputError, match="cannot be written to"):
            store.check_free(folder)


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()], ids=repr)
def test_the_old_model_stays_until_the_new_one_is_there(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    store.save(model, tmp_path / "model", "old")
    rename = Path.rename

    def fail(source: Path, target: Path) -> Path:
        if source.name == "model" and source.parent != tmp_path:
            raise error
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(type(error)):
        store.save(model, tmp_path / "model", "new")
    assert (tmp_path / "model" / "README.md").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000])
def test_a_name_that_is_too_long(name: str) -> None:
    with pytest.raises(ModelError, match=r"it cannot be looked up \(File name too long\)"):
        store.load(name)


@pytest.mark.parametrize(
    "changed",
    [
        {"scales": ()},
        {"lattice": "hexagons"},
        {"max_count": 0},
        {"feature_dim": 0},
        *({k: v} for k in ("tile_um", "spot_um", "pitch_um") for v in (0.0, -1.0, np.inf, np.nan)),
    ],
    ids=str,
)
def test_a_description_that_cannot_be(model: Model, tmp_path: Path, changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelInfo(**INFO | changed)
    store.save(model, tmp_path / "model", "card")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ModelError, match=rf"config.json: .*{next(iter(changed))}|Invalid"):
        store.load(tmp_path / "model")


@pytest.mark.parametrize("error", [IndexError("list index"), KeyError("a"), ValueError("b"), RuntimeError("c")])
def test_parts_that_do_not_fit(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def build(*_: object) -> None:
        raise error

    store.save(model, tmp_path / "model", "card")
    monkeypatch.setattr(store, "build", build)
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        store.load(tmp_path / "model")
