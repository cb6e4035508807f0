"""The bundled model and what the documentation says of it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import genar
from genar import keys, metrics, store
from genar.baselines import BASELINES
from genar.jobs.evaluation import GENAR
from genar.shelf import BUNDLED

ROOT = Path(__file__).parents[1]


def test_it_is_complete_and_small() -> None:
    model = store.load("her2st-mini")
    assert len(model.panel) == 200
    assert model.info.scales[-1] == 200
    assert sorted(model.info.sections) == ["C2", "C3", "C4", "C5", "C6"]
    assert model.panel[keys.HELDOUT_PCC].between(-1, 1).mean() > 0.95
    folder = BUNDLED / "her2st-mini"
    names = {"README.md", "config.json", "genes.tsv"} | {f"{n}.safetensors" for n in ("model", "record", "reference")}
    assert {p.name for p in folder.iterdir()} == names
    assert sum(p.stat().st_size for p in folder.iterdir()) < 30e6


def test_its_card_says_what_it_is_worth() -> None:
    card = (BUNDLED / "her2st-mini" / "README.md").read_text()
    for words in ("CC BY 4.0", "one tumour", "Not for", "PCC-10", "PCC-50", "PCC-200", "MSE", "ridge", "gene mean"):
        assert words in card
    assert all(f"| {section} | GenAR |" in card for section in ("C2", "C3", "C4", "C5", "C6"))


def test_the_readme_repeats_the_card() -> None:
    spec = importlib.util.spec_from_file_location("readme_results", ROOT / "scripts" / "readme_results.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = module.main_columns(module.MARKS.search((BUNDLED / "her2st-mini" / "README.md").read_text())[0])
    assert {line.split("|")[1].strip() for line in table.splitlines()[2:]} >= {GENAR, *BASELINES}
    assert table in (ROOT / "README.md").read_text()


def test_a_known_gene_is_predicted_where_it_should_be(shared: Path) -> None:
    """On a section that it was trained on, the bundled model's counts follow the measured ones."""
    section = genar.read.st(shared / "data/her2st", "C5", mpp=0.687)
    genar.pp.embed(section)
    predicted = genar.tl.predict(section, "her2st-mini")
    measured = section[:, predicted.var_names].X.toarray()
    pcc = metrics.pearson(np.log2(predicted.X.toarray() + 1), np.log2(measured + 1))
    assert np.nanmean(pcc) > 0.4
    assert np.median(predicted.X.toarray().sum(1)) == pytest.approx(np.median(measured.sum(1)), rel=0.35)
