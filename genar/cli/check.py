"""``genar check``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genar.read.report import Cohort
    from genar.read.source import Source

DESCRIPTION = """\
Check measured sections before training on them: counts, image, resolution, and
whether the spots lie on tissue and as far apart as they should. DATA is a
Space Ranger folder, a HEST download, a folder laid out as her2st, an .h5ad, a
SpatialData .zarr, a folder of these, or a sample sheet (.csv).

Prints a line a section, then what is wrong and what to do about it. Exits with
0 if every section can be trained on, with 2 if one cannot."""

EPILOG = """\
examples:
  genar check data/her2st --overlay pictures
  genar check runs/A1/outs --image slides/A1.svs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="where the sections lie")
    add("--sections", metavar="NAME", nargs="+", help="check only these")
    add("--image", metavar="FILE", type=Path, help="full-resolution image, where DATA is one section without it")
    add("--mpp", type=float, metavar="UM", help="µm per pixel of the images, where the data do not tell")
    add("--overlay", metavar="DIR", type=Path, help="write NAME.png there: a section's spots on its image")
    add("--csv", metavar="FILE", type=Path, help="write all that was found as a table")


def run(args: argparse.Namespace) -> int:
    """Check the sections and print what was found."""
    from genar.read.report import cohort, table
    from genar.read.show import lines
    from genar.read.source import find
    from genar.read.validate import check_all
    from genar.write.atomic import atomic, check_writable

    sources = _chosen(find(args.data), args)
    for target in (args.csv, args.overlay and args.overlay / "section.png"):
        if target:
            check_writable(target, overwrite=True)
    reports = check_all(sources, args.overlay)
    if args.csv:
        with atomic(args.csv, overwrite=True) as (file,):
            table(reports).to_csv(file)
    print(lines(reports))
    for report in reports:
        for kind, said in (("error", report.errors), ("warning", report.warnings)):
            for line in said:
                print(f"{report.name}: {kind}: {line}")
    print(_summary(cohort(reports)))
    return 0 if all(report.usable for report in reports) else 2


def _chosen(sources: "Sequence[Source]", args: argparse.Namespace) -> "list[Source]":
    """Keep the sections that were asked for, and give them what the data do not tell."""
    from dataclasses import replace

    from genar.errors import ConfigError
    from genar.read.source import select

    kept = select(sources, args.sections, "--sections")
    if args.image and len(kept) > 1:
        why = f"it is one image for {len(kept)} sections"
        raise ConfigError("--image", why, "choose one with --sections, or put each image where its format has it")
    given = {name: value for name, value in (("image", args.image), ("mpp", args.mpp)) if value is not None}
    return [replace(source, **given) for source in kept]


def _summary(found: "Cohort") -> str:
    """Say what the usable sections are together."""
    sharing = {patient: sections for patient, sections in found.patients.items() if len(sections) > 1}
    parts = [
        f"{found.usable} of {found.sections} sections can be trained on: {found.spots:,} spots",
        f"{len(found.patients)} patient{'s' * (len(found.patients) != 1)}",
        f"{found.shared_genes:,} genes in all of them, {found.partial_genes:,} in only some",
    ]
    lines = [", ".join(parts)]
    lines += [f"patient {patient}: sections {', '.join(sections)}" for patient, sections in sharing.items()]
    if len(found.patients) == 1 and found.usable > 1:
        from genar.data.splits import one_patient

        lines.append(f"one patient cannot be split by patient: train with {one_patient(next(iter(found.patients)))}")
    return "\n".join(lines)
