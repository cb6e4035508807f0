"""What all baselines have in common."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from genar import metrics
from genar.baselines import BASELINES, Baseline, fit
from genar.baselines.known import MOST_FITTED, Known
from genar.data.spots import counts_of
from tests.baselines.conftest import GENES, section, table

ALL = pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES)
QUICK = fit.Recipe(lr=0.01, max_epochs=30, patience=5, average=0.8)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.baselines.mlp.RECIPE", QUICK)
    monkeypatch.setattr("genar.baselines.nb.RECIPE", QUICK)


@ALL
def test_a_test_section_has_a_prediction_whatever_others_there_are(baseline: Baseline) -> None:
    train = table(section("A", 0), section("B", 1))
    tests = [table(section("C", 2, spots=7), genes=None), table(section("D", 3, spots=1), genes=None)]
    both = baseline(train, tests, 0)
    assert [p.log.shape for p in both] == [p.counts.shape for p in both] == [(7, len(GENES)), (1, len(GENES))]
    (alone,) = baseline(train, tests[1:], 0)
    np.testing.assert_allclose(both[1].log, alone.log, rtol=1e-5, atol=1e-6)
    for p in both:
        assert p.log.dtype == p.counts.dtype == np.float64
        assert np.isfinite(p.log).all()
        assert (p.counts >= 0).all()


@ALL
def test_a_seed_gives_the_same_prediction_and_leaves_torchs_own_alone(baseline: Baseline) -> None:
    train, test = table(section("A", 0), section("B", 1)), table(section("C", 2), genes=None)
    torch.manual_seed(5)
    expected = torch.random.get_rng_state()
    (first,) = baseline(train, [test], 3)
    assert torch.equal(torch.random.get_rng_state(), expected)
    torch.manual_seed(6)
    (second,) = baseline(train, [test], 3)
    assert np.array_equal(first.log, second.log)
    assert np.array_equal(first.counts, second.counts)


@pytest.mark.parametrize("name", ["ridge", "MLP", "NB regression", "k-nearest spots"])
def test_it_learns_a_linear_signal(name: str) -> None:
    train, test = table(*(section(n, i) for i, n in enumerate("ABCD"))), section("E", 9)
    (found,) = BASELINES[name](train, [table(test, genes=None)], 0)
    (mean,) = BASELINES["gene mean"](train, [table(test, genes=None)], 0)
    counts = counts_of(test, GENES)
    of, of_mean = (metrics.score(p, counts) for p in (found, mean))
    assert of["PCC-200"] > (0.25 if name == "k-nearest spots" else 0.6)
    assert of["MSE"] < of_mean["MSE"] * (0.98 if name == "k-nearest spots" else 0.7)


@ALL
def test_what_a_section_did_not_measure_does_not_count(baseline: Baseline) -> None:
    """The counts there are 0, and must not pull the prediction down."""
    whole = [section("A", 0, level=4.0), section("B", 1, level=4.0)]
    (found,) = baseline(table(whole[0], whole[1][:, GENES[1:]].copy()), [table(section("C", 2), genes=None)], 0)
    level = metrics.log_counts(whole[0].X.toarray()).mean(axis=0)
    level = np.zeros(len(GENES)) if baseline is BASELINES["HEST-Bench ridge"] else level  # which has none
    assert abs(found.log[:, 0].mean() - level[0]) < 0.8  # half of it would be 2 less
    assert abs(found.log[:, 1].mean() - level[1]) < 0.8


@ALL
def test_degenerate_counts(baseline: Baseline) -> None:
    """A gene of zeros, and one that never varies."""
    sections = [section("A", 0, spots=20), section("B", 1, spots=20)]
    for one in sections:
        counts = one.X.toarray()
        counts[:, 0], counts[:, 1] = 0, 3
        one.X = csr_matrix(counts)
    (found,) = baseline(table(*sections), [table(section("C", 2), genes=None)], 0)
    assert np.isfinite(found.log).all()
    if baseline is not BASELINES["HEST-Bench ridge"]:
        assert (found.log[:, 0] < 0.5).all()
        assert (np.abs(found.log[:, 1] - 2) < 0.8).all()


def test_of_very_many_spots_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genar.baselines.known.MOST_FITTED", 30)
    assert MOST_FITTED == 50_000
    every = table(section("A", 0), section("B", 1))
    known = Known.of(every, 4)
    rows = np.sort(np.random.default_rng(4).choice(120, 30, replace=False))
    assert np.array_equal(known.features, every.batch(rows)["features"])
    assert np.array_equal(known.section, every.section[rows])
    assert np.array_equal(known.logs, metrics.log_counts(every.counts[rows]))


def test_what_was_not_measured_is_filled_with_the_mean_of_what_was() -> None:
    whole = [section("A", 0), section("B", 1)]
    known = Known.of(table(whole[0], whole[1][:, GENES[2:]].copy()), 0)
    logs = metrics.log_counts(whole[0].X.toarray())
    assert np.allclose(known.logs[60:, :2], logs[:, :2].mean(axis=0))
    assert np.allclose(known.logs[:60], logs)
    none = Known.of(table(whole[0][:, GENES[1:]].copy(), whole[1][:, GENES[1:]].copy()), 0)
    assert not none.logs[:, 0].any()
