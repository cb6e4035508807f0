"""Measured sections of an evaluation: those that a model learnt from, and those that it never saw."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anndata import AnnData

from genar import keys
from genar.data.splits import patient_hash
from genar.encoders.cache import default_cache, features
from genar.errors import DataError, ModelError
from genar.jobs.prepare import add_features, fingerprint, reduced, with_counts
from genar.progress import bar
from genar.read.genes import harmonise, mapping, pairs
from genar.read.source import Source, find, select
from genar.read.validate import check_source
from genar.store import Model

logger: logging.Logger = logging.getLogger("genar")


@dataclass
class Sections:
    """The sections of an evaluation: those that the model learnt from, and those that it never saw."""

    known: dict[str, AnnData] = field(default_factory=dict)
    unseen: dict[str, AnnData] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def gather(
    model: Model,
    data: Path,
    names: Sequence[str] | None,
    mpp: float | None,
    *,
    seen: bool,
) -> Sections:
    """Read the counts of the sections that are judged on and of those that the model learnt from, without features."""
    split, info = model.info.split, model.info
    learnt = {} if split is None else split.learnt
    sources = find(data)
    select(sources, names, "--sections")
    wanted = [s for s in sources if names is None or s.name in names or s.name in learnt]
    teachers = set() if split is None else {split.patients[name] for name in learnt}
    found, shared = Sections(), []
    for source in bar(wanted, "Reading sections", shown=True):
        is_asked = names is None or source.name in names
        section, patient = _read(replace(source, mpp=source.mpp or mpp))
        is_known = fingerprint(section) in learnt.values()
        if is_known and not seen and names is not None and is_asked:
            why = f"it learnt from section {source.name}, or was stopped by it"
            raise ModelError(info.name, why, "choose other sections, or add --seen to see how well it remembers")
        if not is_known and not model.panel.index.isin(section.var_names).any():
            remedy = "check that the species is right"
            raise DataError(source.name, "the section measured none of the model's genes", remedy)
        section = reduced(section, model.panel.index)
        if is_known:
            found.known[source.name] = section
        if is_asked and (seen or not is_known):
            found.unseen[source.name] = section
        if not is_known and split is not None and patient_hash(patient or source.name) in teachers:
            shared.append(source.name)
    if not found.unseen:
        why = f"it learnt from all sections of {data}, or was stopped by them"
        raise ModelError(info.name, why, "give sections that it never saw, or add --seen to see how well it remembers")
    logger.info("judged on %s", ", ".join(found.unseen))
    found.warnings += _said(model, found, shared)
    return found


def _read(source: Source) -> tuple[AnnData, str | None]:
    """Read and check one section; return it with its patient, where the data tell."""
    report, section = check_source(source)
    for line in report.warnings:
        logger.warning("section %s: %s", source.name, line)
    if section is None or report.errors:
        raise DataError(
            source.name, f"the section cannot be used: {report.errors[0]}", f"see genar check {source.path}"
        )
    section = with_counts(section)
    harmonise(section, mapping(pairs(section)))
    return section, report.patient


def embed(sections: Iterable[AnnData], model: Model, weights: Path | None, cache: Path | None, device: str) -> None:
    """Extract the features that a model takes of sections that have none yet."""
    info = model.info
    for section in sections:
        if keys.features(info.encoder) not in section.obsm:
            found = features(
                section, encoder=info.encoder, weights=weights, tile_um=info.tile_um, cache=cache or default_cache(),
                device=device, progress=True,
            )  # fmt: skip
            add_features(section, info.encoder, found)


def _said(model: Model, found: Sections, shared: list[str]) -> list[str]:
    """List what a reader of the figures should know."""
    said = []
    remembered = [name for name in found.unseen if name in found.known]
    if model.info.split is None:
        said.append(
            "the model does not say what it learnt from: if it was these sections, the figures are worth nothing"
        )
    if remembered:
        said.append(f"the model learnt from {', '.join(remembered)}: the figures say how well it remembers, no more")
    if shared:
        said.append(f"{', '.join(shared)}: of patients that the model learnt from, so the figures are optimistic")
    lacking = {n: int((~model.panel.index.isin(s.var_names)).sum()) for n, s in found.unseen.items()}
    said += [f"section {n} did not measure {k} of the {len(model.panel)} genes" for n, k in lacking.items() if k]
    return said


def all_known(model: Model, found: Sections) -> bool:
    """Tell whether all sections that the model learnt from are at hand."""
    split = model.info.split
    return split is not None and len(found.known) == len(split.learnt)
