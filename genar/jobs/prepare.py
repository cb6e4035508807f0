"""What training needs of its sections, without holding them in memory: each is read alone, twice.

The first reading checks a section and scores its genes; the second, when all are known to be good, extracts the
features of its spots into the cache and takes the counts of the genes that any of the runs predicts.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.data.splits import Split
from genar.encoders.cache import Features, default_cache, features
from genar.errors import DataError
from genar.genes import panel
from genar.jobs.config import TrainConfig
from genar.progress import bar
from genar.read.genes import harmonise, mapping, pairs, renamed
from genar.read.report import SectionReport
from genar.read.show import lines
from genar.read.source import Source, find, select
from genar.read.validate import check_source, match_genes
from genar.slide.section import metadata

logger: logging.Logger = logging.getLogger("genar")

FEATURES = "features"  # in uns: name of the cached features, which is a hash of what they are of
ALIKE = 0.1  # difference of spot diameters, as a share, that measuring them may make


@dataclass(frozen=True)
class Surveyed:
    """What the first reading found of a section.

    Parameters
    ----------
    source
        Where it lies.
    patient
        Its patient.
    patient_known
        Whether the data say so, or it counts as a patient of its own.
    kind
        Name of its lattice and diameter of its spots in µm.
    spots
        Number of its spots that have counts.
    fingerprint
        Hash of its counts and their places.
    scores
        Score of each of its genes, by the name that it has there; all 0 where the panel is read from a file.
    """

    source: Source
    patient: str
    patient_known: bool
    kind: tuple[str, float]
    spots: int
    fingerprint: str
    scores: pd.Series = field(repr=False)


def sources(config: TrainConfig) -> list[Source]:
    """Find the sections that a run trains on.

    Raises
    ------
    DataError
        If there are none.
    ConfigError
        If one that is named is not among them.
    """
    wanted = select(find(config.data.root), config.data.sections, "data.sections")
    return [replace(source, mpp=source.mpp or config.data.mpp) for source in wanted]


def survey(config: TrainConfig) -> tuple[list[Surveyed], dict[str, str]]:
    """Read every section once: check it, and score its genes.

    Returns
    -------
    What was found of each section, and the symbol of each Ensembl id that some section has both of.

    Raises
    ------
    DataError
        If a section cannot be used; all are checked first, and every fault is logged.
    """
    if config.panel.file is None:
        panel.check_installed(config.panel.method)
    reports: list[SectionReport] = []
    surveyed: list[Surveyed] = []
    both: Counter[tuple[str, str]] = Counter()
    for source in bar(sources(config), "Reading sections", shown=True):
        report, section = check_source(source)
        reports.append(report)
        if section is not None and not any(r.errors for r in reports):
            both.update(pairs(section))
            surveyed.append(_survey(config, source, report, section))
        del section  # before the next is read
    symbols = mapping(both)
    _say(match_genes(reports, symbols), config)
    check_one_kind(surveyed)
    return surveyed, symbols


def check_one_kind(surveyed: Sequence[Surveyed]) -> None:
    """Raise unless all sections have spots of one kind, which a model's counts are of.

    Raises
    ------
    DataError
        If their lattices, or the sizes of their spots, differ by more than a tenth.
    """
    name, size = surveyed[0].kind
    for one in surveyed:
        if one.kind[0] != name or abs(one.kind[1] / size - 1) > ALIKE:
            kinds = [f"{s.kind[0]} spots of {s.kind[1]:.3g} µm ({s.source.name})" for s in (surveyed[0], one)]
            why = f"their spots differ: {', '.join(kinds)}"
            raise DataError("the sections", why, "train on sections of one kind, named in data.sections")


def _say(reports: Sequence[SectionReport], config: TrainConfig) -> None:
    """Log what was found of the sections, and raise if one cannot be used."""
    logger.info("the sections:\n%s", lines(reports))
    for report in reports:
        for warning in report.warnings:
            logger.warning("section %s: %s", report.name, warning)
    faults = [(r.name, error) for r in reports for error in r.errors]
    for name, error in faults[1:]:
        logger.error("section %s: %s", name, error)
    if faults:
        section = f"section {faults[0][0]}"
        more = f" ({len(faults) - 1} more above)" if len(faults) > 1 else ""
        raise DataError(section, faults[0][1] + more, f"see genar check {config.data.root}")


def _survey(config: TrainConfig, source: Source, report: SectionReport, section: AnnData) -> Surveyed:
    """Take what is needed of one section that has been read."""
    section = with_counts(section)
    scores = pd.Series(0.0, section.var_names) if config.panel.file else panel.score(section, config.panel.method)
    return Surveyed(
        source=source,
        patient=report.patient or report.name,
        patient_known=report.patient is not None,
        kind=(str(metadata(section)[keys.LATTICE]), float(metadata(section)[keys.SPOT_UM])),
        spots=section.n_obs,
        fingerprint=fingerprint(section),
        scores=scores.rename(index=intern),  # cohorts repeat the names
    )


def with_counts(section: AnnData) -> AnnData:
    """Return the spots that have any counts, with these as ``obs["total_counts"]``, and its genes named apart."""
    section.var_names_make_unique()
    total = np.asarray(section.X.sum(axis=1)).ravel()
    section.obs[keys.TOTAL_COUNTS] = total.astype(np.int64)
    return section if (total > 0).all() else section[total > 0].copy()


def fingerprint(section: AnnData) -> str:
    """Return a hash of a section's genes, counts and centres, which does not depend on its name or where it lies."""
    digest = hashlib.sha256()
    for part in (section.X.data, section.X.indices, section.X.indptr, section.obsm[keys.SPATIAL]):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update("\n".join(section.var_names).encode())
    return digest.hexdigest()[:16]


def choose_panels(
    config: TrainConfig, surveyed: Sequence[Surveyed], runs: Mapping[str, Split], symbols: Mapping[str, str]
) -> dict[str, pd.Index]:
    """Choose the panel of each run on its training sections alone.

    Parameters
    ----------
    config
        How.
    surveyed
        All sections.
    runs
        The split of each run.
    symbols
        The symbol of each Ensembl id.
    """
    settings, panels = config.panel, {}
    listed = None if settings.file is None else panel.from_file(settings.file)
    scores = {s.source.name: (s.scores.set_axis(renamed(s.scores.index, symbols)), s.spots) for s in surveyed}
    for run, split in runs.items():
        known = [scores[name] for name in split.train]
        if listed is None or settings.file is None:
            panels[run] = panel.choose(known, settings.n_genes, settings.method, settings.min_sections)
        else:
            measured = [found.index for found, _ in known]
            panel.check_measured(listed, measured, settings.min_sections, path=settings.file)
            panels[run] = listed
    return panels


def gather(
    config: TrainConfig, surveyed: Sequence[Surveyed], genes: pd.Index, known: Mapping[str, str]
) -> dict[str, AnnData]:
    """Read every section again and keep, by its name, the counts of ``genes`` that it has, and its features.

    Features are extracted if need be and stay on disk, memory-mapped; images are dropped.

    Raises
    ------
    DataError, SlideError
        If a section has changed, or its tiles cannot be read.
    """
    tiles, kept = config.tiles, {}
    for number, one in enumerate(surveyed, 1):
        logger.info("section %s (%d of %d): %s spots", one.source.name, number, len(surveyed), f"{one.spots:,}")
        section = with_counts(one.source.read())
        if fingerprint(section) != one.fingerprint:
            raise DataError(one.source.path, "it changed while it was read", "start again")
        harmonise(section, known)
        found = features(
            section, encoder=tiles.encoder, weights=tiles.weights, tile_um=tiles.tile_um, views=tiles.views,
            seed=config.seed, cache=config.data.cache or default_cache(), device=config.trainer.device,
            batch_size=tiles.batch_size, workers=tiles.workers, progress=True,
        )  # fmt: skip
        kept[one.source.name] = slim(section, genes, tiles.encoder, found)
    return kept


def slim(section: AnnData, genes: pd.Index, encoder: str, found: Features) -> AnnData:
    """Return a section of some genes, those that it has, with its features and without its image."""
    slim = reduced(section, genes)
    add_features(slim, encoder, found)
    return slim


def reduced(section: AnnData, genes: pd.Index) -> AnnData:
    """Return a section of some genes, those that it has, without its image and whatever else it carries."""
    here = section[:, section.var_names.isin(genes)]
    kept = AnnData(here.X.copy(), obs=section.obs, var=here.var)
    kept.obsm[keys.SPATIAL] = section.obsm[keys.SPATIAL]
    library = str(section.obs[keys.LIBRARY_ID].iloc[0])
    kept.uns[keys.SPATIAL] = {library: {keys.METADATA: metadata(section)}}
    return kept


def add_features(section: AnnData, encoder: str, found: Features) -> None:
    """Give a section its features, and tell of their encoder."""
    section.obsm[keys.features(encoder)] = found.plain
    section.uns[FEATURES] = found.path.stem
    if found.views is not None:
        section.obsm[keys.views(encoder)] = found.views.transpose(1, 0, 2)
    metadata(section)[keys.fingerprint(encoder)] = found.fingerprint
