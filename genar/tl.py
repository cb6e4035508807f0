"""Tools, in scanpy's sense: what is computed from the spots."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from anndata import AnnData

from genar import __version__, keys
from genar.data.spots import scaled_position
from genar.errors import DataError
from genar.model.decoder import Spots
from genar.model.estimate import Estimator, counts, moments
from genar.model.store import Model, load
from genar.progress import bar
from genar.write.anndata import result

__all__ = ["predict"]


def predict(
    adata: AnnData,
    model: str | Model,
    *,
    estimator: Estimator = "log_mean",
    seed: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    keep_features: bool = False,
    progress: bool = False,
) -> AnnData:
    """Decode the counts of a model's genes from the features of spots.

    Parameters
    ----------
    adata
        Spots with ``obsm["X_<encoder>"]``, from :func:`genar.pp.embed`.
    model
        A loaded model, a bundled model's name, or a model directory.
    estimator
        How a count is taken from its distribution; see :data:`genar.model.estimate.Estimator`.
    seed
        Seed of ``estimator="sample"``; a spot's draws do not depend on the batch size.
    device
        Where to compute.
    batch_size
        Spots decoded at once.
    keep_features
        Keep the features in the result.
    progress
        Show a progress bar.

    Returns
    -------
    A new AnnData, spots by the model's genes, as :func:`genar.predict` describes.

    Raises
    ------
    DataError
        If the spots lack the features of the model's encoder.
    """
    model = model if isinstance(model, Model) else load(model)
    features = _features(adata, model)
    network = model.network.to(device).eval()
    position = torch.from_numpy(scaled_position(adata))
    draws = torch.from_numpy(np.random.default_rng(seed).random((adata.n_obs, len(model.panel)), dtype=np.float32))
    parts: list[tuple[np.ndarray, ...]] = []
    starts = range(0, adata.n_obs, batch_size)
    for start in bar(starts, "Decoding counts", shown=progress):
        rows = slice(start, start + batch_size)
        probabilities = network.generate(Spots(features[rows].to(device), position[rows].to(device)))
        mean, sd = moments(probabilities)
        taken = counts(probabilities, estimator, draws[rows].to(device))
        parts.append(tuple(t.cpu().numpy() for t in (taken, mean, sd)))
    counts_, expected, std = (np.concatenate(p) for p in zip(*parts, strict=True))
    provenance = _provenance(adata, model) | {"decoding": {"estimator": estimator, "seed": seed}}
    return result(
        adata,
        panel=model.panel,
        counts=counts_,
        expected=expected,
        std=std,
        provenance=provenance,
        keep_features=keep_features,
    )


def _features(adata: AnnData, model: Model) -> torch.Tensor:
    """Return the features that the model takes, or say what is missing."""
    key = keys.features(model.info.encoder)
    if key not in adata.obsm:
        why = f"obsm holds no {key!r}, which model {model.info.name} takes"
        raise DataError("the spots", why, f"run genar.pp.embed(adata, encoder={model.info.encoder!r}) first")
    features = np.asarray(adata.obsm[key], dtype=np.float32)
    if features.shape[1] != model.info.feature_dim:
        why = f"obsm[{key!r}] has {features.shape[1]} columns, model {model.info.name} takes {model.info.feature_dim}"
        raise DataError("the spots", why, "embed them again")
    return torch.from_numpy(features)


def _provenance(adata: AnnData, model: Model) -> dict[str, object]:
    """Collect what the result must say of how it was made."""
    library = str(adata.obs[keys.LIBRARY_ID].iloc[0])
    metadata = adata.uns[keys.SPATIAL][library][keys.METADATA]
    geometry = {k: metadata[k] for k in (keys.LATTICE, keys.SPOT_UM, keys.PITCH_UM, keys.TILE_UM) if k in metadata}
    return {
        "version": __version__,
        "model": model.info.name,
        "model_sha256": model.sha256,
        "encoder": model.info.encoder,
        "geometry": geometry,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "warnings": _warnings(model, metadata),
    }


def _warnings(model: Model, metadata: dict[str, Any]) -> list[str]:
    """List what a reader of the result should know."""
    info = model.info
    if keys.SPOT_UM not in metadata or metadata[keys.SPOT_UM] == info.spot_um:
        return []
    return [
        f"spots are {metadata[keys.SPOT_UM]:g} µm wide here, but {info.name} was trained on {info.lattice} spots of "
        f"{info.spot_um:g} µm; its counts are those of such a spot"
    ]
