"""genar within LazySlide: a model that ``lazyslide.tl.feature_prediction`` takes; LazySlide is not imported."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from genar import keys, tl
from genar.errors import ConfigError, DataError
from genar.estimate import Estimator
from genar.read.geometry import nearest_px, pitch_px
from genar.slide.open import LARGEST_MPP, SMALLEST_MPP
from genar.slide.section import bare
from genar.store import Model, load

__all__ = ["FeaturePredictor"]

logger = logging.getLogger("genar")
TILES = "tiles"


class FeaturePredictor:
    """A model of genar in the form of LazySlide's ``FeaturePredictionModelProtocol``.

    Its tiles are to be :attr:`tile_um` µm wide, and their features of the model's encoder.

    Parameters
    ----------
    model
        A bundled model's name, a model directory, or a loaded model.
    mpp
        Resolution of the slide's level 0 in µm per pixel, ``wsi.properties.mpp``, which is None where the slide does
        not say.
    layer
        What to predict: by default the counts; or ``"expected"``, ``"std"``.
    estimator
        How a count is taken from its distribution; see :data:`genar.estimate.Estimator`.
    batch_size
        Tiles decoded at once.

    Attributes
    ----------
    model
        The network.
    name
        The model's name.
    features_model_name
        The encoder's name, as LazySlide's tables of features begin.
    needs_coords
        That LazySlide gives the tiles' origins: models may look at a tile's place.
    whole_slide
        That it gives all tiles at once: models may look at a tile's neighbours.

    Raises
    ------
    ModelError
        If the model cannot be loaded.
    ConfigError
        If ``mpp`` or ``layer`` is not valid.

    Examples
    --------
    >>> model = genar.lazyslide.FeaturePredictor("models/mine", mpp=wsi.properties.mpp)
    >>> zs.pp.tile_tissues(wsi, tile_px=224, mpp=model.tile_um / 224)
    >>> zs.tl.feature_extraction(wsi, model.features_model_name)
    >>> zs.tl.feature_prediction(wsi, model)
    """

    needs_coords = True
    whole_slide = True

    def __init__(
        self,
        model: str | Path | Model = "her2st-mini",
        *,
        mpp: float | None,
        layer: str | None = None,
        estimator: Estimator = "log_mean",
        batch_size: int = 32,
    ) -> None:
        if mpp is None:
            raise ConfigError("mpp", "the slide does not say its resolution", "give it, in µm per pixel of level 0")
        if not SMALLEST_MPP <= mpp <= LARGEST_MPP:
            why = f"{mpp:g} is not within {SMALLEST_MPP} to {LARGEST_MPP} µm/px"
            raise ConfigError("mpp", why, "give that of level 0, wsi.properties.mpp")
        if layer not in (None, keys.EXPECTED, keys.STD):
            raise ConfigError("layer", f"{layer!r} is not predicted", f"give {keys.EXPECTED}, {keys.STD} or None")
        self._loaded = model if isinstance(model, Model) else load(model)
        self.model = self._loaded.network
        self.name = self._loaded.info.name
        self.features_model_name = self._loaded.info.encoder
        self._mpp, self._layer, self._estimator, self._batch_size = float(mpp), layer, estimator, batch_size
        self._device = torch.device("cpu")

    @property
    def tile_um(self) -> float:
        """Side of the tiles that the model takes, in µm."""
        return self._loaded.info.tile_um

    def get_transform(self) -> Callable[..., Any] | None:
        """Return None: the model takes features, not images."""
        return None

    def to(self, device: str | torch.device) -> "FeaturePredictor":
        """Compute on this device."""
        self._device = torch.device(device)
        return self

    def try_compile(self, **_: object) -> None:
        """Leave the network as it is: it decodes scale by scale, which ``torch.compile`` does not speed up."""

    def predict(self, features: ArrayLike, coords: ArrayLike | None = None) -> dict[str, NDArray[Any]]:
        """Predict the genes of all tiles of a slide.

        Parameters
        ----------
        features
            Features of the tiles, [N, D].
        coords
            Their top left corners (x, y) in level-0 pixels, [N, 2].

        Returns
        -------
        Each gene's counts, int32 [N], or the values of ``layer``, float32 [N].

        Raises
        ------
        DataError
            If there is no place of every tile, or the features are not of the model's encoder.
        """
        given: Any = features
        found = np.asarray(given.toarray() if issparse(given) else given, dtype=np.float32)
        info = self._loaded.info
        if found.ndim != 2 or found.shape[1] != info.feature_dim:
            why = (
                f"their shape is {found.shape}, model {info.name} takes the {info.feature_dim} of {info.encoder} a tile"
            )
            raise DataError("the features", why, f"extract {info.encoder} features, and name their table")
        corners = np.asarray(np.empty((0, 2)) if coords is None else coords, dtype=np.float64)
        if corners.shape != (len(found), 2):
            why = f"their shape is {corners.shape}, {(len(found), 2)} is needed"
            raise DataError("the coordinates", why, "give the top left corner of every tile in level-0 pixels")
        result = tl.predict(
            self._spots(found, corners), self._loaded, estimator=self._estimator, device=self._device,
            batch_size=self._batch_size,
        )  # fmt: skip
        for warning in result.uns[keys.GENAR]["warnings"]:
            logger.warning("%s", warning)
        values = result.layers[self._layer] if self._layer else result.X.toarray()
        return {str(gene): column for gene, column in zip(result.var_names, values.T, strict=True)}

    def _spots(self, features: NDArray[np.float32], corners: NDArray[np.float64]) -> Any:
        """Lay spots at the tiles' centres."""
        info = self._loaded.info
        side = info.tile_um / self._mpp
        centres = corners + side / 2
        pitch = next((p for p in (pitch_px(centres), nearest_px(centres)) if p and np.isfinite(p)), side)
        spots = bare(centres, pd.DataFrame(index=[str(number) for number in range(len(centres))]))
        spots.obs[keys.LIBRARY_ID] = pd.Categorical([TILES] * len(centres))
        spots.obsm[keys.features(info.encoder)] = features
        known = {
            keys.MPP: self._mpp, keys.TILE_UM: info.tile_um, keys.SPOT_UM: info.spot_um,
            keys.PITCH_UM: pitch * self._mpp,
        }  # fmt: skip
        spots.uns[keys.SPATIAL] = {TILES: {keys.METADATA: known}}
        return spots
