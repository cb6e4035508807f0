import numpy as np
import pytest
from scipy.stats import nbinom, poisson

from genar.metrics.negative_binomial import LEAST_MEAN, Training, dispersions, nb_nll


@pytest.mark.parametrize("scale", [3, 500])  # counts fewer and more than spots
def test_likelihood_equals_scipy(scale: int) -> None:
    rng = np.random.default_rng(0)
    mean, a = rng.gamma(1, scale, size=(50, 6)), np.array([0.01, 0.3, 1.0, 4.0, 100.0, 1e-6])
    counts = rng.poisson(scale, size=(50, 6))
    expected = -nbinom.logpmf(counts, 1 / a, 1 / (1 + a * np.maximum(mean, LEAST_MEAN)))
    assert np.allclose(nb_nll(counts, mean, a), expected, rtol=1e-6)


def test_without_dispersion_it_is_poisson() -> None:
    counts, mean = np.arange(12).reshape(6, 2), np.linspace(0.1, 9, 12).reshape(6, 2)
    assert np.allclose(nb_nll(counts, mean, np.zeros(2)), -poisson.logpmf(counts, mean))
    near = nb_nll(counts, mean, np.full(2, 1.01e-8))
    assert np.allclose(near, -poisson.logpmf(counts, mean), atol=1e-5)


def test_a_mean_of_nothing_is_floored() -> None:
    found = nb_nll(np.array([[0], [5]]), np.array([[-1.0], [0.0]]), np.zeros(1))
    assert np.allclose(found, -poisson.logpmf([[0], [5]], LEAST_MEAN))


def test_dispersion_is_found_by_the_moments() -> None:
    rng = np.random.default_rng(0)
    counts = np.stack(
        [rng.negative_binomial(2, 2 / (2 + 5), 200_000), rng.poisson(5, 200_000), np.zeros(200_000, dtype=int)], axis=1
    )
    found = dispersions(counts)
    mean, variance = counts[:, 0].mean(), counts[:, 0].var(ddof=1)
    assert found[0] == pytest.approx((variance - mean) / mean**2)
    assert found[0] == pytest.approx(0.5, rel=0.03)
    assert found[1] < 0.01
    assert found[2] == 0
    assert dispersions(np.full((9, 1), 4)) == 0  # less variance than a Poisson law
    assert dispersions(np.array([[7]])) == 0


def test_cells_that_were_not_measured_do_not_count() -> None:
    rng = np.random.default_rng(0)
    counts = rng.negative_binomial(2, 0.2, size=(60, 4)).astype(np.uint16)
    seen = np.ones(counts.shape, dtype=bool)
    seen[:30, 1], seen[:, 2] = False, False
    found, rest = Training.of(counts, seen), Training.of(counts[30:])
    assert found.mean == pytest.approx([counts[:, 0].mean(), rest.mean[1], 0, counts[:, 3].mean()])
    assert found.dispersion[[1, 2]] == pytest.approx([rest.dispersion[1], 0])
    assert found.genes(np.array([3, 0])).mean == pytest.approx(counts[:, [3, 0]].mean(axis=0))
