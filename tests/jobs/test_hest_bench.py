"""HEST-Bench's protocol, on folders laid out as the benchmark is."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from genar import keys, read
from genar.cli.config import load
from genar.data.spots import SpotTable
from genar.errors import DataError
from genar.jobs.bench_hest import OFFICIAL, bench_hest, means
from genar.jobs.benchmark import Benchmark
from genar.jobs.config import TrainConfig
from genar.jobs.hest_bench import fold_score, read_task, run_fold
from genar.model.config import ModelConfig
from genar.read.hest_bench import LAYOUT, Sample, tasks
from genar.read.hest_sample import as_section, log1p, side_um
from genar.slide.section import metadata
from genar.slide.tiles import open_tiles
from tests.jobs.conftest import CONFIG, SMALL, small, write_sample, write_splits

ENCODER = "efficientnet_lite0"


def official(root: Path, tmp_path: Path) -> tuple[dict[str, Benchmark], pd.DataFrame, pd.DataFrame]:
    """Run the benchmark's regression; return what was found, and the tables of folds and genes."""
    own = {"data.root": str(root), "data.cache": str(tmp_path / "cache"), "output": str(tmp_path / "out")}
    config = load(CONFIG, TrainConfig, SMALL | own)
    found = bench_hest(config, seeds=1, methods=(OFFICIAL,), overwrite=True)
    return found, pd.read_csv(tmp_path / "out/folds.csv"), pd.read_csv(tmp_path / "out/genes.csv")


def test_tasks_and_their_folds(written: Path) -> None:
    (task,) = tasks(written)
    assert (task.name, list(task.genes)) == ("IDC", ["G4", "G1", "G5"])
    assert [fold.number for fold in task.folds] == [0, 1, 2]
    assert [[s.name for s in fold.train] for fold in task.folds] == [["B", "C"], ["A", "C"], ["A", "B"]]
    assert task.folds[1].test == (Sample("B", written / "IDC/patches/B.h5", written / "IDC/adata/B.h5ad"),)
    assert tasks(written, ["IDC"])[0].folds == task.folds


def test_a_sample_has_its_patches_order(written: Path) -> None:
    (task,) = tasks(written)
    section = as_section(task.folds[0].test[0], task.genes)
    whole, _ = small("A", 0)
    order = [f"A-{i}" for i in (11, 3, 4, 0, 7, 9, 1, 2, 5, 12)]
    assert list(section.obs_names) == order
    assert list(section.var_names) == list(task.genes)
    expected = whole[order, task.genes].X.toarray()
    assert np.array_equal(section.X.toarray(), expected)
    np.testing.assert_allclose(log1p(section), np.log1p(expected.astype(float)))
    assert section.obs[keys.TOTAL_COUNTS].tolist() == whole[order].X.sum(axis=1).A1.tolist()
    np.testing.assert_array_equal(section.obsm[keys.SPATIAL], whole[order].obsm[keys.SPATIAL])
    section.obsm[keys.features("e")] = np.zeros((10, 2), np.float32)
    table = SpotTable.of([section], task.genes, "e", ModelConfig(neighbours=3, position="relative_um"))
    assert table.batch(np.arange(3))["neighbour_features"].shape == (3, 3, 2)
    assert metadata(section)[keys.MPP] == 0.5


def test_the_resolution_is_what_the_patches_say(written: Path) -> None:
    (task,) = tasks(written)
    sample = task.folds[0].test[0]
    with h5py.File(sample.patches, "a") as file:
        file["img"].attrs["patch_size_src"] = 64  # of 16 µm
    section = as_section(sample, task.genes)
    assert metadata(section)[keys.MPP] == 0.25
    with open_tiles(section, side_um(sample), 32) as tiles:
        assert len(tiles.chunks[0]) == 10


def test_the_protocol_is_a_direct_run_of_scikit_learn(written: Path, tmp_path: Path) -> None:
    result, table, genes = official(written, tmp_path)
    assert table[["task", "fold", "n_train", "n_test"]].to_numpy().tolist() == [["IDC", i, 20, 10] for i in range(3)]
    (task,) = tasks(written)
    sections = read_task(task, ENCODER, cache=tmp_path / "cache")
    for fold in task.folds:
        x, new = (
            np.concatenate([np.asarray(sections[s].obsm[keys.features(ENCODER)]) for s in side])
            for side in (fold.train, fold.test)
        )
        known = np.concatenate([np.log1p(sections[s].X.toarray().astype(float)) for s in fold.train])
        scaler = StandardScaler()
        pca = PCA(20, random_state=1)
        z = pca.fit_transform(scaler.fit_transform(x))
        ridge = Ridge(solver="lsqr", alpha=100 / (20 * 3), random_state=1, fit_intercept=False, max_iter=1000)
        predicted = ridge.fit(z, known).predict(pca.transform(scaler.transform(new)))
        measured = np.log1p(sections[fold.test[0]].X.toarray().astype(float))
        expected = [pearsonr(predicted[:, g].astype(float), measured[:, g]).statistic for g in (0, 1)]
        found = genes[genes["fold"] == fold.number]
        assert found["gene"].tolist() == list(task.genes)
        np.testing.assert_allclose(found["pcc"][:2], expected, rtol=0, atol=1e-8)
        assert np.isnan(found["pcc"].iloc[2])  # all zeros
        row = table.iloc[fold.number]
        assert row["PCC"] == pytest.approx(sum(expected) / 3, abs=1e-8)
        assert row["undefined"] == 1
        assert run_fold(fold, sections, ENCODER)[0].pcc == pytest.approx(row["PCC"], abs=1e-12)
    assert means(result).loc[OFFICIAL].tolist() == pytest.approx([table["PCC"].mean()] * 2)


def test_features_are_kept(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, _ = official(written, tmp_path)
    monkeypatch.setattr("genar.encoders.cache.create", lambda *_: pytest.fail("encoded again"))
    _, again, _ = official(written, tmp_path)
    pd.testing.assert_frame_equal(first, again)


def test_the_mean_is_over_folds_then_tasks() -> None:
    figures = {"a": [0.1, 0.2, 0.3], "b": [0.6]}
    found = {
        task: Benchmark(
            pd.DataFrame({"section": range(len(pcc)), "method": OFFICIAL, "seed": 0, "PCC": pcc}), pd.DataFrame()
        )
        for task, pcc in figures.items()
    }
    assert means(found).loc[OFFICIAL].to_dict() == pytest.approx({"a": 0.2, "b": 0.6, "mean": 0.4})


def test_an_undefined_gene_counts_as_nothing() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(9, 4)), random.normal(size=(9, 4))
    a[:, 0], b[:, 2] = 0.3, 1.0
    score = fold_score(a, b)
    assert np.isnan(score.by_gene).tolist() == [True, False, True, False]
    assert score.undefined == 2
    assert score.pcc == pytest.approx(sum(pearsonr(a[:, g], b[:, g]).statistic for g in (1, 3)) / 4)
    alone = fold_score(a[:1], b[:1])
    assert (alone.pcc, alone.undefined) == (0.0, 4)


def test_barcodes_that_are_not_there(written: Path) -> None:
    (task,) = tasks(written)
    sample = task.folds[0].test[0]
    with h5py.File(sample.patches, "a") as file:
        names = file["barcode"][...]
        del file["barcode"]
        names[4] = b"Q-1"
        file["barcode"] = names
    with pytest.raises(DataError, match=r"A.h5ad: 1 of the 10 barcodes .* Q-1 for one"):
        as_section(sample, task.genes)
    with pytest.raises(DataError, match=r"B.h5ad: 2 of the 3 of the task's genes .* X for one"):
        as_section(task.folds[1].test[0], pd.Index(["G1", "X", "Y"]))


def test_a_barcode_that_stands_twice(written: Path) -> None:
    (task,) = tasks(written)
    sample = task.folds[0].test[0]
    section, _ = small("A", 0)
    section.obs_names = [*section.obs_names[:-1], "A-3"]
    section.write_h5ad(sample.expression)
    with pytest.raises(DataError, match="or twice, A-3 for one"):
        as_section(sample, task.genes)


@pytest.mark.parametrize(
    ("gone", "what"),
    [
        ("IDC/var_50genes.json", "var_50genes.json: its genes cannot be read"),
        ("IDC/splits/test_1.csv", "test_1.csv: there is no such file"),
        ("IDC/splits/train_2.csv", "train_2.csv: there is no such file"),
        ("IDC/patches/B.h5", "B.h5: its patches cannot be read"),
        ("IDC/adata/C.h5ad", "C.h5ad: there is no such file"),
    ],
)
def test_what_is_missing_is_named(written: Path, tmp_path: Path, gone: str, what: str) -> None:
    (written / gone).unlink()
    with pytest.raises(DataError, match=what):
        official(written, tmp_path)


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("splits/test_0.csv", "sample_id,patches_path\nA,patches/A.h5\n", "test_0.csv: it has no column expr_path"),
        ("splits/test_0.csv", "sample_id,patches_path,expr_path\n", "test_0.csv: it names no sample"),
        ("splits/test_0.csv", "", "test_0.csv: it cannot be read"),
        (
            "splits/test_0.csv",
            "sample_id,patches_path,expr_path\nB,patches/B.h5,adata/B.h5ad\n",
            "test_0.csv: B is among its training samples",
        ),
        ("var_50genes.json", '["A"]', "its genes cannot be read"),
        ("var_50genes.json", '{"genes": []}', "no list of different names"),
        ("var_50genes.json", '{"genes": ["A", "A"]}', "no list of different names"),
        ("var_50genes.json", '{"genes": "AB"}', "no list of different names"),
    ],
)
def test_what_is_wrong_is_named(written: Path, path: str, text: str, what: str) -> None:
    (written / "IDC" / path).write_text(text)
    with pytest.raises(DataError, match=what):
        tasks(written)


def test_a_folder_without_tasks(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        tasks(tmp_path)
    assert (caught.value.what, caught.value.remedy) == (str(tmp_path), LAYOUT)
    with pytest.raises(DataError, match=r"IDC/splits: there is no train_0.csv"):
        tasks(tmp_path, ["IDC"])


def test_counts_must_be_raw(written: Path) -> None:
    (task,) = tasks(written)
    sample = task.folds[0].test[0]
    section, _ = small("A", 0)
    section.X = section.X.astype(np.float32) * 0.5
    section.write_h5ad(sample.expression)
    with pytest.raises(DataError, match="A.h5ad: it holds values that are not whole"):
        as_section(sample, task.genes)


@pytest.mark.slow
def test_real_sections(shared: Path, tmp_path: Path) -> None:
    """Three her2st sections with patches of 224 px, cut by genar: their features are those of the slide's tiles."""
    names, sections = ["C2", "C3", "C4"], []
    for name in names:
        section = read.st(shared / "data/her2st", name, mpp=0.687)
        sections.append(section[np.argsort(section.obsm[keys.SPATIAL][:, 1], kind="stable")[:60]].copy())
    common = sorted(set.intersection(*(set(s.var_names) for s in sections)))
    total = sum(np.asarray(s[:, common].X.sum(axis=0)).ravel() for s in sections)
    genes = [common[i] for i in np.argsort(-total, kind="stable")[:50]]
    for name, section in zip(names, sections, strict=True):
        with open_tiles(section, 112.0, 224) as tiles:
            order = np.concatenate(tiles.chunks)
            patches = np.concatenate([tiles[i].permute(0, 2, 3, 1).numpy() for i in range(len(tiles.chunks))])
        write_sample(tmp_path / "HER2ST", name, section, patches, order)
    write_splits(tmp_path / "HER2ST", genes, names)
    result, table, by_gene = official(tmp_path, tmp_path)
    assert table[["n_train", "n_test", "undefined"]].to_numpy().tolist() == [[120, 60, 0]] * 3
    assert len(by_gene) == 150
    assert means(result).loc[OFFICIAL, "mean"] > 0.2
