"""``genar bench``: which configuration a command line and a protocol make."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from genar.cli.config import SHIPPED, config_file
from genar.errors import ConfigError
from genar.jobs.benchmark import Benchmark

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list:
    """Replace the work by a record of what was asked, where there are data called d."""
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    found: list = []
    rows = [
        {"section": s, "method": m, "seed": 0, "PCC": 0.5 + i / 10, "MSE": 1.0, "NLL": float("nan")}
        for i, s in enumerate("AB")
        for m in ("GenAR", "ridge")
    ]
    result = Benchmark(pd.DataFrame(rows), pd.DataFrame(), ("Optimistic: so it is.",))

    def bench(config: object, **options: object) -> Benchmark:
        found.append((config, options))
        return result

    monkeypatch.setattr("genar.jobs.bench.bench", bench)
    monkeypatch.setattr("genar.jobs.bench_hest.bench_hest", lambda *a, **k: {"IDC": bench(*a, **k)})
    return found


def test_the_table_is_printed(genar: Run, calls: list) -> None:
    status, out, _ = genar("bench", "d", "-o", "out", "--seeds", "2", "--resume")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "| method | PCC                  | MSE                  | NLL |"
    assert lines[2] == "| GenAR  | 0.550 [0.500, 0.600] | 1.000 [1.000, 1.000] | -   |"
    assert lines[5:] == [
        "Mean of 2 sections and 1 seed, with a 95 % bootstrap interval over sections.", "", "Optimistic: so it is.",
        "wrote out/table.md and more",
    ]  # fmt: skip
    (config, options) = calls[0]
    assert options == {"seeds": 2, "resume": True, "overwrite": False}
    assert (config.name, config.data.root, config.output) == ("visium", Path("d"), Path("out"))


def test_settings_lie_over_the_configuration(genar: Run, calls: list) -> None:
    words = "d --config paper --split kfold --split.test [] --split.folds 4 --split.validation patient --seed 7"
    more = "--encoder uni --encoder-weights w.safetensors --trainer.max_epochs 4 --model.width=128"
    assert genar("bench", *words.split(), *more.split(), "--methods", "GenAR", "ridge")[0] == 0
    (config, options) = calls[0]
    assert (config.name, config.split.method, config.split.folds, config.seed) == ("paper", "kfold", 4, 7)
    assert (config.tiles.encoder, config.tiles.weights) == ("uni", Path("w.safetensors"))
    assert (config.trainer.max_epochs, config.model.width) == (4, 128)
    assert options["methods"] == ("GenAR", "ridge")


def test_protocols(genar: Run, calls: list) -> None:
    assert genar("bench", "d", "--protocol", "her2st")[0] == 0
    assert genar("bench", "d", "--protocol", "her2st", "--config", "paper", "--data.mpp", "0.7")[0] == 0
    for (config, _), name, mpp in zip(calls, ("her2st-mini", "paper"), (0.687, 0.7), strict=True):
        assert (config.name, config.data.mpp, config.data.sections) == (name, mpp, ("C2", "C3", "C4", "C5", "C6"))
        assert (config.split.method, config.split.shared_patients) == ("leave_one_section_out", ("C",))
    status, out, _ = genar("bench", "d", "--protocol", "hest-bench", "--encoder", "uni")
    assert (status, out.splitlines()[2]) == (0, "| GenAR | 0.5500 | 0.5500 |")
    assert (calls[2][0].name, calls[2][0].tiles.encoder, calls[2][0].trainer.refit) == ("hest", "uni", True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("d --resume --overwrite", "--resume: it contradicts --overwrite"),
        (
            "d --config nothing",
            "nothing: there is no such file, nor a configuration of that name; give a YAML",
        ),
        ("d --config no.yaml", "no.yaml: it cannot be read"),
        ("d --protocol hest-bench --split kfold", "--split: hest-bench has splits of its own"),
        ("d --protocol nonsense", "invalid choice: 'nonsense'"),
        ("d --model.widht 4", "there is no setting model.widht; did you mean model.width?"),
        ("--model.width 8 d", "8: there is no such file or folder; check the path, and give DATA before settings"),
    ],
)
def test_a_mistake_is_one_line(genar: Run, calls: list, words: str, said: str) -> None:
    status, out, err = genar("bench", *words.split())
    assert (status, out, calls) == (2, "", [])
    assert err.startswith("genar: error: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_configuration_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file(Path("ablations/k4")).samefile(SHIPPED[1] / "ablations/k4.yaml")
    Path("visium").mkdir()
    assert config_file(Path("visium")).name == "visium.yaml"
    Path("mine").touch()
    assert config_file(Path("mine")) == Path("mine")
    with pytest.raises(ConfigError, match=r"one of ablations/continuous, .*her2st-mini, hest, paper, visium$"):
        config_file(Path("theirs"))
