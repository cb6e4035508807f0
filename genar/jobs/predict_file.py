"""A slide's prediction on disk: made once, whole or not at all, and left alone if it is there."""

import logging
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import anndata as ad
import pandas as pd
from anndata import AnnData

from genar import keys, ood
from genar.errors import ConfigError, GenarError, OutputError
from genar.jobs.existing import present
from genar.jobs.options import Options
from genar.jobs.predict import check, predict_checked
from genar.jobs.scratch import scratch
from genar.jobs.slides import is_name, named
from genar.pl import save_overview
from genar.shelf import find
from genar.slide.files import stamp
from genar.slide.section import library_name
from genar.store import Model, load
from genar.write.anndata import write_h5ad
from genar.write.atomic import ELSEWHERE, atomic, check_writable
from genar.write.report import report
from genar.write.report.index import is_current, summary_of

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


def predict_to_file(
    slide: Path,
    output: Path,
    options: Options,
    *,
    name: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Written:
    """Predict a slide and write ``<name>.h5ad``, a picture, ``<name>.png``, and, where asked for, a page.

    All files appear in the folder ``output``, or none; the page, ``<name>.html``, is that of :func:`genar.report`. A
    result of the same request that is there is left as it is. While the slide is in work, its features lie in a hidden
    folder of ``output`` (or in ``options.cache``), so that the next call goes on where this one was killed.

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
        As :func:`genar.jobs.predict.predict`.
    """
    slide = named(slide)
    name = name or slide.stem
    if not is_name(name):
        raise ConfigError(slide, f"a result cannot be called {name!r}", "give it another name")
    table, picture, page = (output / f"{name}.{kind}" for kind in ("h5ad", "png", "html"))
    targets = (table, picture, page) if options.report else (table, picture)
    for path in targets:
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
        if options.report and not is_current(page, table):
            report(table, page, overwrite=summary_of(page) is not None)
        return written
    replaced = overwrite or table.is_file()  # a damaged one
    try:
        with scratch(output, name) as folder:
            kept = options if options.cache else replace(options, cache=folder)
            adata = predict_checked(slide, model, kept, request=request, progress=progress)
            if name != slide.stem:
                _rename(adata, name)
            with atomic(*targets, overwrite=replaced, within=folder) as (table_beside, picture_beside, *pages_beside):
                write_h5ad(adata, table_beside)
                save_overview(adata, picture_beside)
                for page_beside in pages_beside:
                    report(adata, page_beside)
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


def _same(path: Path, slide: Path) -> bool:
    """Tell whether both are one file; what cannot be looked up is not."""
    try:
        return path.samefile(slide)
    except OSError:
        return False
