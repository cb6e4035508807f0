"""Results in, a page of each section out, and an index of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from genar.errors import ConfigError, OutputError
from genar.read.table import check_table, read_table
from genar.slide.section import library_name
from genar.write.atomic import check_writable
from genar.write.report.index import INDEX, check_index, write_index
from genar.write.report.page import write_page
from genar.write.report.section import libraries

PAGE = ".html"


def reports(
    tables: Sequence[Path], output: Path | None = None, *, genes: Sequence[str] | None = None, overwrite: bool = False
) -> Iterator[Path]:
    """Write a page for each section of each result, and ``index.html`` where there are several.

    Parameters
    ----------
    tables
        The results, ``.h5ad``.
    output
        A file, for one section, or a folder; by default the folder of the first result. Pages are called as the
        results, those of a file of several sections ``<result>.<library_id>.html``.
    genes
        As :func:`genar.report` takes them.
    overwrite
        Replace pages that exist.

    Yields
    ------
    The pages as they are written, the index last.

    Raises
    ------
    ConfigError
        If two pages would have one name.
    OutputError
        If a page exists and ``overwrite`` is not set, or one file is asked for and there are several sections.
    GenarError
        As :func:`genar.report`.
    """
    is_file = output is not None and output.suffix.lower() == PAGE and not output.is_dir()
    folder = tables[0].parent if output is None else output
    several = len(tables) > 1
    _check(tables, None if is_file else folder, overwrite=overwrite)
    for table in tables:
        adata = read_table(table)
        sections: list[str | None] = [*libraries(adata)]
        several |= len(sections) > 1
        if is_file and several:
            raise OutputError(output, "one page cannot hold several sections", "give a folder with -o")
        if several:
            check_index(folder)
        for section in sections if len(sections) > 1 else [None]:
            name = f"{table.stem}.{library_name(section)}" if section else table.stem
            page = output if is_file and output is not None else folder / f"{name}{PAGE}"
            yield write_page(adata, page, table, library_id=section, genes=genes, overwrite=overwrite)
    if several:
        yield write_index(folder)


def _check(tables: Sequence[Path], folder: Path | None, *, overwrite: bool) -> None:
    """Raise now, rather than after the first pages, if one could not be written."""
    names: dict[str, Path] = {Path(INDEX).stem: Path(INDEX)} if len(tables) > 1 else {}
    for table in tables:
        if table.stem in names:
            why = f"its page would be called {table.stem}{PAGE}, as that of {names[table.stem]}"
            raise ConfigError(table, why, "rename it, or write the pages into different folders with -o")
        names[table.stem] = table
        check_table(table)
        if folder is not None:
            check_writable(folder / f"{table.stem}{PAGE}", overwrite=overwrite)
