"""The main job: a slide in, an AnnData of counts out; :mod:`genar.jobs.predict_file` writes it."""

import logging
from pathlib import Path

from anndata import AnnData

from genar import keys, pp, tl
from genar.device import device_of
from genar.encoders.registry import is_computable
from genar.errors import ModelError
from genar.estimate import Estimator
from genar.jobs.existing import provenance
from genar.jobs.given import check_pitch, check_where
from genar.jobs.options import Options
from genar.model.decoding import Decoding
from genar.read.features import features as read_features
from genar.read.placement import placement
from genar.read.places import PLACES, spots_at, spots_of
from genar.slide.lattice import LATTICES, Lattice, lattice
from genar.slide.open import Slide, open_slide
from genar.slide.section import metadata
from genar.store import Model, load

logger: logging.Logger = logging.getLogger("genar")


def predict(
    slide: str | Path,
    model: str | Path | Model = "her2st-mini",
    *,
    spots: str | Path | None = None,
    pitch: float | None = None,
    tissue: str | Path = "auto",
    mpp: float | None = None,
    features: str | Path | None = None,
    encoder_weights: str | Path | None = None,
    cache: str | Path | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int | None = None,
    seed: int = 0,
    estimator: Estimator = "log_mean",
    decoding: Decoding | None = None,
    depth: float | None = None,
    progress: bool = False,
) -> AnnData:
    """Predict the counts of a model's genes on a slide.

    Parameters
    ----------
    slide
        The slide's file: anything OpenSlide reads, TIFF, JPEG or PNG.
    model
        A bundled model's name, a model directory, ``owner/name[@revision]`` of the Hugging Face hub, or a loaded model.
    spots
        Where to predict: ``"visium"``, ``"st"`` or ``"grid"``; or a file: a measured section that
        :func:`genar.read.section` reads, at whose spots it is predicted under their barcodes, or a CSV or GeoJSON of
        places (:func:`genar.read.points`). By default the geometry that the model learnt from.
    pitch
        Distance of neighbouring spots in µm, for ``"grid"``.
    tissue
        Where there is tissue, for a lattice: ``"auto"``, ``"none"`` (everywhere), or a file; see
        :func:`genar.pp.spots`.
    mpp
        Resolution of level 0 in µm per pixel; by default the one that the file carries.
    features
        Features that another program computed, at whose tiles it is then predicted: a file that
        :func:`genar.read.features` reads, or a folder of such files, each named as its slide.
    encoder_weights
        A file of the encoder's weights, in place of its own; see :func:`genar.pp.embed`.
    cache
        A folder to keep features in, and to take them from; by default nothing is kept.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda[:i]"``.
    batch_size
        Tiles or spots taken at once.
    workers
        Processes that read tiles beside this one; by default none for a CPU, as many as there are cores for a GPU.
    seed
        Seed of ``estimator="sample"``, below 2**63.
    estimator
        How a count is taken from its distribution; see :data:`genar.estimate.Estimator`.
    decoding
        How the scales are decoded, and how often; see :class:`genar.model.decoding.Decoding`.
    depth
        Median library size of the section to predict, for a model that is conditioned on it; by default that of its
        training sections.
    progress
        Show progress bars.

    Returns
    -------
    Spots by genes: integer counts in ``X`` (CSR, int32), ``layers["expected"]`` and ``layers["std"]``, spot centres
    in level-0 pixels in ``obsm["spatial"]``, the image in ``uns["spatial"]``, provenance in ``uns["genar"]``.

    Raises
    ------
    SlideError
        If the slide cannot be read, has no plausible resolution, or shows no tissue.
    ModelError
        If the model, or the encoder's weights, cannot be loaded.
    DataError
        If the features cannot be read, or do not fit the slide or the model.
    ConfigError
        If an option has a value that it cannot have.
    """
    options = Options(
        spots=None if spots is None else str(spots), pitch=pitch, tissue=str(tissue), mpp=mpp,
        features=_path(features), encoder_weights=_path(encoder_weights), cache=_path(cache), device=device,
        batch_size=batch_size, workers=workers, seed=seed, estimator=estimator, decoding=decoding or Decoding(),
        depth=depth,
    )  # fmt: skip
    tl.check_decoding(estimator, seed, options.decoding)
    device_of(device)
    loaded = model if isinstance(model, Model) else load(model)
    check(options, loaded)
    result = predict_checked(Path(slide), loaded, options, progress=progress)
    for warning in result.uns[keys.GENAR]["warnings"]:
        logger.warning("%s: %s", Path(slide).name, warning)
    return result


def check(options: Options, model: Model) -> None:
    """Raise now, rather than after long work, if the options do not fit each other or the model.

    Raises
    ------
    ConfigError, ModelError
        As :func:`predict`.
    """
    tl.check_decoding(options.estimator, options.seed, options.decoding)
    tl.settled(model, options.decoding, options.depth)
    if options.features is None and not is_computable(model.info.encoder):
        why = f"genar cannot compute the {model.info.encoder} features that it takes"
        remedy = f"put them into obsm[{keys.features(model.info.encoder)!r}] and call genar.tl.predict"
        raise ModelError(model.info.name, why, remedy)
    at = options.spots
    check_where(at, options.pitch, options.tissue, options.features, options.encoder_weights)
    geometry_of(model, at if at in LATTICES else None, options.pitch)


def predict_checked(
    slide: Path, model: Model, options: Options, *, request: str = "", progress: bool = False
) -> AnnData:
    """Predict a slide with options that were checked."""
    at = None if options.spots is None or options.spots in LATTICES else Path(options.spots)
    measured = None if at is None or at.suffix.lower() in PLACES else spots_of(at, slide, options.mpp)
    with open_slide(slide, options.mpp if measured is None else metadata(measured)[keys.MPP]) as opened:
        if measured is not None:
            adata, where = measured, placement(measured)
            if where.error or where.warning:
                logger.warning("%s on %s: %s", at, slide.name, where.error or where.warning)
        else:
            adata = _spots(opened, at, model, options)
        if options.features is None:
            pp.embed(
                adata, opened, encoder=model.info.encoder, weights=options.encoder_weights, tile_um=model.info.tile_um,
                cache=options.cache, device=options.device, batch_size=options.batch_size, workers=options.workers,
                progress=progress,
            )  # fmt: skip
        said = provenance(opened, request, options.cache)
    result = tl.predict(
        adata, model, estimator=options.estimator, seed=options.seed, decoding=options.decoding, depth=options.depth,
        device=options.device, batch_size=options.batch_size, progress=progress,
    )  # fmt: skip
    result.uns[keys.GENAR] |= said
    return result


def _spots(slide: Slide, at: Path | None, model: Model, options: Options) -> AnnData:
    """Lay spots, or take those that others have computed features of."""
    if options.features is not None:
        return read_features(options.features, slide, encoder=model.info.encoder, wanted_um=model.info.tile_um)
    geometry = geometry_of(model, None if at else options.spots, options.pitch)
    if at is not None:
        return spots_at(at, slide, geometry)
    return pp.spots(slide, geometry, tile_um=model.info.tile_um, tissue=options.tissue)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def geometry_of(model: Model, spots: str | None, pitch: float | None) -> Lattice:
    """Return the lattice that was asked for, or the one that the model learnt from."""
    if spots is not None:
        return lattice(spots, pitch)
    check_pitch(spots, pitch)
    return lattice(model.info.lattice, model.info.pitch_um if model.info.lattice == "grid" else None)
