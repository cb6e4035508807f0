"""The main job: a slide in, an AnnData of counts out."""

import logging
from pathlib import Path

from anndata import AnnData

from genar import keys, pp, tl
from genar.device import device_of
from genar.encoders.registry import ENCODERS
from genar.errors import ConfigError, ModelError, OutputError
from genar.estimate import Estimator
from genar.model.decoding import Decoding
from genar.pl import save_overview
from genar.read.placement import placement
from genar.read.places import PLACES, spots_at, spots_of
from genar.slide.lattice import LATTICES, Lattice, lattice
from genar.slide.open import open_slide
from genar.slide.section import metadata
from genar.store import Model, load
from genar.write.anndata import write_h5ad
from genar.write.atomic import ELSEWHERE, atomic, check_writable

logger = logging.getLogger("genar")


def predict(
    slide: str | Path,
    model: str | Path | Model = "her2st-mini",
    *,
    spots: str | Path | None = None,
    pitch: float | None = None,
    mpp: float | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 0,
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
        A bundled model's name, a model directory, or a loaded model.
    spots
        Where to predict: ``"visium"``, ``"st"`` or ``"grid"``; or a file: a measured section that
        :func:`genar.read.section` reads, at whose spots it is predicted under their barcodes, or a CSV or GeoJSON of
        places (:func:`genar.read.points`). By default the geometry that the model learnt from.
    pitch
        Distance of neighbouring spots in µm, for ``"grid"``.
    mpp
        Resolution of level 0 in µm per pixel; by default the one that the file carries.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda[:i]"``.
    batch_size
        Tiles or spots taken at once.
    workers
        Processes that read tiles beside this one.
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
        If the model cannot be loaded.
    ConfigError
        If an option has a value that it cannot have.
    """
    decoding = decoding or Decoding()
    tl.check_decoding(estimator, seed, decoding)
    target = device_of(device)
    model = model if isinstance(model, Model) else load(model)
    tl.settled(model, decoding, depth)
    if model.info.encoder not in ENCODERS:
        why = f"genar cannot compute the {model.info.encoder} features that it takes"
        remedy = f"put them into obsm[{keys.features(model.info.encoder)!r}] and call genar.tl.predict"
        raise ModelError(model.info.name, why, remedy)
    at = None if spots is None or spots in LATTICES else Path(spots)
    geometry = _geometry(model, None if at else str(spots or "") or None, pitch)
    if at is not None and not at.exists():
        remedy = f"give {', '.join(LATTICES)}, a measured section, or a CSV or GeoJSON of places"
        raise ConfigError("--spots", f"{str(at)!r} is no lattice, and there is no such file", remedy)
    measured = None if at is None or at.suffix.lower() in PLACES else spots_of(at, Path(slide), mpp)
    with open_slide(slide, mpp if measured is None else metadata(measured)[keys.MPP]) as opened:
        if measured is not None:
            adata, where = measured, placement(measured)
            if where.error or where.warning:
                logger.warning("%s on %s: %s", at, Path(slide).name, where.error or where.warning)
        elif at is not None:
            adata = spots_at(at, opened, geometry)
        else:
            adata = pp.spots(opened, geometry, tile_um=model.info.tile_um)
        pp.embed(
            adata, opened, encoder=model.info.encoder, tile_um=model.info.tile_um, device=target,
            batch_size=batch_size, workers=workers, progress=progress,
        )  # fmt: skip
        digest = opened.sha256()
    result = tl.predict(
        adata, model, estimator=estimator, seed=seed, decoding=decoding, depth=depth, device=target,
        batch_size=batch_size, progress=progress,
    )  # fmt: skip
    result.uns["genar"]["slide_sha256"] = digest
    return result


def predict_to_file(
    slide: Path,
    output: Path,
    *,
    model: str | Model = "her2st-mini",
    spots: str | Path | None = None,
    pitch: float | None = None,
    mpp: float | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 0,
    seed: int = 0,
    estimator: Estimator = "log_mean",
    decoding: Decoding | None = None,
    depth: float | None = None,
    overwrite: bool = False,
) -> tuple[Path, Path]:
    """Predict a slide and write ``<stem>.h5ad`` and a picture, ``<stem>.png``, to the folder ``output``.

    Both files appear, or neither. See :func:`predict` for the other parameters.

    Returns
    -------
    The paths of the AnnData and of the picture.

    Raises
    ------
    OutputError
        If a file exists and ``overwrite`` is not set, or is the slide itself, or the folder cannot be written to.
    """
    table, picture = output / f"{slide.stem}.h5ad", output / f"{slide.stem}.png"
    for path in (table, picture):
        if _same(path, slide):
            raise OutputError(path, "it is the slide itself", ELSEWHERE)
        check_writable(path, overwrite=overwrite)
    adata = predict(
        slide, model, spots=spots, pitch=pitch, mpp=mpp, device=device, batch_size=batch_size, workers=workers,
        seed=seed, estimator=estimator, decoding=decoding, depth=depth, progress=True,
    )  # fmt: skip
    with atomic(table, picture, overwrite=overwrite) as (table_beside, picture_beside):
        write_h5ad(adata, table_beside)
        save_overview(adata, picture_beside)
    for warning in adata.uns[keys.GENAR]["warnings"]:
        logger.warning("%s: %s", slide.name, warning)
    return table, picture


def _same(path: Path, slide: Path) -> bool:
    """Tell whether both are one file; what cannot be looked up is not."""
    try:
        return path.samefile(slide)
    except OSError:
        return False


def _geometry(model: Model, spots: str | None, pitch: float | None) -> Lattice:
    """Return the lattice that was asked for, or the one that the model learnt from."""
    if spots is not None:
        return lattice(spots, pitch)
    if pitch is not None:
        raise ConfigError("--pitch", "it goes with --spots grid alone", "give --spots grid, or leave --pitch out")
    return lattice(model.info.lattice, model.info.pitch_um if model.info.lattice == "grid" else None)
