import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genar.baselines.known import Known, features_of
from genar.baselines.neighbours import KS, nearest_spots
from tests.baselines.conftest import section, table


@pytest.mark.parametrize("spots", [60, 12, 3])
def test_it_is_scikit_learns_regressor_and_grid_search(spots: int) -> None:
    """All components there are keep every distance."""
    train = table(*(section(n, i, spots) for i, n in enumerate("ABC")))
    test = table(section("D", 7), genes=None)
    known = Known.of(train, 0)
    ks = [k for k in KS if k <= 2 * spots]
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KNeighborsRegressor()), {"kneighborsregressor__n_neighbors": ks},
        cv=LeaveOneGroupOut(), scoring="neg_mean_squared_error",
    ).fit(known.features, known.logs, groups=known.section)  # fmt: skip
    (found,) = nearest_spots(train, [test], 0)
    close = np.isclose(found.log, search.predict(features_of(test)), atol=1e-6).all(axis=1)
    assert close.mean() > 0.9 if spots == 60 else close.any()  # fewer spots than features: components lose some
