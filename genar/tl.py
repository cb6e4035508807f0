"""Tools, in scanpy's sense: what is computed from the spots."""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from anndata import AnnData

from genar import __version__, keys
from genar.data.spots import SpotTable
from genar.device import device_of
from genar.encoders.fingerprint import check
from genar.encoders.registry import is_computable
from genar.errors import ConfigError, DataError
from genar.estimate import ESTIMATORS, Estimator, counts, moments, quantiles
from genar.model.decoder import Choice
from genar.model.decoding import Decoding
from genar.ood import ood_warning
from genar.progress import bar
from genar.reliability import reliability_warning
from genar.slide.focus import focus_warning
from genar.slide.section import metadata
from genar.store import Model, load
from genar.units import TILE_TOLERANCE
from genar.write.anndata import result

__all__ = ["predict"]

OTHER_PITCH = 0.1  # difference, as a share, that tells the spots' distance from that in training


def predict(
    adata: AnnData,
    model: str | Model,
    *,
    estimator: Estimator = "log_mean",
    seed: int = 0,
    decoding: Decoding | None = None,
    depth: float | None = None,
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
        A loaded model, a bundled model's name, a model directory, or ``owner/name[@revision]`` of the Hugging Face hub.
    estimator
        How a count is taken from its distribution; see :data:`genar.estimate.Estimator`.
    seed
        Seed of ``estimator="sample"``, below 2**63; a spot's draws do not depend on the batch size.
    decoding
        How the scales are decoded, and how often; see :class:`genar.model.decoding.Decoding`.
    depth
        Median library size of the section that is predicted, for a model that is conditioned on it; by default that
        of its training sections.
    device
        Where to compute: ``"auto"``, ``"cpu"``, ``"cuda[:i]"`` or a device of torch.
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
        If the spots lack the features of the model's encoder, or these are of tiles of another size.
    ModelError
        If the features are known to be of other weights than those that the model was trained with.
    ConfigError
        If the estimator, the seed, the depth or the device is not valid.
    """
    decoding = decoding or Decoding()
    check_decoding(estimator, seed, decoding)
    device = device_of(device)
    model = model if isinstance(model, Model) else load(model)
    decoding, depth = settled(model, decoding, depth)
    _check_features(adata, model)
    table = SpotTable.of([adata], None, model.info.encoder, model.info.network, depth or 1.0)
    network = model.network.to(device).eval()
    names = [keys.EXPECTED, keys.STD, *(keys.QUANTILES.values() if decoding.n_samples > 1 else ())]
    parts: list[tuple[np.ndarray, ...]] = []
    step = max(1, batch_size // decoding.n_samples)
    for start in bar(range(0, adata.n_obs, step), "Decoding counts", shown=progress):
        rows = slice(start, min(start + step, adata.n_obs))
        paths, last = _draws(seed, rows, decoding.n_samples, model.info.scales, device)
        choice = Choice(decoding.rule or model.info.network.handed_on, paths, decoding)

        def read(p: torch.Tensor, genes: slice, last: torch.Tensor = last) -> list[torch.Tensor]:
            spread = quantiles(p, list(keys.QUANTILES)) if decoding.n_samples > 1 else []
            return [counts(p, estimator, last[:, genes], decoding), *moments(p), *spread]

        chunks = network.generate(table.spots(rows, device), read, choice)
        parts.append(tuple(torch.cat(part, dim=1).cpu().numpy() for part in zip(*chunks, strict=True)))
    taken, *layers = (np.concatenate(part) for part in zip(*parts, strict=True))
    unlike = None if model.reference is None else model.reference.percentile(table.features[0])
    drawn = "sample" in (estimator, decoding.rule)
    used = {"estimator": estimator, "seed": seed} | decoding.model_dump(include=None if drawn else {"rule"})
    return result(
        adata,
        panel=model.panel,
        counts=taken,
        layers=dict(zip(names, layers, strict=True)),
        provenance=_provenance(adata, model, unlike) | {"decoding": used} | ({} if depth is None else {"depth": depth}),
        ood=unlike,
        keep_features=keep_features,
    )


def check_decoding(estimator: str, seed: int, decoding: Decoding) -> None:
    """Raise now, rather than after long work, if counts could not be decoded so.

    Raises
    ------
    ConfigError
        If there is no such estimator, the seed is not a whole number from 0 to 2**63 - 1, which files can hold, or
        it is said how to draw where nothing is drawn.
    """
    if estimator not in ESTIMATORS:
        raise ConfigError("--estimator", f"{estimator!r} is not known", f"give one of: {', '.join(ESTIMATORS)}")
    if not 0 <= seed < 2**63:
        raise ConfigError("--seed", f"{seed} is out of range", "give a whole number from 0 to 2**63 - 1")
    if decoding.narrows and "sample" not in (estimator, decoding.rule):
        why = "--temperature, --top-k and --top-p say how, but nothing is drawn"
        raise ConfigError("--decoding", why, "add --decoding sample or --estimator sample")


def settled(model: Model, decoding: Decoding, depth: float | None) -> tuple[Decoding, float | None]:
    """Return how, and at which median library size if it is told one, a model decodes.

    Raises
    ------
    ConfigError
        If the model cannot decode so.
    """
    network = model.info.network
    if depth is None and network.library_size:
        depth = model.info.library_size
    elif depth is not None and not network.library_size:
        why = f"model {model.info.name} is not conditioned on the sequencing depth"
        raise ConfigError("--depth", why, "leave it out, or train with model.library_size: true")
    if depth is not None and not (math.isfinite(depth) and depth >= 1):
        raise ConfigError("--depth", f"{depth:g} is out of range", "give a median library size, 1 or more counts")
    if decoding.rule == "sample" and network.distribution in ("mse", "gaussian_nll"):
        why = f"model {model.info.name} predicts values, not a distribution of them between scales"
        raise ConfigError("--decoding", why, "leave --decoding and --samples out")
    return decoding.model_copy(update={"rule": decoding.rule or network.handed_on}), depth


def _check_features(adata: AnnData, model: Model) -> None:
    """Raise unless the spots have the features that the model takes."""
    key = keys.features(model.info.encoder)
    try:
        known = metadata(adata)
    except (KeyError, IndexError) as e:
        why = f"they do not say which slide they are on ({e})"
        raise DataError("the spots", why, "lay them with genar.pp.spots, or read them with genar.read") from e
    if key not in adata.obsm:
        why = f"obsm holds no {key!r}, which model {model.info.name} takes"
        command = f"run genar.pp.embed(adata, encoder={model.info.encoder!r}) first"
        elsewhere = f"put your {model.info.encoder} features of {model.info.tile_um:g} µm tiles there"
        raise DataError("the spots", why, command if is_computable(model.info.encoder) else elsewhere)
    features = adata.obsm[key]
    if features.shape[1] != model.info.feature_dim:
        why = f"obsm[{key!r}] has {features.shape[1]} columns, model {model.info.name} takes {model.info.feature_dim}"
        raise DataError("the spots", why, "embed them again")
    if not np.isfinite(features).all():
        raise DataError("the spots", f"obsm[{key!r}] holds values that are not finite", "embed them again")
    fingerprint = known.get(keys.fingerprint(model.info.encoder))
    if fingerprint is not None and model.info.encoder_fingerprint is not None:
        check(fingerprint, model.info.encoder_fingerprint, model.info.encoder)
    if adata.obs[keys.LIBRARY_ID].nunique() > 1:
        raise DataError("the spots", "they are of several sections", "predict each alone, then anndata.concat")
    tile_um = float(known.get(keys.TILE_UM, model.info.tile_um))
    if not math.isclose(tile_um, model.info.tile_um, rel_tol=TILE_TOLERANCE if keys.FEATURES_SOURCE in known else 1e-6):
        why = f"their tiles are {tile_um:g} µm wide, model {model.info.name} takes {model.info.tile_um:g} µm"
        raise DataError("the spots", why, f"embed them again with tile_um={model.info.tile_um:g}")


def _draws(
    seed: int, rows: slice, n: int, scales: tuple[int, ...], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from [0, 1), a spot's numbers from the seed and its row alone.

    Returns
    -------
    n paths through the coarse scales, float32 [B, n, s_1 + ... + s_{K-1}], and a draw a gene, float32 [B, G].
    """
    paths, last = [], []
    for spot in range(rows.start, rows.stop):
        stream = np.random.Generator(np.random.Philox(key=np.array([seed, spot], dtype=np.uint64)))
        last.append(stream.random(scales[-1], dtype=np.float32))
        paths.append(stream.random((n, sum(scales[:-1])), dtype=np.float32))
    return torch.from_numpy(np.stack(paths)).to(device), torch.from_numpy(np.stack(last)).to(device)


def _provenance(adata: AnnData, model: Model, unlike: np.ndarray | None) -> dict[str, object]:
    """Collect what the result must say of how it was made."""
    known = metadata(adata)
    geometry = {k: known[k] for k in (keys.LATTICE, keys.SPOT_UM, keys.PITCH_UM, keys.TILE_UM) if k in known}
    return {
        "version": __version__,
        "model": model.info.name,
        "model_source": model.source or None,
        "model_sha256": model.sha256,
        keys.MODEL_CARD: model.card or None,
        "encoder": model.info.encoder,
        "geometry": geometry,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "warnings": _warnings(adata, model, unlike),
    }


def _warnings(adata: AnnData, model: Model, unlike: np.ndarray | None) -> list[str]:
    """List what a reader of the result should know."""
    sharp = adata.obs[keys.IN_FOCUS].to_numpy(bool) if keys.IN_FOCUS in adata.obs else None
    said = [
        *_geometry_warnings(model, metadata(adata)),
        None if sharp is None else focus_warning(sharp),
        None if unlike is None else ood_warning(unlike, model.info.name),
        reliability_warning(model.panel),
    ]
    return [warning for warning in said if warning is not None]


def _geometry_warnings(model: Model, known: dict[str, Any]) -> list[str]:
    """List what is to be said of spots of another width or distance than the model learnt from."""
    info, said = model.info, []
    if known.get(keys.SPOT_UM, info.spot_um) != info.spot_um and keys.FEATURES_SOURCE not in known:
        said.append(  # of others' features the spots are tiles, as wide as the model takes them
            f"spots are {known[keys.SPOT_UM]:g} µm wide here, but {info.name} was trained on {info.lattice} spots of "
            f"{info.spot_um:g} µm; its counts are those of such a spot"
        )
    pitch = known.get(keys.PITCH_UM, info.pitch_um)
    if info.network.neighbours and not math.isclose(pitch, info.pitch_um, rel_tol=OTHER_PITCH):
        said.append(
            f"spots are {pitch:.3g} µm apart here, but {info.name} looks at the {info.network.neighbours} nearest, "
            f"{info.pitch_um:g} µm apart in its training"
        )
    return said
