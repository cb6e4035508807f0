"""What all readers do at the end: put counts, genes, spots and image together in the one form that genar knows."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import DataError
from genar.slide.lattice import Lattice
from genar.slide.open import open_slide
from genar.slide.section import metadata, place

ID_COLUMNS = (keys.GENE_IDS, "gene_id", "ensembl_id", "ensembl")  # as other tools name them
SYMBOL_COLUMNS = ("gene_symbols", "gene_symbol", "feature_name", "gene_name", "symbol", "SYMBOL")


def assemble(counts: csr_matrix, obs: pd.DataFrame, var: pd.DataFrame, xy: NDArray[np.float64], path: Path) -> AnnData:
    """Put counts [N, genes], their spots and genes, and the spots' centres [N, 2] together.

    Of ``obs``, only the place in the array is kept; of ``var``, only symbols and Ensembl ids.

    Raises
    ------
    DataError
        If there is no spot or no gene, or a centre is no number.
    """
    if 0 in counts.shape:
        what = "spot in tissue" if counts.shape[0] == 0 else "gene"
        raise DataError(path, f"it has no {what}", "leave this section out, or give its data anew")
    if xy.shape != (len(obs), 2) or not np.isfinite(xy).all():
        raise DataError(path, "a spot has no place in the image", "give every spot's centre (x, y) in pixels")
    kept = {keys.IN_TISSUE: np.ones(len(obs), dtype=np.int64)}
    for column in (keys.ARRAY_ROW, keys.ARRAY_COL):
        numbers = pd.to_numeric(obs[column], errors="coerce") if column in obs else pd.Series([np.nan])
        if np.isfinite(numbers.to_numpy(np.float64)).all():
            kept[column] = numbers.to_numpy(np.float64).round().astype(np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*names are not unique")  # the validator tells of them
        spots = AnnData(counts, obs=pd.DataFrame(kept, index=obs.index.astype(str)), var=_genes(var))
    spots.obsm[keys.SPATIAL] = np.asarray(xy, dtype=np.float64)
    return spots


def _genes(var: pd.DataFrame) -> pd.DataFrame:
    """Name genes by symbols where these are known, and keep their Ensembl ids."""
    names = var.index.astype(str)
    ids = next((var[c].astype(str).to_numpy() for c in ID_COLUMNS if c in var), None)
    symbols = next((var[c].astype(str) for c in SYMBOL_COLUMNS if c in var), None)
    if symbols is not None and names.str.match(r"ENS[A-Z]*G\d{6,}").all():
        ids = names.to_numpy() if ids is None else ids
        named = AnnData(var=pd.DataFrame(index=pd.Index(symbols, name=None)))
        named.var_names_make_unique()
        names = named.var_names
    return pd.DataFrame({} if ids is None else {keys.GENE_IDS: ids}, index=pd.Index(names, dtype=object, name=None))


def locate(
    spots: AnnData, image: Path, mpp: float | None, lattice: Lattice, name: str, *, mpp_source: str | None = None
) -> None:
    """Place spots on their image.

    Parameters
    ----------
    spots
        From :func:`assemble`.
    image
        The full-resolution image.
    mpp
        Its resolution in µm per pixel; None to take the one that it carries.
    lattice
        The spots' geometry.
    name
        Name of the section.
    mpp_source
        Where the resolution comes from, if not from the user or the image.

    Raises
    ------
    SlideError
        If the image cannot be opened or no plausible resolution is known.
    """
    with open_slide(image, mpp) as slide:
        slide.mpp_source = mpp_source or slide.mpp_source
        place(spots, slide, lattice, library_id=name)


def describe(
    spots: AnnData, data: Path, counts: str, name: str, patient: tuple[str, str] | None, **further: str
) -> AnnData:
    """Note where a section comes from, once it is placed.

    Parameters
    ----------
    spots
        The section.
    data
        What it was read from.
    counts
        Where in it the counts were.
    name
        Its name as given.
    patient
        The patient and where that comes from; None makes the section a patient of its own.
    **further
        More metadata, by key.

    Returns
    -------
    ``spots``.
    """
    who, source = patient or (name, "unknown; the section counts as a patient of its own")
    spots.obs[keys.PATIENT] = pd.Categorical([who] * spots.n_obs)
    metadata(spots).update(
        {
            keys.DATA: str(data.resolve()),
            keys.COUNTS_SOURCE: counts,
            keys.SECTION_NAME: name,
            keys.PATIENT_SOURCE: source,
            **further,
        }
    )
    return spots


def given(patient: str | None) -> tuple[str, str] | None:
    """Return the patient that the user gave, with its source."""
    return None if patient is None else (patient, "given by the user")


def in_tissue(obs: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which spots lie in tissue, bool [N]; all where that is not known."""
    if keys.IN_TISSUE not in obs:
        return np.ones(len(obs), dtype=bool)
    return np.asarray(obs[keys.IN_TISSUE].astype(str).isin(["1", "1.0", "True", "true"]))
