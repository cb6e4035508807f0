"""The training loop, and the networks that it trains."""

import numpy as np
import pytest
import torch
from scipy import stats

from genar.baselines import fit
from genar.baselines.mlp import network, squared_error
from genar.baselines.nb import Regression, likelihood, nb_regression
from tests.baselines.conftest import GENES, section, table


def test_a_section_is_left_out_by_seed_or_a_fifth_of_the_spots() -> None:
    three = table(*(section(n, i) for i, n in enumerate("ABC")))
    left = [set(three.section[fit.left_out(three, seed)[1]]) for seed in range(30)]
    assert set.union(*left) == {0, 1, 2}
    assert all(len(one) == 1 for one in left)
    rows, held = fit.left_out(table(section("A", 0)), 0)
    assert (len(rows), len(held)) == (48, 12)
    assert set(rows) | set(held) == set(range(60))


def test_training_stops_and_keeps_the_best_epoch() -> None:
    spots = table(section("A", 0), section("B", 1))
    rows, held = fit.left_out(spots, 0)
    recipe = fit.Recipe(lr=0.05, max_epochs=30, patience=4)
    kept, epochs, error = fit.train(lambda: network(spots), squared_error, spots, rows, held, 0, recipe)
    assert epochs < 30
    assert fit.judge(kept, squared_error, spots, held) == pytest.approx(error)
    exactly = fit.Recipe(lr=0.05, max_epochs=epochs, patience=4)
    again, _, same = fit.train(lambda: network(spots), squared_error, spots, rows, held, 0, exactly)
    assert same == error
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), again.parameters(), strict=True))


def test_the_loss_is_over_measured_counts_alone() -> None:
    spots = table(section("A", 0), section("B", 1)[:, GENES[1:]].copy())
    start = network(spots).eval()
    rows = np.arange(120)
    each = squared_error(start, spots.batch(rows)).detach().numpy()
    seen = spots.measured[spots.section]
    assert fit.judge(start, squared_error, spots, rows) == pytest.approx(each[seen].mean(), rel=1e-5)
    spots.counts[60:, 0] = 999
    assert fit.judge(start, squared_error, spots, rows) == pytest.approx(each[seen].mean(), rel=1e-5)


def test_a_negative_binomials_loss_and_estimates_are_scipys() -> None:
    spots = table(section("A", 0), section("B", 1))
    torch.manual_seed(0)
    model = Regression(spots).eval()
    torch.nn.init.normal_(model.log_mean.weight, std=0.05)
    batch = spots.batch(np.arange(9))
    with torch.inference_mode():
        mean = model(batch)[..., 0].exp().double().numpy()
        loss = likelihood(model, batch).numpy()
    law = stats.nbinom(1.0, 1 / (1 + mean))
    np.testing.assert_allclose(loss, -law.logpmf(spots.counts[:9]), rtol=1e-4, atol=1e-4)


def test_a_negative_binomials_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long-tailed gene the expected log lies below the log of the mean."""
    monkeypatch.setattr("genar.baselines.nb.RECIPE", fit.Recipe(max_epochs=2))
    monkeypatch.setattr("genar.baselines.nb.CELLS", 2000)
    spots, test = table(section("A", 0), section("B", 1)), table(section("C", 2), genes=None)
    (small,) = nb_regression(spots, [test], 0)
    monkeypatch.undo()
    monkeypatch.setattr("genar.baselines.nb.RECIPE", fit.Recipe(max_epochs=2))
    (large,) = nb_regression(spots, [test], 0)
    np.testing.assert_allclose(small.log, large.log, rtol=1e-5)
    assert (small.log < np.log2(small.counts + 1)).all()


def test_what_was_not_measured_moves_no_weight() -> None:
    """A gene that no section measured keeps its start, whatever stands in the table."""
    spots = table(*(section(n, i)[:, GENES[1:]].copy() for i, n in enumerate("AB")))
    spots.counts[:, 0] = 50
    start = network(spots)
    bias = float(start[-1].bias.detach()[0])
    recipe = fit.Recipe(lr=0.01, weight_decay=0.0, max_epochs=2)
    trained, _, _ = fit.train(lambda: start, squared_error, spots, np.arange(120), None, 0, recipe)
    assert float(trained[-1].bias.detach()[0]) == bias
    assert float(trained[-1].bias.detach()[1]) != bias
