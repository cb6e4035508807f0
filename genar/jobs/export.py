"""The job of handing a result on: SpatialData, GeoJSON for QuPath, CSV or Parquet."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anndata import AnnData

from genar import keys
from genar.errors import ConfigError, OutputError
from genar.genes.choice import is_counts, most_varied, named, values
from genar.read.table import read_table
from genar.slide.section import library_name
from genar.write.atomic import ELSEWHERE, atomic, whole_folder
from genar.write.geojson import OBJECTS, ObjectName, start_of, write_geojson
from genar.write.sections import Section, sections_of
from genar.write.spatialdata import check_installed, is_ours, write_spatialdata
from genar.write.table import write_csv, write_parquet

logger = logging.getLogger("genar")

FormatName = Literal["spatialdata", "geojson", "csv", "parquet"]
SUFFIXES: dict[str, str] = {
    "spatialdata": ".spatialdata.zarr",
    "geojson": ".geojson",
    "csv": ".csv",
    "parquet": ".parquet",
}
TOP = 20  # measurements that QuPath lists without the reader losing sight
FOR = {"layer": ("geojson", "csv", "parquet"), "object": ("geojson",), "classify": ("geojson",),
       "slide": ("spatialdata", "geojson")}  # fmt: skip


@dataclass(frozen=True)
class _Request:
    """What was asked for, of one result."""

    adata: AnnData
    sections: list[Section]
    genes: list[str]
    layer: str | None
    slide: Path | None
    kind: ObjectName
    classify: str | None
    overwrite: bool


def export(
    result: AnnData | str | Path,
    to: FormatName,
    output: str | Path | None = None,
    *,
    genes: Sequence[str] | None = None,
    top: int | None = None,
    layer: str | None = None,
    object: ObjectName | None = None,
    classify: str | None = None,
    slide: str | Path | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a result, or a measured section, in a format that other programs open.

    Parameters
    ----------
    result
        A result of :func:`genar.predict`, a cohort's, a section that :func:`genar.read` read; or such a file.
    to
        ``"spatialdata"``: a store of image, circles and table. ``"geojson"``: objects for QuPath, a file a section.
        ``"csv"``, ``"parquet"``: one table, a row a spot.
    output
        The file to write if it ends as the format's files do (``.zarr``, ``.geojson``, ``.csv``, ``.parquet``), else a
        folder; by default the result's folder, of an AnnData this one.
    genes
        The genes to write; by default all, for GeoJSON the 20 of ``top``.
    top
        Write so many genes, those that vary most, with reliable ones before all others.
    layer
        Whose values; by default ``X``, the counts. SpatialData has all layers.
    object
        Of GeoJSON: ``"detection"`` (the default) or ``"tile"``.
    classify
        Of GeoJSON: a column of ``obs`` that gives spots their class, such as clusters, ``in_focus`` or ``ood``.
    slide
        The slide of the one section. SpatialData then has its image at 1 µm a pixel in place of the small one;
        GeoJSON takes from it where QuPath counts, for results that do not say.
    overwrite
        Replace what exists.

    Returns
    -------
    The files, or the store.

    Raises
    ------
    DataError
        If it is no such result, or lacks a gene.
    ConfigError
        If an option does not go with the format, or spatialdata is missing.
    SlideError
        If the slide cannot be opened, or is another.
    OutputError
        If something exists or cannot be written.

    Examples
    --------
    >>> genar.export("results/slide.h5ad", "geojson", genes=["ERBB2", "GNAS"])
    """
    _check_options(to, {"layer": layer, "object": object, "classify": classify, "slide": slide}, genes, top)
    if to == "spatialdata":
        check_installed()
    source = None if isinstance(result, AnnData) else Path(result)
    adata = result if isinstance(result, AnnData) else read_table(Path(result))
    sections = sections_of(adata, source or "the AnnData")
    if slide is not None and len(sections) > 1:
        raise ConfigError("--slide", f"the result holds {len(sections)} sections", "leave it out")
    targets = _targets(to, source, sections, None if output is None else Path(output))
    chosen = _genes(adata, to, genes, top)
    if layer is None and to != "spatialdata" and not is_counts(adata.X):
        logger.warning("X holds no counts, and is written as it is: do not take it for some")
    values(adata, chosen[:1], layer)  # is there such a layer?
    request = _Request(
        adata, sections, chosen, layer, None if slide is None else Path(slide), object or "detection", classify,
        overwrite,
    )  # fmt: skip
    if to == "spatialdata":
        _store(request, targets[0])
    elif to == "geojson":
        _objects(request, targets)
    else:
        with atomic(targets[0], overwrite=overwrite) as (beside,):
            write = write_csv if to == "csv" else write_parquet
            write(adata, sections, beside, genes=chosen, layer=layer)
    return targets


def _check_options(to: str, given: dict[str, object], genes: Sequence[str] | None, top: int | None) -> None:
    """Raise unless the options go with the format, and with each other."""
    if to not in SUFFIXES:
        raise ConfigError("--to", f"{to!r} is no format", f"give one of: {', '.join(SUFFIXES)}")
    for option, value in given.items():
        if value is not None and to not in FOR[option]:
            formats = " and ".join(FOR[option])
            name = f"--{option}"
            raise ConfigError(name, f"it does not go with --to {to}", f"leave it out; it is for {formats}")
    if given["object"] is not None and given["object"] not in OBJECTS:
        raise ConfigError("--object", f"{given['object']!r} is not known", f"give {' or '.join(OBJECTS)}")
    if genes is not None and top is not None:
        raise ConfigError("--top", "--genes says already which", "give one of the two")
    if top is not None and top < 1:
        raise ConfigError("--top", f"{top} is too few", "give 1 or more")


ENDINGS = {f".{suffix.rpartition('.')[2]}" for suffix in SUFFIXES.values()}


def names_file(to: str, output: Path) -> bool:
    """Tell whether an output is the file or the store itself, not a folder for it: it ends as the format's do."""
    return output.suffix == f".{SUFFIXES[to].rpartition('.')[2]}"


def _targets(to: str, source: Path | None, sections: Sequence[Section], output: Path | None) -> list[Path]:
    """Return what to write."""
    suffix = SUFFIXES[to]
    per_section = to == "geojson"
    if output is not None and names_file(to, output):
        if per_section and len(sections) > 1:
            why = f"the result holds {len(sections)} sections, each a file"
            raise OutputError(output, why, "give a folder with -o")
        targets = [output]
    else:
        if output is not None and output.suffix in ENDINGS and not output.is_dir():
            raise OutputError(output, f"a file of --to {to} does not end so", f"end it in {SUFFIXES[to]}")
        folder = output if output is not None else Path() if source is None else source.parent
        one = len(sections) == 1
        stem = source.stem if source is not None else library_name(sections[0].name) if one else "cohort"
        stems = [library_name(s.name) for s in sections] if per_section and not one else [stem]
        targets = [folder / f"{name}{suffix}" for name in stems]
    for section in sections:
        image = section.metadata.get(keys.SOURCE_IMAGE)
        if image and targets[0].resolve() == Path(str(image)).with_suffix(".zarr"):
            why = "LazySlide keeps what it knows of the slide in the folder of this name"
            raise OutputError(targets[0], why, f"call it {targets[0].stem}{suffix}")
    return targets


def _genes(adata: AnnData, to: str, genes: Sequence[str] | None, top: int | None) -> list[str]:
    """Choose the genes."""
    if genes is not None:
        return named(adata, genes)
    if top is None and to != "geojson":
        return list(map(str, adata.var_names))
    chosen = most_varied(adata, top or TOP)
    if len(chosen) < adata.n_vars:
        logger.info("%d of %d genes, those that vary most: %s", len(chosen), adata.n_vars, ", ".join(chosen))
    return chosen


def _store(request: _Request, target: Path) -> None:
    """Write the store, in the place of one of genar's alone."""
    if target.exists():
        if not request.overwrite:
            raise OutputError(target, "it exists", f"add --overwrite to replace it, or {ELSEWHERE}")
        if not is_ours(target):
            raise OutputError(target, "it exists and genar did not write it", f"remove it, or {ELSEWHERE}")
    with whole_folder(target, replaces=request.overwrite) as beside:
        write_spatialdata(request.adata, request.sections, beside, genes=request.genes, slide=request.slide)


def _objects(request: _Request, targets: Sequence[Path]) -> None:
    """Write a file a section; all appear, or none."""
    starts = [start_of(section, request.slide) for section in request.sections]
    classes = None
    if request.classify is not None:
        from genar.write.classes import classes_of  # imports torch, which takes seconds

        classes = classes_of(request.adata, request.classify)
    with atomic(*targets, overwrite=request.overwrite) as beside:
        for section, start, path in zip(request.sections, starts, beside, strict=True):
            write_geojson(
                request.adata, section, path, genes=request.genes, layer=request.layer, start=start,
                kind=request.kind, classes=classes,
            )  # fmt: skip
