"""The two jobs on real tissue: train on some her2st sections, predict another, compare with what was measured there."""

from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest

import genar
from genar import keys, metrics, store
from genar.cli.app import build_parser
from genar.cli.config import load
from genar.errors import ConfigError, DataError, ModelError, OutputError, SlideError
from genar.estimate import ESTIMATORS
from genar.jobs import judge
from genar.jobs import predict_file as job
from genar.jobs import train as training
from genar.jobs.config import TrainConfig
from genar.jobs.options import Options

CONFIG = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"
SMALL = {
    "name": "small",
    "data.sections": ["C3", "C4", "C6"],
    "panel.n_genes": 40,
    "hierarchy.scales": [1, 4, 40],
    "model.width": 32,
    "model.layers": 2,
    "tiles.views": 2,
    "trainer.max_epochs": 6,
    "trainer.min_epochs": 1,
    "trainer.accelerator": "cpu",
}


@pytest.fixture(scope="module")
def run(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder: leave one section out over three sections, and the model of all three."""
    output = tmp_path_factory.mktemp("run") / "run"
    config = load(CONFIG, TrainConfig, SMALL | {"data.root": str(shared / "data/her2st"), "output": str(output)})
    training.train(config)
    return output


@pytest.mark.slow
def test_a_held_out_section_is_predicted_better_than_chance(run: Path) -> None:
    heldout = pd.read_csv(run / "heldout.csv").set_index(["section", "method"])
    assert set(heldout.index.get_level_values("section")) == {"C3", "C4", "C6"}
    means = heldout.groupby("method").mean()
    assert means.loc["GenAR", "PCC-10"] > 0.5
    assert means.loc["ridge", "PCC-10"] > 0.5
    assert means.loc["gene mean", "PCC-200"] == 0
    assert means.loc["GenAR", "MSE"] < means.loc["gene mean", "MSE"]


@pytest.mark.slow
def test_the_file_correlates_with_the_measured_counts_as_the_card_says(run: Path, shared: Path, tmp_path: Path) -> None:
    """Predict C3 from its image alone, with the model that never saw it, and join to the measured spots by place."""
    image = next((shared / "data/her2st/ST-imgs/C/C3").glob("*.jpg"))
    table, picture = job.predict_to_file(
        image, tmp_path, Options(model=str(run / "folds/C3/model"), spots="st", mpp=0.687)
    )[:2]
    predicted = ad.read_h5ad(table)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    measured = genar.read.st(shared / "data/her2st", "C3", mpp=0.687)
    xy, spots = measured.obsm[keys.SPATIAL], predicted.obsm[keys.SPATIAL]
    distance = np.linalg.norm(xy[:, None] - spots[None], axis=2)
    assert np.mean(distance.min(axis=1) * 0.687 < 150) > 0.95  # the lattice covers the tissue
    near = predicted[distance.argmin(axis=1)]
    truth = measured[:, predicted.var_names].X.toarray()
    pcc = metrics.pearson(metrics.log_counts(near.X.toarray()), metrics.log_counts(truth))
    card = pd.read_csv(run / "heldout.csv").set_index(["section", "method"]).loc[("C3", "GenAR"), "PCC-10"]
    assert metrics.top_pcc(pcc, 10) > card - 0.2  # a lattice of its own lies up to 100 µm off the measured spots
    assert metrics.top_pcc(pcc, 10) > 0.35


@pytest.mark.slow
def test_same_seed_same_counts(run: Path, shared: Path) -> None:
    slide = shared / "data/wsi/CMU-1-Small-Region.svs"
    a, b = (genar.predict(slide, run / "model", estimator="sample", seed=3, batch_size=n) for n in (32, 7))
    assert (a.X != b.X).nnz <= 0.01 * a.X.size  # batches of another size may round differently
    again = genar.predict(slide, run / "model", estimator="sample", seed=3)
    assert (a.X != again.X).nnz == 0
    other = genar.predict(slide, run / "model", estimator="sample", seed=4)
    assert (a.X != other.X).nnz > 0


@pytest.mark.slow
def test_stage_by_stage_equals_the_one_call(run: Path, shared: Path) -> None:
    with genar.read.slide(shared / "data/wsi/CMU-1-Small-Region.svs") as slide:
        spots = genar.pp.spots(slide, "st", tile_um=154)
        genar.pp.embed(spots, slide)
    staged = genar.tl.predict(spots, str(run / "model"))
    at_once = genar.predict(slide.path, run / "model")
    assert (staged.X != at_once.X).nnz == 0
    assert list(at_once.var_names) == list(staged.var_names)
    with pytest.raises(DataError, match="embed"):
        genar.tl.predict(genar.pp.spots(slide.path, "st"), str(run / "model"))


@pytest.mark.slow
def test_the_result_says_how_it_was_made(run: Path, shared: Path) -> None:
    adata = genar.predict(shared / "data/wsi/CMU-1-Small-Region.svs", run / "model", spots="visium")
    made = adata.uns["genar"]
    assert made["slide_sha256"].startswith("ed92d5a9")
    assert made["slide_sha256"].endswith("002c8a7")
    assert made["model_sha256"] == store.load(run / "model").sha256
    assert made["geometry"] == {"lattice": "visium", "spot_um": 55.0, "pitch_um": 100.0, "tile_um": 154.0}
    assert "trained on st spots" in made["warnings"][0]
    assert adata.X.dtype == np.int32
    assert (adata.layers["std"] > 0).all()
    assert {"group_1", "group_4", "group_40", "train_mean", "heldout_pcc"} <= set(adata.var)


@pytest.mark.slow
def test_prediction_and_measurement_lie_side_by_side(run: Path, shared: Path) -> None:
    """At the measured spots, under their names, the model of the fold gives what its table says."""
    image = next((shared / "data/her2st/ST-imgs/C/C3").glob("*.jpg"))
    counts = shared / "data/her2st/ST-cnts/C3.tsv.gz"
    predicted = genar.predict(image, run / "folds/C3/model", spots=counts, mpp=0.687)
    measured = genar.read.section(counts, mpp=0.687)
    assert predicted.obs_names.equals(measured.obs_names)
    assert np.array_equal(predicted.obsm[keys.SPATIAL], measured.obsm[keys.SPATIAL])
    genar.pp.embed(measured)
    unrounded = judge.predicted(store.load(run / "folds/C3/model"), measured)
    assert np.abs(predicted.X.toarray() - (np.exp2(unrounded.log) - 1)).max() < 0.51
    found, _ = judge.judged(unrounded, measured, predicted.var_names, None)
    told = pd.read_csv(run / "folds/C3/heldout.csv").set_index("method").loc["GenAR"].drop("section").to_dict()
    assert found.items() >= {name: pytest.approx(value, abs=1e-3) for name, value in told.items()}.items()


@pytest.mark.slow
def test_places_of_a_file(run: Path, shared: Path, tmp_path: Path) -> None:
    slide = shared / "data/wsi/CMU-1-Small-Region.svs"
    places = tmp_path / "places.csv"
    places.write_text("barcode,x,y\n007,900,1200\nb,1000,1300\n")
    predicted = genar.predict(slide, run / "model", spots=places)
    assert list(predicted.obs_names) == ["007", "b"]
    assert predicted.obsm[keys.SPATIAL].tolist() == [[900, 1200], [1000, 1300]]
    places.write_text("barcode,x,y\na,900,1200\nb,1000,9999\n")
    with pytest.raises(DataError, match="places.csv: 1 of 2 spots lie outside CMU-1-Small-Region.svs, 2220 x 2967 px"):
        genar.predict(slide, run / "model", spots=places)
    with pytest.raises(ConfigError, match="'hexes' is no lattice, and there is no such file"):
        genar.predict(slide, run / "model", spots="hexes")


@pytest.mark.slow
def test_a_model_that_is_damaged_is_refused(run: Path, tmp_path: Path) -> None:
    model = store.load(run / "model")
    for file, text in [("config.json", "{"), ("model.safetensors", "x"), ("genes.tsv", "gene\tgroup_1\nA\t0\n")]:
        copy = tmp_path / file
        store.save(model, copy, "card")
        (copy / file).write_text(text)
        with pytest.raises(ModelError, match="cannot be loaded|lacks"):
            store.load(copy)
    with pytest.raises(ModelError, match="no such model"):
        store.load("no-such-model")


def test_what_can_fail_fails_before_the_work(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "predict_checked", lambda *_, **__: pytest.fail("the work began"))
    slide = shared / "data/wsi/CMU-1-Small-Region.svs"
    ad.AnnData(np.ones((2, 2))).write_h5ad(tmp_path / f"{slide.stem}.h5ad")
    with pytest.raises(OutputError, match="was not written by this version's genar predict; add --overwrite"):
        job.predict_to_file(slide, tmp_path, Options())


def test_pitch_alone_is_refused(shared: Path) -> None:
    with pytest.raises(ConfigError, match="--pitch"):
        genar.predict(shared / "data/wsi/CMU-1-Small-Region.svs", pitch=50)


def test_slides_that_cannot_be_placed_are_refused(shared: Path) -> None:
    with pytest.raises(SlideError, match="--mpp"):
        genar.predict(shared / "data/wsi/TCGA-CR-7395-TS1-no-mpp.svs")


def test_a_tiny_dicom_of_one_colour_is_refused(shared: Path) -> None:
    with pytest.raises(SlideError):
        genar.predict(shared / "data/wsi/boxes_0.dcm", mpp=0.5)


def test_training_on_data_that_are_not_there_leaves_nothing(tmp_path: Path) -> None:
    config = load(CONFIG, TrainConfig, SMALL | {"data.root": str(tmp_path / "none"), "output": str(tmp_path / "run")})
    with pytest.raises(DataError, match="none: there is no such file or folder"):
        training.train(config)
    assert not (tmp_path / "run").exists()


def test_the_command_line_offers_every_estimator() -> None:
    command = build_parser().parse_args(["predict", "slide.svs"])
    assert command.estimator in ESTIMATORS
    for estimator in ESTIMATORS:
        assert build_parser().parse_args(["predict", "slide.svs", "--estimator", estimator]).estimator == estimator
