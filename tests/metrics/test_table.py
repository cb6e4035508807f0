import numpy as np
import pandas as pd
import pytest
import torch

from genar import metrics
from genar.errors import DataError
from genar.metrics import errors, genes
from genar.metrics.distribution import spread_of
from genar.metrics.negative_binomial import nb_nll
from genar.metrics.spatial import adjacent, morans_i, ssim
from genar.metrics.vocabulary import distinct, unused

N, G = 48, 7


@pytest.fixture
def case() -> tuple[metrics.Prediction, np.ndarray, dict]:
    rng = np.random.default_rng(0)
    mean = np.array([0.1, 0.5, 2, 8, 30, 90, 200])
    counts = rng.poisson(mean * rng.gamma(2, 0.5, (N, 1)), size=(N, G))
    predicted = mean * rng.gamma(4, 1 / 4, (N, G))
    probabilities = torch.rand(N, G, 301, generator=torch.Generator().manual_seed(0)).pow(8)
    spread = spread_of(probabilities / probabilities.sum(-1, keepdim=True), torch.as_tensor(counts))
    given = {
        "training": metrics.Training.of(rng.poisson(mean, size=(20, G))),
        "neighbours": adjacent(np.stack(np.divmod(np.arange(N), 8), axis=1).astype(float)),
        "section": np.repeat(["x", "y"], N // 2),
    }
    return metrics.Prediction(metrics.log_counts(predicted), predicted, spread), counts, given


def test_what_is_right_and_what_is_off_by_a_half() -> None:
    counts = np.array([[0, 1], [1, 3], [3, 7]])
    perfect = metrics.score(metrics.Prediction.of_log(metrics.log_counts(counts)), counts)
    expected = {"PCC-10": 1.0, "PCC-50": 1.0, "PCC-200": 1.0, "PCC": 1.0, "Spearman": 1.0, "MSE": 0.0}
    assert {name: perfect[name] for name in expected} == pytest.approx(expected)
    off = metrics.Prediction.of_log(metrics.log_counts(counts) + 0.5)
    assert metrics.score(off, counts)["MSE"] == pytest.approx(0.25)


def test_a_row_a_gene(case) -> None:
    prediction, counts, given = case
    names = pd.Index([f"g{i}" for i in range(G)])
    table = metrics.by_gene(prediction, counts, genes=names, **given)
    assert table.index.equals(names)
    log, measured = prediction.log, metrics.log_counts(counts)
    half = given["section"] == "x"
    expected = {
        "pcc": metrics.pearson(log, measured),
        "pcc@x": metrics.pearson(log[half], measured[half]),
        "spearman": metrics.spearman(log, counts),
        "mae": errors.mae(log, measured),
        "mse_counts": errors.mse(prediction.counts, counts),
        "variance_distance": errors.variance_distance(log, measured),
        "nb_nll": nb_nll(counts, prediction.counts, given["training"].dispersion).mean(axis=0),
        "moran_measured": morans_i(measured, given["neighbours"]),
        "moran_predicted": morans_i(log, given["neighbours"]),
        "ssim": ssim(log, measured, given["neighbours"]),
        "crps": prediction.spread.crps.mean(axis=0),
        "covered_80": prediction.spread.covered[0.8].mean(axis=0),
        "max_measured": counts.max(axis=0),
        "zero_predicted": (np.rint(prediction.counts) == 0).mean(axis=0),
    }
    for name, values in expected.items():
        assert table[name].to_numpy() == pytest.approx(values, rel=1e-5), name


def test_blocks_and_threads_change_nothing(case, monkeypatch: pytest.MonkeyPatch) -> None:
    prediction, counts, given = case
    whole = metrics.by_gene(prediction, counts, **given)
    monkeypatch.setattr(genes, "CELLS", 2 * N)
    pd.testing.assert_frame_equal(metrics.by_gene(prediction, counts.astype(np.float32), threads=3, **given), whole)


def test_the_row(case) -> None:
    prediction, counts, given = case
    found = metrics.score(prediction, counts, **given)
    table = metrics.by_gene(prediction, counts, **given)
    assert metrics.score(prediction, counts, table=table) == found
    assert found["PCC-10"] == pytest.approx(np.nan_to_num(table["pcc"]).mean())  # of fewer genes
    assert found["MSE"] == pytest.approx(((prediction.log - metrics.log_counts(counts)) ** 2).mean())
    assert [found[f"zero {n}"] for n in ("precision", "recall", "F1")] == pytest.approx(
        errors.zero_scores(prediction.counts, counts)
    )
    assert found["PCC-10 within"] == pytest.approx((table["pcc@x"].mean() + table["pcc@y"].mean()) / 2)
    assert found["PCC-10 train-ranked"] == pytest.approx(table["pcc"].mean())
    assert found["NLL"] == pytest.approx(prediction.spread.nll.mean(), rel=1e-5)
    assert found["covered 95%"] == pytest.approx(prediction.spread.covered[0.95].mean())
    low = counts.max(axis=0) < 10
    assert found["PCC <10"] == pytest.approx(table["pcc"][low].mean())
    assert found["distinct modes"] == len(np.unique(prediction.spread.modes))
    assert found["distinct predicted"] == len(np.unique(np.rint(prediction.counts)))
    assert all(type(v) in (float, int) for v in found.values())


def test_what_is_not_given_is_not_judged(case) -> None:
    prediction, counts, _ = case
    bare = metrics.score(metrics.Prediction.of_log(prediction.log), counts)
    assert not {"NB NLL", "SSIM", "CRPS", "PCC-10 within", "PCC-10 train-ranked", "distinct modes"} & bare.keys()
    full = metrics.score(prediction, counts)
    assert bare["MSE counts"] == pytest.approx(full["MSE counts"])


def test_a_gene_that_was_not_measured_is_left_out_by_its_column(case) -> None:
    prediction, counts, given = case
    seen = np.arange(G) != 3
    given |= {"training": given["training"].genes(seen)}
    part = metrics.by_gene(prediction.genes(seen), counts[:, seen], **given)
    whole = metrics.by_gene(prediction, counts, **case[2] | {"training": None}).drop(index=3).reset_index(drop=True)
    pd.testing.assert_frame_equal(part[whole.columns], whole)


@pytest.mark.parametrize("spots", [1, 2, 9])
@pytest.mark.parametrize("level", [0, 3])
def test_degenerate_input_gives_figures_or_nan(spots: int, level: int) -> None:
    counts = np.full((spots, 4), level)
    probabilities = torch.eye(6)[torch.as_tensor(counts)]
    prediction = metrics.Prediction(metrics.log_counts(counts), counts, spread_of(probabilities, torch.tensor(counts)))
    given = {
        "training": metrics.Training.of(counts),
        "neighbours": adjacent(np.arange(2.0 * spots).reshape(spots, 2)),
        "section": np.arange(spots),
    }
    found = metrics.score(prediction, counts, **given)
    assert found["PCC-10"] == found["Spearman"] == found["MSE"] == found["CRPS"] == found["unused"] == 0
    assert found["covered 50%"] == 1
    assert all(np.isnan(found[name]) for name in ("RVD", "SSIM", "Moran PCC", "library size PCC"))
    assert found["zero F1"] == (level == 0)


def test_vocabulary() -> None:
    counts = np.array([[0, 3], [3, 7]])
    assert distinct(np.array([[-0.4, 0.6], [2.5, 3e7]])).tolist() == [0, 1, 2, 30_000_000]
    assert unused(distinct(np.array([[0.2, 3.4], [9.0, 3.0]])), distinct(counts)) == pytest.approx(6 / 8)
    assert unused(distinct(counts), distinct(counts)) == pytest.approx(1 - 3 / 8)
    assert np.isnan(unused(distinct(counts), distinct(counts[:0])))


def test_what_does_not_fit_is_refused(case) -> None:
    prediction, counts, _ = case
    for wrong in (counts[:, 1:], counts[0], counts[:0]):
        with pytest.raises(DataError, match="measured counts: they are of shape"):
            metrics.by_gene(prediction, wrong)
    for wrong in (counts - 1, counts + 0.5):
        with pytest.raises(DataError, match="negative or not whole"):
            metrics.score(prediction, wrong)
    with pytest.raises(DataError, match="prediction: its arrays are of shapes"):
        metrics.Prediction(prediction.log[1:], prediction.counts, prediction.spread)
