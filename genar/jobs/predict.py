"""The main job: a slide in, an AnnData of counts out."""

import logging
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import anndata as ad
import pandas as pd
from anndata import AnnData

from genar import keys, ood, pp, tl
from genar.device import device_of
from genar.encoders.registry import is_computable
from genar.errors import ConfigError, GenarError, ModelError, OutputError
from genar.estimate import Estimator
from genar.jobs.existing import present, provenance
from genar.jobs.options import WORDS, Options
from genar.jobs.scratch import scratch
from genar.jobs.slides import is_name, named
from genar.model.decoding import Decoding
from genar.pl import save_overview
from genar.read.features import features as read_features
from genar.read.placement import placement
from genar.read.places import PLACES, spots_at, spots_of
from genar.slide.files import stamp
from genar.slide.lattice import LATTICES, Lattice, lattice
from genar.slide.open import Slide, open_slide
from genar.slide.section import library_name, metadata
from genar.store import Model, find, load
from genar.write.anndata import write_h5ad
from genar.write.atomic import ELSEWHERE, atomic, check_writable

logger = logging.getLogger("genar")


class Written(NamedTuple):
    """A result on disk.

    Parameters
    ----------
    table, picture
        The AnnData and its picture.
    spots
        Number of spots.
    unlike
        Share of them that look unlike the training tissue; None where the model does not know.
    is_new
        Whether it was made now; else it was there already.
    """

    table: Path
    picture: Path
    spots: int
    unlike: float | None
    is_new: bool


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
        A bundled model's name, a model directory, or a loaded model.
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
    return _predict(Path(slide), loaded, options, progress=progress)


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
    is_lattice = at is None or at in LATTICES
    geometry_of(model, at if is_lattice else None, options.pitch)
    if not is_lattice and not Path(str(at)).exists():
        remedy = f"give {', '.join(LATTICES)}, a measured section, or a CSV or GeoJSON of places"
        raise ConfigError("--spots", f"{at!r} is no lattice, and there is no such file", remedy)
    if options.features is not None and (at or options.pitch):
        raise ConfigError("--features", "their tiles say where the spots are", "leave --spots and --pitch out")
    if options.tissue != "auto" and not (is_lattice and options.features is None):
        raise ConfigError("--tissue", "the places of the spots are given", "leave it out")
    words = {"--tissue": options.tissue if options.tissue not in WORDS else None, "--features": options.features}
    for option, path in (words | {"--encoder-weights": options.encoder_weights}).items():
        if path is not None and not Path(path).exists():
            raise ConfigError(option, f"there is no file or folder {str(path)!r}", "check the path")


def _predict(slide: Path, model: Model, options: Options, *, request: str = "", progress: bool = False) -> AnnData:
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


def predict_to_file(
    slide: Path,
    output: Path,
    options: Options,
    *,
    name: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Written:
    """Predict a slide and write ``<name>.h5ad`` and a picture, ``<name>.png``, to the folder ``output``.

    Both files appear, or neither. A result of the same request that is there is left as it is. While the slide is in
    work, its features lie in a hidden folder of ``output`` (or in ``options.cache``), so that the next call goes on
    where this one was killed.

    Parameters
    ----------
    slide
        The slide's file.
    output
        Folder to write to.
    options
        What to predict, and how.
    name
        Name of the result and of the section in it; by default the slide's.
    overwrite
        Replace files that exist.
    progress
        Show progress bars.

    Raises
    ------
    OutputError
        If a file of another origin exists and ``overwrite`` is not set, or is the slide itself, or the folder cannot
        be written to.
    ConfigError
        If the result cannot have the name.
    GenarError
        As :func:`predict`.
    """
    slide = named(slide)
    name = name or slide.stem
    if not is_name(name):
        raise ConfigError(slide, f"a result cannot be called {name!r}", "give it another name")
    table, picture = output / f"{name}.h5ad", output / f"{name}.png"
    for path in (table, picture):
        if _same(path, slide):
            raise OutputError(path, "it is the slide itself", ELSEWHERE)
        check_writable(path, overwrite=overwrite or table.is_file())
    model = model_of(options.model)
    check(options, model)
    request = options.request(slide, model.sha256)

    def there() -> Written | None:
        found = None if overwrite else present(table, slide, request)
        return None if found is None else Written(table, picture, found.spots, found.unlike, is_new=False)

    if (written := there()) is not None:
        if not picture.exists():
            with atomic(picture, overwrite=False) as (beside,):
                save_overview(ad.read_h5ad(table), beside)
        return written
    replaced = overwrite or table.is_file()  # a damaged one
    try:
        with scratch(output, name) as folder:
            kept = options if options.cache else replace(options, cache=folder)
            adata = _predict(slide, model, kept, request=request, progress=progress)
            if name != slide.stem:
                _rename(adata, name)
            with atomic(table, picture, overwrite=replaced, within=folder) as (table_beside, picture_beside):
                write_h5ad(adata, table_beside)
                save_overview(adata, picture_beside)
    except GenarError:
        if (written := there()) is None:
            raise
        return written  # another process was faster
    for warning in adata.uns[keys.GENAR]["warnings"]:
        logger.warning("%s: %s", slide.name, warning)
    unlike = ood.unlike(adata.obs[keys.OOD].to_numpy()) if keys.OOD in adata.obs else None
    return Written(table, picture, adata.n_obs, unlike, is_new=True)


def model_of(name: str) -> Model:
    """Load a model once a process, as long as its files stay as they are."""
    directory = find(name).resolve()
    return _loaded(directory, tuple(stamp(directory)))


@lru_cache(maxsize=1)
def _loaded(directory: Path, _: tuple[int, ...]) -> Model:
    return load(directory)


def _rename(adata: AnnData, name: str) -> None:
    """Call the section by another name than its slide's."""
    old, new = str(adata.obs[keys.LIBRARY_ID].iloc[0]), library_name(name)
    adata.obs[keys.LIBRARY_ID] = pd.Categorical([new] * adata.n_obs)
    adata.uns[keys.SPATIAL][new] = adata.uns[keys.SPATIAL].pop(old)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _same(path: Path, slide: Path) -> bool:
    """Tell whether both are one file; what cannot be looked up is not."""
    try:
        return path.samefile(slide)
    except OSError:
        return False


def geometry_of(model: Model, spots: str | None, pitch: float | None) -> Lattice:
    """Return the lattice that was asked for, or the one that the model learnt from."""
    if spots is not None:
        return lattice(spots, pitch)
    if pitch is not None:
        raise ConfigError("--pitch", "it goes with --spots grid alone", "give --spots grid, or leave --pitch out")
    return lattice(model.info.lattice, model.info.pitch_um if model.info.lattice == "grid" else None)
