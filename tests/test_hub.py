"""Models from the hub and to it, with a stand-in for the hub on this machine."""

import json
import logging
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard, constants

from genar import hub, keys, record, shelf, store, tl
from genar.cli import app
from genar.errors import ConfigError, ModelError, OutputError
from genar.jobs.models import here, summary
from genar.jobs.options import Options
from genar.jobs.push import push
from genar.shelf import BUNDLED, HubName
from tests.hub import Hub, running

MINI = BUNDLED / "her2st-mini"
NAMES = ("config.json", "genes.tsv", "model.safetensors", "reference.safetensors", "README.md")
FILES = {name: (MINI / name).read_bytes() for name in NAMES}


@pytest.fixture(autouse=True)
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub, and an empty cache."""
    with running() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.chdir(tmp_path)
        hub._fetched.cache_clear()
        before = signal.getsignal(signal.SIGTERM)  # which a command sets
        yield server
        signal.signal(signal.SIGTERM, before)


def test_a_model_of_the_hub_is_loaded_by_its_commit(at: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    first = at.commit("org/m", FILES | {"optimizer.bin": b"pickle"})
    second = at.commit("org/m", FILES | {"README.md": b"newer"})
    model = store.load("org/m")
    assert model.source == f"org/m@{second}"
    assert model.sha256 == store.load("her2st-mini").sha256
    assert store.load("her2st-mini").source == ""
    old = shelf.find(f"org/m@{first}")
    assert {path.name for path in old.iterdir()} == set(FILES)  # not the pickle
    assert (old / "README.md").read_bytes() == FILES["README.md"]
    assert Options(model="org/m").absolute().model == f"org/m@{second}"
    assert [summary(folder).name for folder in here()] == [
        "her2st-mini",
        *sorted(f"org/m@{c}" for c in (first, second)),
    ]
    at.asked.clear()
    hub._fetched.cache_clear()
    assert store.load(f"org/m@{first}").source == f"org/m@{first}"
    assert at.asked == []  # a commit stays what it is
    store.load("org/m")
    assert at.asked  # a branch may not


def test_a_result_names_the_commit(at: Hub) -> None:
    oid = at.commit("org/m", FILES)
    model = store.load("org/m@main")
    spots = record._spots(model.info, np.ones((record.N, model.info.feature_dim), np.float32))
    assert tl.predict(spots, model).uns[keys.GENAR]["model_source"] == f"org/m@{oid}"
    assert "model_source" not in tl.predict(spots, "her2st-mini").uns[keys.GENAR]


def test_the_commands(at: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as left:
            app.main(words)
        assert left.value.code == 0
        return capsys.readouterr().out

    said = run("push", "her2st-mini", "org/m", "--license", "mit")
    oid, files = at.commits["org/m"][-1]
    assert said == f"pushed org/m@{oid}, private: {at.url}/org/m\n"
    assert b"license: mit" in files["README.md"]
    assert "stays private" in run("push", "her2st-mini", "org/m", "--public")
    last = at.commits["org/m"][-1][0]
    assert Path(run("models", "path", "org/m").strip()).name == last
    heads, *rows = run("models").splitlines()
    assert heads.split() == ["name", "genes", "encoder", "PCC", "MB"]
    assert [row.split()[:3] for row in rows] == [
        [name, "200", "efficientnet_lite0"] for name in ("her2st-mini", f"org/m@{last}")
    ]
    shown = run("models", "show", f"org/m@{last}")
    assert "  licence    Weights: CC BY 4.0, as the data. Code: MIT.\n" in shown
    assert "## Held-out accuracy" in shown


def test_without_a_network_the_cache_is_used_and_said(
    at: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    oid = at.commit("org/m", FILES)
    shelf.find("org/m")
    hub._fetched.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with caplog.at_level(logging.WARNING, "genar"):
        assert store.load("org/m").source == f"org/m@{oid}"
    assert f"HF_HUB_OFFLINE is set; taken as it is in the cache here, org/m@{oid}" in caplog.text
    with pytest.raises(ModelError, match="run 'hf download org/n --revision v1 --local-dir FOLDER' where there is a"):
        shelf.find("org/n@v1")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/none", "no such repository at the hub that you may read; check the name; for a private one run 'hf auth"),
        ("org/m@v9", "the repository has no revision 'v9'"),
        ("org/gated", "access to it has not been granted to you; ask for access at http"),
        ("org/bert", "the repository has no genes.tsv, so it holds no model of genar's"),
        ("org/--m", "the hub takes no such name"),
    ],
)
def test_what_cannot_be_had_is_one_line(at: Hub, name: str, said: str) -> None:
    for repository in ("org/m", "org/gated"):
        at.commit(repository, FILES)
    at.commit("org/bert", {"config.json": b"{}", "model.safetensors": b"0" * 100})
    at.gated.add("org/gated")
    with pytest.raises(ModelError) as e:
        shelf.find(name)
    assert str(e.value).startswith(f"{name}: ")
    assert said in str(e.value)
    assert not any("model.safetensors" in asked for asked in at.asked if "bert" in asked)


def test_a_path_comes_before_the_hub(at: Hub, tmp_path: Path) -> None:
    at.commit("org/m", FILES)
    shutil.copytree(MINI, tmp_path / "org" / "m")
    assert shelf.find("org/m") == Path("org/m")
    (tmp_path / "org" / "m" / "config.json").unlink()
    with pytest.raises(ModelError, match="there is no such model"):
        shelf.find("org/m")
    assert at.asked == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b", HubName("a/b", None)),
        ("a/b@v1.0", HubName("a/b", "v1.0")),
        ("a/b@refs/pr/1", HubName("a/b", "refs/pr/1")),
        ("a", None), ("a/b/c", None), ("../b", None), ("a/b@", None), ("./b", None), ("/b", None),
    ],
)  # fmt: skip
def test_names_at_the_hub(name: str, expected: HubName | None) -> None:
    assert shelf.parsed(name) == expected
    if expected is not None:
        assert str(expected) == name


def test_what_is_pushed_is_the_model_alone_and_comes_back(at: Hub, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(MINI, mine)
    (mine / "notes.pkl").write_bytes(b"pickle")
    done = push(mine, "org/new", datasets=["org/her2st"])
    assert (done.private, at.private["org/new"], done.url) == (True, True, f"{at.url}/org/new")
    oid, files = at.commits["org/new"][-1]
    assert done.source == f"org/new@{oid}"
    assert set(files) == {".gitattributes", *FILES}
    assert {n: files[n] for n in FILES if n != "README.md"} == {n: c for n, c in FILES.items() if n != "README.md"}
    card = ModelCard(files["README.md"].decode())
    assert card.text.lstrip() == FILES["README.md"].decode()
    assert (card.data.library_name, card.data.license, card.data.datasets) == ("genar", "cc-by-4.0", ["org/her2st"])
    assert {"genar", "spatial-transcriptomics"} <= set(card.data.tags)
    assert card.data.metrics == ["mse", "pearsonr", "spearmanr"]
    assert any(r.metric_name.startswith("PCC-50,") and 0 < r.metric_value < 1 for r in card.data.eval_results)
    assert store.load("org/new").source == done.source
    assert not push(mine, "org/open", public=True).private


def test_what_a_newer_model_lacks_goes_and_what_is_others_stays(at: Hub, tmp_path: Path) -> None:
    at.commit("org/m", FILES | {"figure.png": b"theirs"})
    newer = shutil.copytree(MINI, tmp_path / "newer")
    (newer / "reference.safetensors").unlink()
    push(newer, "org/m")
    assert set(at.commits["org/m"][-1][1]) == {*FILES, "figure.png"} - {"reference.safetensors"}
    before = at.commits["org/m"][-1][1]["README.md"]
    push("org/m", "org/m")  # whose card has a header already
    assert at.commits["org/m"][-1][1]["README.md"] == before
    assert "/api/repos/create" not in at.asked


def test_what_is_not_pushed(at: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at.commit("org/bert", {"config.json": b"{}"})
    with pytest.raises(OutputError, match=r"org/bert: the repository holds config.json and no model of genar's"):
        push("her2st-mini", "org/bert")
    assert len(at.commits["org/bert"]) == 1
    for name in ("mine", "org/m@main", "a/b/c"):
        with pytest.raises(ConfigError, match="it is no name of a repository"):
            push("her2st-mini", name)
    shutil.copytree(MINI, tmp_path / "cut")
    config = json.loads(FILES["config.json"]) | {"feature_dim": 7}
    (tmp_path / "cut" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot be loaded"):
        push(tmp_path / "cut", "org/new")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OutputError, match="HF_HUB_OFFLINE is set"):
        push("her2st-mini", "org/new")
    assert "org/new" not in at.commits
