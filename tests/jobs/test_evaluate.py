"""A model is judged on sections that it never saw, whatever they are called, beside what learns from the same ones."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genar import keys, metrics, store
from genar.baselines import BASELINES
from genar.data.spots import SpotTable
from genar.errors import ConfigError, ModelError, OutputError
from genar.jobs import unseen
from genar.jobs.evaluate import evaluate
from genar.jobs.train import train
from genar.read.source import section
from tests.jobs.conftest import Configure

HOLDOUT = {
    "split__method": "holdout", "split__test": ["D"], "split__validation": "none", "split__shared_patients": [],
}  # fmt: skip


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of the tests' sections, which are alike."""
    return tmp_path_factory.getbasetemp() / "features"


@pytest.fixture
def model(configure: Configure, cohort: Path, cache: Path, tmp_path: Path) -> Path:
    """A model of sections A, B and C; its features are in the cache."""
    train(configure(data__root=str(cohort), data__cache=str(cache), **HOLDOUT))
    return tmp_path / "run/model"


def sheet(cohort: Path, names: dict[str, str], path: Path) -> Path:
    """Write a sample sheet of some of the cohort's sections under other names."""
    lines = pd.read_csv(cohort, dtype=str)
    column = next(c for c in ("section", "name") if c in lines)
    lines = lines[lines[column].isin(names)].assign(**{column: lambda t: t[column].map(names)})
    lines.to_csv(cohort.parent / path, index=False)
    return cohort.parent / path


def test_what_was_held_out_is_judged_beside_baselines(model: Path, cohort: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "judged"
    found = evaluate(str(model), cohort, out, cache=cache, device="cpu")
    assert sorted(p.name for p in out.iterdir()) == [
        "evaluation.json",
        "genes-D.png",
        "genes.csv",
        "scores.csv",
        "scores.png",
    ]
    scores = pd.read_csv(out / "scores.csv").set_index(["section", "method"])
    assert list(scores.index) == [("D", "GenAR"), ("D", "gene mean"), ("D", "ridge")]
    assert scores.loc[("D", "gene mean"), "PCC"] == 0
    for name in ("PCC-200", "MSE", "NLL", "CRPS", "covered 80%", "NB NLL", "Moran PCC", "SSIM"):
        assert np.isfinite(scores.loc[("D", "GenAR"), name])
    said = json.loads((out / "evaluation.json").read_text())
    assert said["methods"]["ridge"]["MSE"]["mean"] == pytest.approx(scores.loc[("D", "ridge"), "MSE"], rel=1e-5)
    assert said["methods"]["ridge"]["NLL"]["mean"] is None
    spots = said["by_section"]["D"]
    assert list(spots) == ["GenAR", "gene mean", "ridge"]
    for method, figures in spots.items():
        assert list(figures) == ["PCC-10", "PCC-50", "PCC-200", "PCC", "MSE"]
        for name, interval in figures.items():
            assert interval["value"] == pytest.approx(scores.loc[("D", method), name], rel=1e-5)
        assert figures["MSE"]["low"] < figures["MSE"]["value"] < figures["MSE"]["high"]
    assert spots["gene mean"]["PCC"] == {"value": 0, "low": 0, "high": 0}
    genes = pd.read_csv(out / "genes.csv")
    own = genes[genes["method"] == "GenAR"]
    assert sorted(own["gene"]) == sorted(store.load(model).panel.index)
    assert own["pcc"].fillna(0).mean() == pytest.approx(scores.loc[("D", "GenAR"), "PCC"])
    assert found.warnings == ()
    with pytest.raises(OutputError, match="overwrite"):
        evaluate(str(model), cohort, out, cache=cache, device="cpu")


def test_a_section_is_known_by_its_content(
    model: Path, cohort: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = sheet(cohort, {"A": "new1", "B": "new2", "C": "new3"}, Path("renamed.csv"))
    with monkeypatch.context() as patch:
        patch.setattr(unseen, "features", lambda *_, **__: pytest.fail("extracted before it was known to be of use"))
        with pytest.raises(ModelError, match="learnt from all sections of .*renamed.csv.*--seen"):
            evaluate(str(model), renamed, cache=cache)
        with pytest.raises(ModelError, match="learnt from section new2.*--seen"):
            evaluate(str(model), renamed, sections=["new2"], cache=cache)
    found = evaluate(str(model), renamed, sections=["new2"], seen=True, baselines=[], cache=cache)
    assert list(found.scores["section"]) == ["new2"]
    assert "learnt from new2: the figures say how well it remembers" in found.warnings[0]


def test_without_what_it_learnt_from_there_is_no_baseline_and_without_baselines_no_need_of_it(
    model: Path, cohort: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = sheet(cohort, {"D": "D"}, Path("alone.csv"))
    found = evaluate(str(model), alone, cache=cache, device="cpu")
    assert list(found.scores["method"]) == ["GenAR"]
    assert "no baseline can learn" in found.warnings[-1]
    assert "NB NLL" not in found.scores
    seen, extract = [], unseen.features
    monkeypatch.setattr(unseen, "features", lambda one, **o: (seen.append(one), extract(one, **o))[1])
    bare = evaluate(str(model), cohort, baselines=[], cache=cache, device="cpu")
    assert [one.obs[keys.LIBRARY_ID].iloc[0] for one in seen] == ["D"]
    pd.testing.assert_frame_equal(bare.scores[found.scores.columns], found.scores)
    assert np.isfinite(bare.scores["NB NLL"]).all()  # as the training counts are at hand
    assert bare.warnings == ()


def test_what_cannot_be(cohort: Path) -> None:
    with pytest.raises(ConfigError, match="--baselines: 'magic' is not known; give some of: gene mean"):
        evaluate("her2st-mini", cohort, baselines=["magic"])
    with pytest.raises(ConfigError, match="--sections: there is no section 'Q'"):
        evaluate("her2st-mini", cohort, sections=["Q"])


def test_the_ridge_is_the_one_that_learns_from_the_models_sections(
    model: Path, cohort: Path, cache: Path, tmp_path: Path
) -> None:
    found = evaluate(str(model), cohort, cache=cache, device="cpu")
    loaded = store.load(model)
    from genar.encoders.cache import features
    from genar.jobs.prepare import slim, with_counts

    tables = []
    for name in "ABCD":
        one = with_counts(section(cohort, name=name))
        seen = features(one, encoder=loaded.info.encoder, tile_um=loaded.info.tile_um, cache=cache)
        tables.append(slim(one, loaded.panel.index, loaded.info.encoder, seen))
    genes, encoder = loaded.panel.index, loaded.info.encoder
    (ridge,) = BASELINES["ridge"](
        SpotTable.of(tables[:3], genes, encoder), [SpotTable.of(tables[3:], genes, encoder)], 0
    )
    expected = metrics.score(ridge, tables[3][:, genes].X.toarray())
    row = found.scores.set_index("method").loc["ridge"]
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-6, nan_ok=True)
