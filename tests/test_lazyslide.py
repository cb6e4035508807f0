"""The model as LazySlide uses it, whose protocol a stand-in states here."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import genar
from genar import keys
from genar.errors import ConfigError, DataError
from genar.slide.lattice import Lattice
from genar.slide.section import bare, describe
from genar.store import load


@runtime_checkable
class FeaturePredictionModelProtocol(Protocol):
    """As of lazyslide_models 0.1."""

    model: Any
    name: str

    def get_transform(self) -> Any: ...
    def to(self, device: Any) -> Any: ...
    def try_compile(self, **options: Any) -> Any: ...
    def predict(self, features: Any, coords: Any = None) -> dict[str, Any]: ...


def test_it_predicts_what_genar_does() -> None:
    model = load("her2st-mini")
    random = np.random.default_rng(0)
    side = model.info.tile_um / 0.5
    corners = np.stack(np.meshgrid(np.arange(4), np.arange(3)), axis=-1).reshape(-1, 2) * side
    features = random.random((12, model.info.feature_dim)).astype(np.float32)
    predictor = genar.lazyslide.FeaturePredictor(model, mpp=0.5)
    assert isinstance(predictor, FeaturePredictionModelProtocol)
    assert (predictor.needs_coords, predictor.whole_slide, predictor.name) == (True, True, "her2st-mini")
    assert predictor.to("cpu") is predictor
    predictor.try_compile(mode="default")
    found = predictor.predict(features, corners)

    spots = bare(corners + side / 2, pd.DataFrame(index=[str(i) for i in range(12)]))
    picture = np.zeros((2, 2, 3), np.uint8)
    lattice = Lattice("grid", model.info.tile_um, model.info.tile_um, hexagonal=False)
    describe(spots, lattice, "s", images=(picture, picture), size=(2000, 2000), mpp=0.5, mpp_source="", slide_name="s")
    spots.obsm[keys.features(model.info.encoder)] = features
    own = genar.tl.predict(spots, model)
    assert list(found) == list(own.var_names)
    np.testing.assert_array_equal(np.column_stack(list(found.values())), own.X.toarray())
    expected = genar.lazyslide.FeaturePredictor(model, mpp=0.5, layer="expected").predict(csr_matrix(features), corners)
    np.testing.assert_array_equal(np.column_stack(list(expected.values())), own.layers[keys.EXPECTED])

    with pytest.raises(DataError, match=r"their shape is \(12, 7\), model her2st-mini takes the 1280 of"):
        predictor.predict(features[:, :7], corners)
    with pytest.raises(DataError, match="the coordinates"):
        predictor.predict(features)
    with pytest.raises(ConfigError, match="mpp: 20 is not within"):
        genar.lazyslide.FeaturePredictor(model, mpp=20)
    with pytest.raises(ConfigError, match="mpp: the slide does not say"):
        genar.lazyslide.FeaturePredictor(model, mpp=None)
    with pytest.raises(ConfigError, match="layer: 'mean' is not predicted"):
        genar.lazyslide.FeaturePredictor(model, mpp=0.5, layer="mean")
