"""The linear path: a ridge regression on all views, as sure of itself as left-out sections allow."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from anndata import AnnData
from sklearn.linear_model import Ridge

from genar.data.folds import inner_folds
from genar.jobs import linear
from genar.jobs.fit import prepare
from genar.model.tilt import phi, tilted
from tests.jobs.conftest import Configure, section
from tests.jobs.test_fit import GENES, split

LINEAR = {"model__linear": True, "model__distribution": "cross_entropy"}


@pytest.fixture
def sections() -> list[AnnData]:
    return [section(name, seed) for seed, name in enumerate("ABC")]


def test_it_is_a_ridge_regression(configure: Configure, sections: list[AnnData]) -> None:
    model, (table, _) = prepare(configure(**LINEAR), sections, [], GENES, split(sections))
    net = model.network
    x = net.condition.standard(torch.from_numpy(table.seen(np.arange(len(table))))).numpy()
    values = torch.cat(net.targets(torch.from_numpy(table.counts.astype(np.int32)))[0], dim=1)
    predicted = net.tilt.means(torch.from_numpy(x)).numpy()
    fits = [Ridge(alpha).fit(x, phi(values).numpy()).predict(x) for alpha in linear.ALPHAS]
    assert min(np.abs(predicted - fit).max() for fit in fits) < 1e-4
    assert np.ptp(predicted, axis=0).min() > 0


def test_views_count_as_one_spot_together() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(3, 40, 5)).astype(np.float32), random.normal(size=(40, 2))
    ((w, bias),) = linear._ridge(x, y, [7.0])
    direct = Ridge(21.0).fit(x.reshape(120, 5), np.tile(y, (3, 1)))
    np.testing.assert_allclose(w, direct.coef_.T, atol=1e-5)
    np.testing.assert_allclose(bias, direct.intercept_, atol=1e-5)


def test_predictions_are_of_spots_that_were_left_out() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(1, 90, 60)).astype(np.float32), random.normal(size=(90, 3))
    left_out, alpha, of_folds = linear._cross_fitted(x, y, inner_folds(np.repeat([0, 1, 2], 30)))
    assert alpha in linear.ALPHAS
    for held, (weight, _) in zip((slice(0, 30), slice(30, 60), slice(60, 90)), of_folds, strict=True):
        rest = np.delete(np.arange(90), held)
        ((w, bias),) = linear._ridge(x[:, rest], y[rest], [alpha])
        np.testing.assert_allclose(left_out[held], x[0, held] @ w + bias, atol=1e-6)
        np.testing.assert_allclose(weight, w, atol=1e-6)


def test_in_training_the_path_of_a_spot_was_fitted_without_its_section(
    configure: Configure, sections: list[AnnData]
) -> None:
    config = configure(**LINEAR)
    model, (table, _) = prepare(config, sections, [], GENES, split(sections))
    rows = np.arange(len(table))
    condition = model.network.condition
    x = condition.standard(torch.from_numpy(table.seen(rows)))
    inside = model.network.modulated(table.spots(slice(None), "cpu")).linear
    for number in range(3):
        here = table.section == number
        values = torch.cat(model.network.targets(torch.from_numpy(table.counts.astype(np.int32)))[0], dim=1)
        fits = [Ridge(a).fit(x[~here], phi(values[~here]).numpy()).predict(x[here]) for a in linear.ALPHAS]
        assert min(np.abs(inside[here].numpy() - fit).max() for fit in fits) < 1e-4
    outside = model.network.modulated(replace(table, fold=None).spots(slice(None), "cpu")).linear
    assert torch.equal(outside, model.network.tilt.means(x))
    assert not torch.allclose(inside, outside, atol=1e-3)


def test_the_spots_of_a_single_section_lie_in_folds(configure: Configure, sections: list[AnnData]) -> None:
    _, (table, _) = prepare(configure(**LINEAR), sections[:1], [], GENES, split(sections[:1]))
    assert sorted(np.unique(table.fold)) == list(range(5))


def test_the_likeliest_shape_has_the_moments_of_the_measurement() -> None:
    random = torch.Generator().manual_seed(0)
    means = 1 + 3 * torch.rand(400, 4, generator=random)
    values = torch.exp2(means + 0.5 * torch.randn(400, 4, generator=random)).sub(1).clamp(min=0).round()
    known = torch.rand(400, 4, generator=random) < 0.8
    values = torch.where(known, values, 999.0)  # not to be looked at
    grid = phi(torch.arange(400.0))
    a, b, s = linear._calibrated(means, values, known, grid)
    p = tilted(means, a, b, s, grid).softmax(-1)
    weight = known.float()
    for measured, predicted in (
        (phi(values), p @ grid),
        (phi(values) * means, (p @ grid) * means),
        (phi(values) ** 2, p @ grid**2),
    ):
        expected = (measured * weight).sum(0) / weight.sum(0)
        torch.testing.assert_close((predicted * weight).sum(0) / weight.sum(0), expected, rtol=2e-3, atol=1e-3)


def test_a_gene_that_a_section_did_not_measure_does_not_count(configure: Configure, sections: list[AnnData]) -> None:
    blind = [sections[0], sections[1], sections[2][:, :-1].copy()]
    found = prepare(configure(**LINEAR), blind, [], GENES, split(blind))[0].network.tilt
    assert all(torch.isfinite(found.get_buffer(name)).all() for name in ("weight", "bias", "offset", "slope", "width"))


def test_very_many_spots_are_sampled(configure: Configure, sections: list[AnnData], monkeypatch) -> None:
    monkeypatch.setattr(linear, "MOST_ROWS", 20)
    seen = []
    monkeypatch.setattr(
        linear, "_ridge", lambda x, y, alphas, f=linear._ridge: (seen.append(x.shape), f(x, y, alphas))[1]
    )
    prepare(configure(**LINEAR), sections, [], GENES, split(sections))
    assert seen[-1][1] == 20
