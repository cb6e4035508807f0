import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genar import metrics
from genar.baselines import ridge
from genar.baselines.known import Known, features_of
from genar.data import folds
from genar.errors import DataError
from tests.baselines.conftest import FEATURES, section, table


@pytest.fixture
def known() -> Known:
    return Known.of(table(*(section(n, i) for i, n in enumerate("ABC"))), 0)


def test_the_penalty_is_scikit_learns_grid_search(known: Known) -> None:
    unknown = features_of(table(section("D", 7), genes=None))
    model = make_pipeline(StandardScaler(), PCA(FEATURES, random_state=0), Ridge())
    search = GridSearchCV(
        model, {"ridge__alpha": ridge.ALPHAS}, cv=LeaveOneGroupOut(), scoring="neg_mean_squared_error"
    ).fit(known.features.astype(np.float64), known.logs, groups=known.section)
    (found,) = ridge.fit_pca_ridge(known, [unknown])
    np.testing.assert_allclose(found, search.predict(unknown.astype(np.float64)), atol=1e-4)


def test_each_gene_has_a_penalty_of_its_own(known: Known) -> None:
    """With all components or all features alike, which are here the same model."""
    train, test = table(*(section(n, i) for i, n in enumerate("ABC"))), table(section("D", 7), genes=None)
    (found,) = ridge.tuned_ridge(train, [test], 0)
    for gene in (0, 4):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": ridge.MORE_ALPHAS}, cv=LeaveOneGroupOut(),
            scoring="neg_mean_squared_error",
        ).fit(known.features.astype(np.float64), known.logs[:, gene], groups=known.section)  # fmt: skip
        np.testing.assert_allclose(found.log[:, gene], search.predict(features_of(test)), atol=1e-4)
    np.testing.assert_allclose(found.counts, np.maximum(np.exp2(found.log) - 1, 0))


@pytest.mark.parametrize("alpha", [10.0, 3e3])
def test_one_decomposition_serves_all_penalties(alpha: float) -> None:
    random = np.random.default_rng(0)
    for n in (8, 80):  # fewer and more spots than features
        x, y, new = random.normal(size=(n, 20)), random.normal(size=(n, 3)) + 4, random.normal(size=(5, 20))
        expected = make_pipeline(StandardScaler(), Ridge(alpha)).fit(x, y).predict(new)
        np.testing.assert_allclose(ridge._Ridge(x, y, None).predict(new, alpha), expected, rtol=1e-9)
        each = np.array([alpha, 1.0, 1e5])
        expected = make_pipeline(StandardScaler(), Ridge(each)).fit(x, y).predict(new)
        np.testing.assert_allclose(ridge._Ridge(x, y, None).predict(new, each), expected, rtol=1e-9)


def test_few_spots_and_a_single_section() -> None:
    test = [table(section("D", 7), genes=None)]
    for sections in ([section("A", 0, spots=15), section("B", 1, spots=15)], [section("A", 0)]):
        (found,) = ridge.tuned_ridge(table(*sections), test, 0)
        (pca,) = ridge.fit_pca_ridge(Known.of(table(*sections), 0), [features_of(test[0])])
        for prediction in (found, metrics.Prediction.of_log(pca)):
            assert metrics.score(prediction, section("D", 7).X.toarray())["PCC-200"] > 0.3
    with pytest.raises(DataError, match="the training spots: there are 1"):
        ridge.tuned_ridge(table(section("A", 0, spots=1)), test, 0)


def test_inner_folds_leave_out_sections_or_fifths() -> None:
    three = np.repeat([0, 1, 2], [5, 3, 4])
    assert [set(three[held]) for _, held in folds.inner_folds(three)] == [{0}, {1}, {2}]
    many = np.repeat(np.arange(12), 3)
    parts = folds.inner_folds(many)
    assert len(parts) == folds.FOLDS
    assert all(not set(many[rows]) & set(many[held]) for rows, held in parts)
    single = folds.inner_folds(np.zeros(23))
    assert sorted(len(held) for _, held in single) == sorted(len(held) for _, held in KFold(5).split(np.zeros(23)))
    assert [len(held) for _, held in folds.inner_folds(np.zeros(2))] == [1, 1]
