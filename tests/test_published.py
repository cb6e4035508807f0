"""The import of published checkpoints: whole, or refused with nothing left behind."""

import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from genar import published, store
from genar.cli import app
from genar.errors import ConfigError, DataError, ModelError, OutputError
from genar.jobs.import_ import import_to_directory
from genar.model.condition import Spots
from genar.model.decoder import Choice

HERE = Path(os.environ.get("GENAR_PARITY_DIR") or Path(os.environ.get("GENAR_SHARED", "../shared")) / "parity")
CASES = sorted(p.with_suffix("") for p in HERE.glob("*.safetensors"))
GENES = [f"GENE{i}" for i in range(20)]
State = dict[str, torch.Tensor]
Save = Callable[..., Path]


def settings_of(case: Path) -> dict[str, Any]:
    return json.loads(case.with_suffix(".json").read_text())


def state_of(case: Path) -> State:
    return load_file(case.with_suffix(".safetensors"))


@pytest.fixture
def case() -> Path:
    if not CASES:
        pytest.skip(f"no cases of the published model in {HERE}")
    return HERE / "paper_like"


@pytest.fixture
def genes(tmp_path: Path) -> Path:
    path = tmp_path / "genes.txt"
    path.write_text("\n".join(GENES) + "\n")
    return path


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a checkpoint as Lightning does; changes are made to its settings, its tensors and what holds both."""

    def write(
        case: Path, settings: dict | None = None, state: State | None = None, kind: type[dict] = dict, **more: object
    ) -> Path:
        tensors = state_of(case) if state is None else state
        model = {"ablation_protocol": "normalized"} | settings_of(case) | (settings or {})
        config = {
            "MODEL": kind(model), "DATA": kind({"grouping_mode": "kmeans"}),
            "encoder_name": "uni", "max_gene_count": 40,
        }  # fmt: skip
        checkpoint = {
            "epoch": 3, "hyper_parameters": {"config": kind(config), "dataset": "PRAD"},
            "state_dict": {f"model.{name}": t for name, t in tensors.items()},
        }  # fmt: skip
        path = tmp_path / "best.ckpt"
        torch.save(checkpoint | more, path)
        return path

    return write


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name)
def test_a_checkpoint_becomes_the_same_model(case: Path, save: Save, genes: Path, tmp_path: Path) -> None:
    output = import_to_directory(save(case), genes, tmp_path / "models" / "prad", spots="st", tile_um=224)
    model = store.load(output)
    expected = published.network(settings_of(case), state_of(case), case).state_dict()
    found = model.network.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)

    data = dict(np.load(case.with_suffix(".npz")))
    spots = Spots(torch.from_numpy(data["histology"]).float(), torch.from_numpy(data["coords"]).float())
    last = model.network.free_run(spots, Choice("greedy"))[-1]
    if model.info.network.distribution in ("mse", "gaussian_nll"):
        value = model.network.distribution.expected(last)
        np.testing.assert_allclose(value.detach(), data["generated"], rtol=1e-4, atol=1e-5)
    else:
        (tokens,) = model.network.generate(spots, lambda p, _: p.argmax(-1))
        assert np.array_equal(tokens.numpy(), data["generated"])


def test_what_the_checkpoint_does_not_tell_is_kept(case: Path, save: Save, genes: Path, tmp_path: Path) -> None:
    output = import_to_directory(save(case), genes, tmp_path / "prad", spots="st", tile_um=224)
    info, panel = store.load(output).info, store.load(output).panel
    assert panel.index.tolist() == GENES
    assert (info.name, info.encoder, info.tile_um, info.max_count) == ("prad", "uni", 224, 40)
    assert (info.lattice, info.spot_um, info.pitch_um) == ("st", 100, 200)
    assert (info.scales, info.grouping) == ((1, 2, 4, 10, 20), "blocks")
    card = (output / "README.md").read_text()
    assert "`best.ckpt`" in card
    assert "224 µm" in card


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("gaussian_kl", "gaussian"),
        ("gaussian_nll", "gaussian"),  # there, an old name of the same
        ("cross_entropy", "cross_entropy"),
    ],
)
def test_the_loss_is_known_by_every_name_it_had(case: Path, save: Save, name: str, distribution: str) -> None:
    path = save(case, {"final_loss_mode": name, "prediction_mode": "discrete", "continuous_loss": "mse"})
    assert published.network(*published.load_checkpoint(path), path).config.distribution == distribution


def test_settings_that_every_checkpoint_has_are_no_surprise(
    case: Path, save: Save, caplog: pytest.LogCaptureFixture
) -> None:
    written = {
        "model_name": "GENAR", "model_variant": "original", "feature_dim": 12, "gene_patch_nums": (1, 2, 4, 10, 20),
        "spatial_coord_dim": 2, "drop_rate": 0.0, "attn_drop_rate": 0.0, "cond_drop_rate": 0.1, "norm_eps": 1e-6,
        "shared_aln": False, "attn_l2_norm": True, "prediction_mode": "discrete", "continuous_loss": "mse",
        "continuous_loss_alpha": 0.01, "continuous_loss_beta": 0.1, "library_scale": 10000.0,
        "scale_loss_weights": [1.0] * 5, "ablation_protocol": "normalized", "max_gene_count": 40,
    }  # fmt: skip
    path = save(case, written)
    published.network(*published.load_checkpoint(path), path)
    assert caplog.text == ""
    path = save(case, {"rotary": True})
    published.network(*published.load_checkpoint(path), path)
    assert "rotary" in caplog.text


def without(state: State, name: str) -> State:
    return {n: t for n, t in state.items() if n != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s | {"extra.weight": torch.zeros(2)}, r"tensors not used: extra\.weight"),
        (lambda s: s | {"output_head.scale": torch.zeros(2)}, r"tensors not used: head\.scale"),
        (lambda s: s | {"transformer_blocks.2.ffn.fc1.bias": torch.zeros(2)}, "tensors not used: blocks.2.widen.bias"),
        (lambda s: without(s, "output_head.bias"), r"tensors missing: head\.bias"),
        (lambda s: s | {"output_head.bias": torch.zeros(2)}, r"tensors of a wrong shape: head\.bias"),
        (lambda s: s | {"start_token": torch.zeros(1, 1, 2)}, "tensors of a wrong shape: start"),
        (
            lambda s: s | {"condition_processor.div_term": s["condition_processor.div_term"] * 2},
            r"its constant condition_processor\.div_term differs",
        ),
        (lambda s: {f"m{i}": torch.zeros(1) for i in range(7)}, "m0, m1, m2, m3, m4 and 2 more"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    case: Path, save: Save, genes: Path, tmp_path: Path, change: Callable[[State], State], said: str
) -> None:
    path = save(case, state=change(state_of(case)))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match=said):
        import_to_directory(path, genes, tmp_path / "model", spots="st", tile_um=100)
    assert sorted(tmp_path.iterdir()) == before


def test_a_tensor_outside_the_network_is_named(case: Path, save: Save) -> None:
    state = {f"model.{n}": t for n, t in state_of(case).items()} | {"metric.total": torch.zeros(1)}
    with pytest.raises(ModelError, match=r"tensors outside the network: metric\.total"):
        published.load_checkpoint(save(case, state_dict=state))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shared_aln": True}, "shared_aln is not supported"),
        ({"norm_eps": 1e-5}, "norm_eps must be 1e-06"),
        ({"num_heads": 3}, r"heads \(3\) must divide width"),
        ({"final_loss_mode": "poisson"}, "not valid"),
        ({"scale_dims": "all"}, "not valid"),
        ({"scale_loss_weights": [1.0]}, "1 scale_weights for 5 scales"),
        ({"num_layers": 3}, r"tensors missing: blocks\.2\."),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(case: Path, save: Save, settings: dict, said: str) -> None:
    path = save(case, settings)
    with pytest.raises(ModelError, match=said):
        published.network(*published.load_checkpoint(path), path)


def test_a_setting_that_is_not_there_is_named(case: Path, save: Save) -> None:
    for name in ("embed_dim", "scale_dims"):
        incomplete = {k: v for k, v in settings_of(case).items() if k != name}
        path = save(case, hyper_parameters={
            "config": {"MODEL": incomplete, "encoder_name": "uni", "max_gene_count": 40},
        })  # fmt: skip
        with pytest.raises(ModelError, match=rf"MODEL\.{name}"):
            published.network(*published.load_checkpoint(path), path)


@pytest.mark.parametrize(
    "change",
    [
        {"hyper_parameters": {}},
        {"hyper_parameters": {"config": {"MODEL": 3, "encoder_name": "uni", "max_gene_count": 40}}},
        {"hyper_parameters": {"config": {"MODEL": {}, "encoder_name": "uni", "max_gene_count": "many"}}},
        {"hyper_parameters": {"config": {"MODEL": {}, "max_gene_count": 40}}},
        {"state_dict": None},
        {"state_dict": {"model.a": 3}},
    ],
    ids=str,
)
def test_a_checkpoint_of_something_else_is_refused(case: Path, save: Save, change: dict) -> None:
    with pytest.raises(ModelError, match="lacks|tensors"):
        published.load_checkpoint(save(case, **change))


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"PK\x03\x04 no archive")
    torch.save([1, 2], tmp_path / "b.ckpt")
    for name in ("a.ckpt", "b.ckpt", "none.ckpt", "."):
        with pytest.raises(ModelError, match="give a .ckpt"):
            published.load_checkpoint(tmp_path / name)


class Code:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("where", ["hyper_parameters", "callbacks"])
def test_code_in_a_checkpoint_is_not_run(case: Path, save: Save, genes: Path, tmp_path: Path, where: str) -> None:
    trace = tmp_path / "trace"
    pickle.loads(pickle.dumps(Code(trace)))
    assert trace.exists()  # which is what it would do
    trace.unlink()
    path = save(case, **{where: {"config": Code(trace)}})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match="no checkpoint of plain data"):
        import_to_directory(path, genes, tmp_path / "model", spots="st", tile_um=100)
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def addict(monkeypatch: pytest.MonkeyPatch) -> type[dict]:
    """The class of the published code's configuration, and how it is pickled in addict 2.4."""

    class Dict(dict):
        __getnewargs__ = lambda self: tuple(self.items())  # noqa: E731
        __getstate__ = lambda self: self  # noqa: E731
        __setstate__ = dict.update

    Dict.__module__, Dict.__qualname__ = "addict.addict", "Dict"
    for name in ("addict", "addict.addict"):
        module = ModuleType(name)
        module.Dict = Dict  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    return Dict


def test_a_configuration_of_addict_is_read_as_a_dictionary(
    case: Path, save: Save, addict: type[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = published.load_checkpoint(save(case))
    path = save(case, kind=addict)
    for name in ("addict", "addict.addict"):
        monkeypatch.delitem(sys.modules, name)
    settings, state = published.load_checkpoint(path)
    assert settings == plain
    assert published.network(settings, state, path).scales == (1, 2, 4, 10, 20)


@pytest.mark.parametrize(
    "lines", [GENES[:-1], [*GENES, "ONE_MORE"], [*GENES[:-1], GENES[0]], []], ids=["few", "many", "twice", "none"]
)
def test_genes_that_do_not_fit_are_refused(
    case: Path, save: Save, genes: Path, tmp_path: Path, lines: list[str]
) -> None:
    path = save(case)
    genes.write_text("\n".join(lines))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match=rf"it predicts 20 genes, the list has \d+ different ones in {len(lines)} lin"):
        import_to_directory(path, genes, tmp_path / "model", spots="st", tile_um=100)
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_given_beside_the_checkpoint_is_checked_first(tmp_path: Path) -> None:
    none = tmp_path / "none"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xe9")
    for tile_um in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(ConfigError, match="--tile-um"):
            import_to_directory(none, none, tmp_path / "model", spots="st", tile_um=tile_um)
    with pytest.raises(OutputError, match="it exists and is not a model"):
        import_to_directory(none, none, tmp_path / "thesis", spots="st", tile_um=100)
    for genes in (none, tmp_path / "latin"):
        with pytest.raises(DataError, match="it cannot be read"):
            import_to_directory(none, genes, tmp_path / "model", spots="st", tile_um=100)


def command(*words: str | Path) -> int:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as left:
            app.main(list(map(str, words)))
    finally:
        signal.signal(signal.SIGTERM, before)
    return left.value.code or 0


def test_the_command_writes_a_model(
    case: Path, save: Save, genes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model"
    assert command("import", save(case), "--genes", genes, "-o", output, "--tile-um", "100", "--spots", "st") == 0
    out, err = capsys.readouterr()
    assert out == f"wrote {output}\n"
    assert err == ""  # genar computes its encoder, given the weights
    assert store.load(output).info.tile_um == 100


def test_a_bad_file_is_one_line_and_status_2(genes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.ckpt").write_text("no\ncheckpoint")
    before = sorted(tmp_path.iterdir())
    words = ("--genes", genes, "--tile-um", "100", "--spots", "st", "-o", tmp_path / "model")
    assert command("import", tmp_path / "bad.ckpt", *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"genar: error: {tmp_path}/bad.ckpt: it is no checkpoint of plain data (")
    assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
