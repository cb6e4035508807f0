import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genar.baselines.hest import hest_bench_ridge, hest_ridge
from tests.baselines.conftest import section, table


@pytest.mark.parametrize(("n", "d", "dtype"), [(600, 300, np.float64), (40, 300, np.float64), (600, 300, np.float32)])
def test_it_is_the_published_pipeline(n: int, d: int, dtype: type) -> None:
    random = np.random.default_rng(0)
    train, test = random.normal(size=(n, d)).astype(dtype), random.normal(size=(9, d)).astype(dtype)
    target = np.log1p(random.poisson(3, (n, 50)))
    reduce = make_pipeline(StandardScaler(), PCA(min(256, n, d), random_state=1))
    x, new = reduce.fit_transform(train), reduce.transform(test)
    alpha = 100 / (x.shape[1] * 50)
    reg = Ridge(solver="lsqr", alpha=alpha, random_state=1, fit_intercept=False, max_iter=1000).fit(x, target)
    found = hest_ridge(train, target, test)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, reg.predict(new), rtol=0, atol=1e-8)


def test_one_gene_keeps_its_column() -> None:
    random = np.random.default_rng(0)
    train = random.normal(size=(30, 5))
    assert hest_ridge(train, np.log1p(random.poisson(3, (30, 1))), train[:4]).shape == (4, 1)


def test_the_baseline_speaks_log2_and_has_no_level() -> None:
    train, test = table(section("A", 0), section("B", 1)), table(section("C", 2, spots=9), genes=None)
    (found,) = hest_bench_ridge(train, [test], 0)
    features = np.concatenate([np.asarray(f) for f in train.features])
    natural = hest_ridge(features, np.log1p(train.counts.astype(float)), np.asarray(test.features[0]))
    np.testing.assert_allclose(found.log, natural / np.log(2), atol=1e-5)
    np.testing.assert_allclose(found.counts, np.maximum(np.expm1(natural), 0), atol=1e-4)
    (own,) = hest_bench_ridge(train, [train], 0)
    np.testing.assert_allclose(own.log.mean(axis=0), 0, atol=1e-5)
