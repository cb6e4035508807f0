"""Whether measured sections can be trained on: one judgement for all formats."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from sys import intern

import numpy as np
import pandas as pd
from anndata import AnnData

from genar import keys
from genar.errors import DataError, GenarError
from genar.progress import bar
from genar.read import genes
from genar.read.counts import as_counts
from genar.read.overlay import save_overlay
from genar.read.placement import placement
from genar.read.report import Cohort, SectionReport, cohort, table
from genar.read.source import Source
from genar.slide.section import metadata

__all__ = ["Cohort", "SectionReport", "check", "check_all", "check_source", "cohort", "match_genes", "table"]

LOW_LIBRARY = 200  # median counts a spot; Visium and legacy ST give thousands
GOOD_MATCH = 0.5  # share of Ensembl ids whose symbol is known, below which it is worth saying
UNKNOWN = "unknown"  # and that it does not know the patient


def check(section: AnnData, name: str | None = None) -> SectionReport:
    """Check one section.

    Parameters
    ----------
    section
        A measured section, as the readers in :mod:`genar.read` give it.
    name
        Its name; by default that in its metadata.

    Returns
    -------
    What is known of it, with every error and warning. Symbols of Ensembl ids are known only when all sections have
    been seen: see :func:`match_genes`.
    """
    if section.n_obs == 0:
        error = "it has no spots; leave it out, or give the whole section"
        return SectionReport(name or "section", genes=section.n_vars, errors=(error,))
    known = metadata(section)
    counts_error, library_size, empty = _counts(section)
    where = placement(section)
    unknown = str(known.get(keys.PATIENT_SOURCE, "")).startswith(UNKNOWN) or keys.PATIENT not in section.obs
    report = SectionReport(
        name=name or str(known.get(keys.SECTION_NAME, section.obs[keys.LIBRARY_ID].iloc[0])),
        patient=None if unknown else str(section.obs[keys.PATIENT].iloc[0]),
        spots=section.n_obs,
        genes=section.n_vars,
        library_size=library_size,
        counts_source=known.get(keys.COUNTS_SOURCE),
        mpp=float(known[keys.MPP]),
        mpp_source=str(known[keys.MPP_SOURCE]),
        pitch_um=where.pitch_um,
        measured_pitch_um=where.measured_pitch_um,
        on_tissue=where.on_tissue,
        better_fit=where.better_fit,
        zero_spots=empty,
        duplicate_genes=int(section.var_names.duplicated().sum()),
        duplicate_barcodes=int(section.obs_names.duplicated().sum()),
        identifiers=genes.identifiers(section),
        gene_names=tuple(sorted({intern(str(name)) for name in section.var_names})),  # cohorts repeat them
    )
    errors = (_too_few_genes(report) or counts_error, _barcodes(section), _image(section), where.error)
    warnings = (where.warning, _symbols(section), *_warnings(report))
    return replace(report, errors=tuple(filter(None, errors)), warnings=tuple(filter(None, warnings)))


def check_source(source: Source) -> tuple[SectionReport, AnnData | None]:
    """Read a section and check it.

    Parameters
    ----------
    source
        Where it lies.

    Returns
    -------
    report
        As :func:`check`; an error of the reader is its only one.
    section
        The section; None if it cannot be read.
    """
    try:
        section = source.read()
    except GenarError as e:
        return SectionReport(source.name, patient=source.patient, errors=(str(e),)), None
    return check(section, source.name), section


def check_all(sources: Sequence[Source], overlay: Path | None = None, *, progress: bool = True) -> list[SectionReport]:
    """Read and check sections, one in memory at a time, then compare them.

    Parameters
    ----------
    sources
        Where they lie.
    overlay
        Folder for a picture of each section that can be read, ``<name>.png``; None for none.
    progress
        Show a progress bar.

    Returns
    -------
    A report a section, in order.

    Raises
    ------
    OutputError
        If a picture cannot be written.
    """
    reports, pairs = [], Counter[tuple[str, str]]()
    for source in bar(sources, "checking sections", shown=progress):
        report, section = check_source(source)
        reports.append(report)
        if section is None:
            continue
        pairs.update(genes.pairs(section))
        if overlay is not None:
            save_overlay(section, overlay / f"{source.name.replace('/', '_')}.png")
        del section  # before the next is read
    return match_genes(reports, genes.mapping(pairs))


def match_genes(reports: Sequence[SectionReport], symbols: dict[str, str]) -> list[SectionReport]:
    """Complete reports by what the other sections tell of genes named by Ensembl id.

    Parameters
    ----------
    reports
        From :func:`check`.
    symbols
        The symbol of each Ensembl id, from :func:`genar.read.genes.mapping`.

    Returns
    -------
    The reports with ``match_rate``, and a warning where few ids have a symbol; ``gene_names`` are symbols as far as
    these are known.
    """
    done = []
    for report in reports:
        ids = {name: found for name in report.gene_names if (found := genes.ensembl_id(name))}
        rate = genes.match_rate(ids.values(), symbols)
        further: tuple[str, ...] = ()
        if report.identifiers == "ensembl" and (rate or 0) < GOOD_MATCH:
            why = f"its genes are named by Ensembl id, and {rate or 0:.0%} of them have a symbol in another section"
            further = (f'{why}; add a section with symbols and var["gene_ids"], or rename its genes',)
        names = tuple(sorted({symbols.get(ids.get(name, ""), name) for name in report.gene_names}))
        done.append(replace(report, match_rate=rate, gene_names=names, warnings=report.warnings + further))
    return done


def _counts(section: AnnData) -> tuple[str | None, float | None, int]:
    """Return what is wrong with the counts; else their median over spots and the number of spots without any."""
    try:
        totals = np.asarray(as_counts(section.X, Path()).sum(axis=1)).ravel()
    except DataError as e:
        return f"{e.why}; {e.remedy}", None, 0
    return None, float(np.median(totals)), int((totals == 0).sum())


def _too_few_genes(report: SectionReport) -> str | None:
    if report.genes >= 2:
        return None
    return f"it has {'one gene' if report.genes else 'no gene'}; give the whole table, a model needs two at least"


def _repeated(names: pd.Index) -> str | None:
    """Say how many names repeat an earlier one, and which."""
    again = names[names.duplicated()]
    return f"{len(again)} ({', '.join(again.unique()[:3])}{', ...' * (again.nunique() > 3)})" if len(again) else None


def _barcodes(section: AnnData) -> str | None:
    again = _repeated(section.obs_names)
    return again and f"repeated barcodes: {again}; keep each once, or give them other names"


def _symbols(section: AnnData) -> str | None:
    again = _repeated(section.var_names)
    return again and f"repeated gene names: {again}; training takes the first of each, add them up to have both"


def _image(section: AnnData) -> str | None:
    known = metadata(section)
    image = known.get(keys.SOURCE_IMAGE) or known.get(keys.PATCHES)
    if image is None:
        return "it has no full-resolution image; give it with --image"
    return None if Path(image).exists() else f"its image {image} is not there; give it with --image"


def _warnings(report: SectionReport) -> list[str]:
    """Say what is worth knowing."""
    said = []
    if report.zero_spots:
        said.append(f"{report.zero_spots} of {report.spots} spots have no counts; training leaves them out")
    if report.library_size is not None and report.library_size < LOW_LIBRARY:
        said.append(f"its median library size is only {report.library_size:g}; expect little of it, or use larger bins")
    if report.patient is None:
        said.append("its patient is not known; name it, or it counts as a patient of its own when splitting")
    return said
