"""What is known of measured sections after checking them, one by one and together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import pandas as pd

from genar.read.genes import Identifiers


@dataclass(frozen=True)
class SectionReport:
    """What is known of a section, and what is wrong with it.

    Parameters
    ----------
    name
        Name of the section.
    patient
        Its patient.
    spots, genes
        How many it has.
    library_size
        Median over spots of the total count.
    counts_source
        Where its counts were found.
    mpp, mpp_source
        Resolution of its image in µm per pixel, and where that comes from.
    pitch_um, measured_pitch_um
        Distance of neighbouring spots in µm, as declared and as their coordinates give it.
    on_tissue
        Share of the spots whose centre lies on tissue.
    better_fit
        How the coordinates would have to be swapped or flipped for clearly more spots to lie on tissue.
    zero_spots
        Spots without counts.
    duplicate_genes, duplicate_barcodes
        Names that stand in it more than once.
    identifiers
        How its genes are named: ``"symbols"``, ``"ensembl"`` or ``"mixed"``.
    match_rate
        Share of its Ensembl ids whose symbol is known from other sections.
    errors
        Why it cannot be used, each with what to do about it.
    warnings
        What is worth knowing of it.
    gene_names
        Its genes, sorted.
    """

    name: str
    patient: str | None = None
    spots: int = 0
    genes: int = 0
    library_size: float | None = None
    counts_source: str | None = None
    mpp: float | None = None
    mpp_source: str | None = None
    pitch_um: float | None = None
    measured_pitch_um: float | None = None
    on_tissue: float | None = None
    better_fit: str | None = None
    zero_spots: int = 0
    duplicate_genes: int = 0
    duplicate_barcodes: int = 0
    identifiers: Identifiers | None = None
    match_rate: float | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    gene_names: tuple[str, ...] = field(default=(), repr=False)

    @property
    def usable(self) -> bool:
        """Whether it can be trained on."""
        return not self.errors


@dataclass(frozen=True)
class Cohort:
    """Sections together.

    Parameters
    ----------
    sections, usable
        How many there are, and how many of them can be trained on.
    spots
        Spots of the usable ones.
    patients
        The usable sections of each patient.
    shared_genes
        Genes of all usable sections, after Ensembl ids have been mapped to symbols.
    partial_genes
        Genes of only some of them.
    """

    sections: int
    usable: int
    spots: int
    patients: dict[str, tuple[str, ...]]
    shared_genes: int
    partial_genes: int


def cohort(reports: Sequence[SectionReport]) -> Cohort:
    """Put the usable sections together."""
    usable = [report for report in reports if report.usable]
    patients: dict[str, tuple[str, ...]] = {}
    for report in usable:
        patient = report.patient or report.name
        patients[patient] = (*patients.get(patient, ()), report.name)
    sections_of = Counter(gene for report in usable for gene in report.gene_names)
    shared = sum(number == len(usable) for number in sections_of.values())
    spots = sum(report.spots for report in usable)
    return Cohort(len(reports), len(usable), spots, patients, shared, len(sections_of) - shared)


def table(reports: Sequence[SectionReport]) -> pd.DataFrame:
    """Return one row a section, indexed by its name: the fields of :class:`SectionReport` but ``gene_names``.

    Several errors or warnings are joined by a line break.
    """
    names = [f.name for f in fields(SectionReport) if f.name not in ("name", "gene_names")]
    rows = [[getattr(report, name) for name in names] for report in reports]
    frame = pd.DataFrame(rows, columns=names, index=pd.Index([report.name for report in reports], name="section"))
    for column in ("errors", "warnings"):
        frame[column] = frame[column].map("\n".join)
    return frame
