"""Where measured sections lie on disk: one entry a section, whatever its format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from anndata import AnnData

from genar.errors import ConfigError, DataError
from genar.read.h5ad import h5ad
from genar.read.hest import hest
from genar.read.recognise import Found, h5ad_at, hest_at, spatialdata_at, st_at, stem, visium_at
from genar.read.sheet import SUFFIXES, number, read_sheet
from genar.read.spatialdata import spatialdata
from genar.read.st import st
from genar.read.visium import visium
from genar.slide.section import library_name

Format = Literal["visium", "hest", "st", "h5ad", "spatialdata"]


@dataclass(frozen=True)
class Source:
    """A measured section that has not been read yet.

    Parameters
    ----------
    name
        Name of the section.
    format
        Its layout on disk.
    path
        What its reader takes: the Space Ranger folder, the ``.h5ad`` file, the ``.zarr``; of HEST and of her2st the
        section's own file, ``st/<id>.h5ad`` or ``ST-cnts/<section>.tsv.gz``, or the root, in which ``name`` tells.
    image
        The full-resolution image, where the layout does not tell.
    mpp
        Resolution of the image in µm per pixel, in place of what the data say.
    patient
        The patient, where the data do not tell.
    bin_um
        Of Visium HD: side of the bins to take, in µm.
    """

    name: str
    format: Format
    path: Path
    image: Path | None = None
    mpp: float | None = None
    patient: str | None = None
    bin_um: int | None = None

    def read(self) -> AnnData:
        """Read the section, as the format's reader does.

        Raises
        ------
        DataError
            If its data cannot be used.
        SlideError
            If its image cannot be used.
        """
        if self.bin_um is not None and self.format != "visium":
            raise DataError(self.path, "only Visium HD has bins", "leave bin_um out")
        if self.format == "visium":
            return visium(
                self.path, image=self.image, mpp=self.mpp, patient=self.patient, library_id=self.name,
                bin_um=self.bin_um,
            )  # fmt: skip
        if self.format in ("hest", "st"):
            root, section = (
                (self.path, self.name) if self.path.is_dir() else (self.path.absolute().parents[1], stem(self.path))
            )
            of_root = hest if self.format == "hest" else st
            return of_root(
                root, section, image=self.image, mpp=self.mpp, patient=self.patient, library_id=self.name
            )  # fmt: skip
        of_file = h5ad if self.format == "h5ad" else spatialdata
        return of_file(self.path, image=self.image, mpp=self.mpp, patient=self.patient, library_id=self.name)


RECOGNISERS: dict[Format, Callable[[Path], Found]] = {  # in this order: HEST's tables are .h5ad files, too
    "visium": visium_at,
    "st": st_at,
    "hest": hest_at,
    "h5ad": h5ad_at,
    "spatialdata": spatialdata_at,
}
KNOWN = (
    "give a Space Ranger folder, a root laid out as her2st (ST-cnts) or HEST (st, metadata), an .h5ad, a .zarr, "
    "a folder of these, or a sample sheet (.csv, .tsv)"
)


def find(data: Path | str) -> list[Source]:
    """List the sections that lie in ``data``, whatever their format.

    Parameters
    ----------
    data
        A sample sheet (``.csv`` or ``.tsv`` with the columns ``path`` and, as needed, ``section``, ``image``,
        ``mpp``, ``patient``, ``format``, ``bin_um``); a root laid out as her2st or HEST, or one section's file in
        it; a Space Ranger folder; an ``.h5ad``; a ``.zarr``; or a folder of these.

    Returns
    -------
    The sections, sorted by name, or as the sample sheet has them. Sections of her2st and HEST without an image are
    left out.

    Raises
    ------
    DataError
        If nothing is found, two sections have one name, or the sample sheet is not valid.
    """
    data = Path(data)
    if not data.exists():
        raise DataError(data, "there is no such file or folder", "check the path")
    if data.is_file() and data.suffix.lower() in SUFFIXES:
        found = [_of_line(line, data) for line in read_sheet(data)]
    else:
        found = _at(data)
        if not found and data.is_dir():
            children = sorted(child for child in data.iterdir() if not child.name.startswith("."))
            found = [source for child in children for source in _at(child)]
    if not found:
        raise DataError(data, "no section was found in it", KNOWN)
    names: dict[str, str] = {}
    for source in found:
        library = library_name(source.name)
        if library in names:
            why = f"two sections are called {library!r} ({names[library]!r} and {source.name!r})"
            raise DataError(data, why, "give each a name of its own, in the column section of a sample sheet")
        names[library] = source.name
    return found


def select(found: Sequence[Source], names: Sequence[str] | None, option: str) -> list[Source]:
    """Return the sections of these names, in the names' order; all where there are none.

    Raises
    ------
    ConfigError
        If one is not there; ``option`` is where it was named.
    """
    by_name = {source.name: source for source in found}
    wanted = list(by_name) if names is None else names
    for name in wanted:
        if name not in by_name:
            have = ", ".join(list(by_name)[:20]) + (", ..." if len(by_name) > 20 else "")
            raise ConfigError(option, f"there is no section {name!r}", f"choose among {have}")
    return [by_name[name] for name in wanted]


def _at(path: Path, only: Format | None = None) -> list[Source]:
    """List the sections that one format recognises at a path."""
    for name, recognise in RECOGNISERS.items():
        if only in (None, name) and (found := recognise(path)):
            return [Source(section, name, where) for section, where in found]
    return []


def _of_line(line: dict[str, str], sheet: Path) -> Source:
    """Return the section of a line of a sample sheet."""
    path, named = Path(line["path"]), line.get("format")
    only = next((known for known in RECOGNISERS if known == named), None)
    if named is not None and only is None:
        raise DataError(sheet, f"{named!r} is not a format", f"give {', '.join(RECOGNISERS)}, or leave it out")
    if not path.exists():
        raise DataError(path, f"{sheet.name} lists it, but it is not there", "paths are relative to the sheet")
    found = _at(path, only)
    if not found:
        raise DataError(path, f"no {named or 'known'} section was found in it", KNOWN)
    return replace(
        _choose(found, path, line.get("section")),
        image=Path(line["image"]) if "image" in line else None,
        mpp=number(line, "mpp", float, sheet),
        patient=line.get("patient"),
        bin_um=number(line, "bin_um", int, sheet),
    )


def _choose(found: list[Source], path: Path, name: str | None) -> Source:
    """Return the one section, under a new name if one is given, or the one of that name."""
    if len(found) == 1:
        return replace(found[0], name=name or found[0].name)
    for source in found:
        if source.name == name:
            return source
    names = ", ".join(source.name for source in found[:10]) + (", ..." if len(found) > 10 else "")
    why = f"it holds {len(found)} sections ({names})" + (f", none of them {name!r}" if name else "")
    raise DataError(path, why, "name one of them, or give the path of one section")


def section(
    path: Path | str,
    *,
    image: Path | str | None = None,
    mpp: float | None = None,
    patient: str | None = None,
    bin_um: int | None = None,
    name: str | None = None,
) -> AnnData:
    """Read one measured section of any format.

    Parameters
    ----------
    path
        What :func:`find` takes.
    image
        The full-resolution image, where the data do not tell.
    mpp
        Its resolution in µm per pixel, where the data do not tell.
    patient
        The patient, where the data do not tell.
    bin_um
        Of Visium HD: side of the bins to take, in µm.
    name
        Which section to read, where ``path`` holds several; of one, what to call it.

    Returns
    -------
    Spots by all genes: raw counts in ``X`` (CSR, int32), spot centres in level-0 pixels of the image in
    ``obsm["spatial"]``, and the image with its geometry in ``uns["spatial"]``.

    Raises
    ------
    DataError
        If ``path`` holds no section, or several of which ``name`` is none, or its data cannot be used.
    SlideError
        If the image cannot be used.
    """
    found = _choose(find(Path(path)), Path(path), name)
    return replace(
        found,
        image=found.image if image is None else Path(image),
        mpp=found.mpp if mpp is None else mpp,
        patient=patient or found.patient,
        bin_um=bin_um or found.bin_um,
    ).read()
