from pathlib import Path

import pytest
import yaml

from genar.cli import app
from genar.cli.config import dump, load, overrides
from genar.errors import ConfigError
from genar.jobs.config import TrainConfig

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.yaml"))
MINI = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"


@pytest.fixture
def edited(tmp_path: Path):
    """Return a copy of the shipped configuration with settings added or, where None, removed."""

    def edit(**changes: object) -> Path:
        values = yaml.safe_load(MINI.read_text(encoding="utf-8"))
        for name, value in changes.items():
            *sections, last = name.split("__")
            place = values
            for section in sections:
                place = place[section]
            if value is None:
                del place[last]
            else:
                place[last] = value
        path = tmp_path / "c.yaml"
        path.write_text(yaml.safe_dump(values), encoding="utf-8")
        return path

    return edit


def mistake(path: Path, changes: dict[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as e:
        load(path, TrainConfig, changes or {})
    assert "\n" not in str(e.value)
    return str(e.value)


def test_there_are_configs() -> None:
    assert MINI in CONFIGS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_shipped_configs_are_valid(path: Path) -> None:
    config = load(path, TrainConfig, {})
    assert config.name == path.stem
    assert config.output == Path("runs") / path.stem
    assert load_text(dump(config)) == config.model_dump(mode="json")  # what --print-config shows can be trained with


def load_text(text: str) -> dict[str, object]:
    return TrainConfig.model_validate(yaml.safe_load(text)).model_dump(mode="json")


@pytest.mark.parametrize("path", [p for p in CONFIGS if p.parent.name == "ablations"], ids=lambda p: p.stem)
def test_an_ablation_is_the_paper_but_for_what_it_takes_away(path: Path) -> None:
    paper = load(MINI.parent / "paper.yaml", TrainConfig, {}).model_dump()
    own = load(path, TrainConfig, {}).model_dump()
    other = {f"{s}.{k}" for s in ("model", "hierarchy") for k in own[s] if own[s][k] != paper[s][k]}
    expected = {
        "continuous": {"model.distribution", "model.continuous_reduction"},
        "no_film": {"model.film"},
        "cross_entropy": {"model.distribution"},
        "random_grouping": {"hierarchy.method"},
    }
    assert other == expected.get(path.stem, {"hierarchy.scales"})
    assert {k for k in own if own[k] != paper[k]} <= {"name", "output", "model", "hierarchy"}


def test_a_file_may_say_what_differs_from_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MINI.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "b.yaml").write_text("base: a.yaml\nname: b\nmodel: {width: 32}\n", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("base: b.yaml\nhierarchy: {scales: [1, 200]}\n", encoding="utf-8")
    config = load(tmp_path / "c.yaml", TrainConfig, {"model.layers": 2})
    assert (config.name, config.model.width, config.model.layers, config.model.heads) == ("b", 32, 2, 4)
    assert config.hierarchy.scales == (1, 200)
    (tmp_path / "a.yaml").write_text("base: c.yaml", encoding="utf-8")
    assert mistake(tmp_path / "c.yaml").endswith("c.yaml: it is its own base; name another file as base")
    (tmp_path / "a.yaml").unlink()
    assert "a.yaml: it cannot be read (No such file or directory)" in mistake(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__widht": 3}, "there is no setting model.widht; did you mean model.width?"),
        ({"optimiser": {"lr": 1}}, "there is no setting optimiser; did you mean optimizer?"),
        ({"width": 3}, "there is no setting width; did you mean model.width?"),
        ({"data__lr": 3}, "there is no setting data.lr; did you mean optimizer.lr?"),
        ({"trainer__scales": [1]}, "there is no setting trainer.scales; did you mean hierarchy.scales?"),
        ({"zzzzzz": 3}, "there is no setting zzzzzz; see --print-config"),
        ({"data__mpp": "half"}, "data.mpp: Input should be a valid number"),
        ({"data__mpp": 0}, "data.mpp: Input should be greater than 0 (it is 0)"),
        ({"data__sections": "C2"}, "data.sections: Input should be a valid tuple"),
        ({"data__sections": ["C2", "C2"]}, "a section is named twice"),
        ({"panel__n_genes": 100}, "must rise to panel.n_genes (100)"),
        ({"hierarchy__scales": [0, 4, 200]}, "hierarchy.scales.0: Input should be greater than or equal to 1"),
        ({"tiles__tile_um": 10_001}, "tiles.tile_um: Input should be less than or equal to 10000"),
        ({"tiles__tile_um": float("nan")}, "tiles.tile_um: Input should be a finite number"),
        ({"data__mpp": float("inf")}, "data.mpp: Input should be a finite number"),
        ({"trainer__gradient_clip": float("inf")}, "trainer.gradient_clip: Input should be a finite number"),
        ({"tiles__encoder": "uni3"}, "uni3: genar knows no such encoder; use uni"),
        ({"seed": 2**32}, "seed: Input should be less than 4294967296"),
        ({"data__root": None}, "the setting data.root is missing"),
        ({"name": None}, "the setting name is missing"),
        ({"model": 3}, "model: "),
    ],
)
def test_a_wrong_setting_is_named(edited, changes: dict[str, object], said: str) -> None:
    path = edited(**changes)
    message = mistake(path)
    assert message.startswith(f"{path}: ")
    assert said in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "it is not YAML"),
        ("a: b: c", "it is not YAML"),
        ("a: 2024-13-45", "it is not YAML"),
        ("- 1\n- 2", "it does not hold settings"),
        ("", "it does not hold settings"),
        ("word", "it does not hold settings"),
        ("!!python/object/apply:os.getcwd []", "it is not YAML"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert said in mistake(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in mistake(tmp_path / "none.yaml")
    assert "Is a directory" in mistake(tmp_path)
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    assert "not text" in mistake(tmp_path / "c.yaml")


def test_overrides_replace_the_file() -> None:
    words = "--model.width 128 --optimizer.lr=1e-4 --data.sections [C2,C3] --seed 5 --trainer.accelerator cpu".split()
    config = load(MINI, TrainConfig, overrides(words))
    assert config.model.width == 128
    assert config.optimizer.lr == 1e-4
    assert config.data.sections == ("C2", "C3")
    assert config.seed == 5
    assert config.trainer.accelerator == "cpu"
    assert config.data.mpp == 0.687


def test_overrides_may_add_a_section(edited) -> None:
    path = edited(trainer=None)
    assert load(path, TrainConfig, {"trainer.max_epochs": 3}).trainer.max_epochs == 3


@pytest.mark.parametrize(
    ("words", "said"), [(["128"], "128: it is not a setting"), (["--model.width"], "--model.width: it has no value"),
                        (["--model.width", "[1"], "--model.width: it is not YAML")]
)  # fmt: skip
def test_words_that_are_no_overrides(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as e:
        overrides(words)
    assert str(e.value).startswith(said)


def test_a_wrong_override_is_named() -> None:
    assert "did you mean model.width?" in mistake(MINI, {"model.widht": 3})
    assert "name is not a section" in mistake(MINI, {"name.first": 3})


def test_print_config_round_trips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(MINI), "--model.width", "32", "--data", "/über/data", "-o", "out", "--print_config"]
    with pytest.raises(SystemExit) as left:
        app.main(words)
    out, err = capsys.readouterr()
    assert (left.value.code, err) == (0, "")
    (tmp_path / "printed.yaml").write_text(out, encoding="utf-8")
    again = load(tmp_path / "printed.yaml", TrainConfig, {})
    expected = load(MINI, TrainConfig, {"model.width": 32, "data.root": "/über/data", "output": "out"})
    assert again == expected
    assert again.model.width == 32
    assert again.data.root == Path("/über/data")
    assert dump(again) == out
