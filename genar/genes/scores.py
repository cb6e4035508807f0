"""How good each gene of one section is for a panel: by level, by variance, or by spatial pattern."""

import warnings
from typing import Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from genar import keys
from genar.errors import ConfigError, DataError
from genar.slide.lattice import VISIUM
from genar.slide.section import metadata

Method = Literal["top_mean", "hvg", "svg"]

MIN_SPOTS = 10  # a gene seen in fewer spots of a section has no variance or pattern worth an estimate
MIN_GENES = 20  # scikit-misc's loess ends the process where it gets three
VISIUM_STEPS = (0.5, 3**0.5 / 2)  # of an array column and row, in pitches
LOWEST = {"hvg": 0.0, "svg": -1.0}  # what such a gene scores: the bounds of normalised variance and of Moran's I


def check_installed(method: Method) -> None:
    """Raise now, rather than after the sections have been read, if a method needs a package that is not there.

    Raises
    ------
    ConfigError
        If scikit-misc (``"hvg"``) or squidpy (``"svg"``) cannot be imported.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # squidpy's own docstrings
            if method == "hvg":
                import skmisc.loess  # noqa: F401
            if method == "svg":
                import squidpy  # noqa: F401
    except ImportError as e:
        why = f"{method} needs a package that is not installed ({e})"
        raise ConfigError("panel.method", why, 'run pip install "genar[panel]"') from e


def score(section: AnnData, method: Method) -> pd.Series:
    """Score the genes of one section; the higher, the better.

    Parameters
    ----------
    section
        A measured section with raw counts in ``X``.
    method
        ``"top_mean"``: the mean raw count over the spots. ``"hvg"``: the variance of the raw counts over what their
        mean lets expect, by scanpy's ``highly_variable_genes`` of flavor ``seurat_v3``. ``"svg"``: Moran's I of the
        log of the normalised counts between a spot and its four neighbours, six on a hexagonal lattice, by squidpy. For
        the latter two a gene that fewer than 10 spots express scores as low as can be.

    Returns
    -------
    Scores, float64, indexed by gene.

    Raises
    ------
    ConfigError
        If the method needs a package that is not installed.
    DataError
        If the section is too small for the method.
    """
    if method == "top_mean":
        return pd.Series(np.asarray(section.X.sum(axis=0)).ravel() / section.n_obs, section.var_names)
    check_installed(method)
    seen = np.asarray((section.X > 0).sum(axis=0)).ravel() >= MIN_SPOTS
    if not seen.any():
        raise DataError(_name(section), f"no gene is seen in {MIN_SPOTS} spots, which {method} needs", "leave it out")
    scores = pd.Series(LOWEST[method], section.var_names, dtype=np.float64)
    found = _variance(section, seen) if method == "hvg" else _morans_i(section, seen)
    scores[seen] = np.where(np.isfinite(found), found, LOWEST[method])
    return scores


def _variance(section: AnnData, genes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the normalised variance of some genes, float64."""
    import scanpy as sc

    counts = AnnData(section.X[:, genes])
    low, high = counts.X.min(axis=0).toarray().ravel(), counts.X.max(axis=0).toarray().ravel()
    why = "the variances of its genes cannot be fitted to their means"
    remedy = "leave the section out, or set panel.method to top_mean or svg"
    if (high > low).sum() < MIN_GENES:
        raise DataError(_name(section), why, remedy)
    try:
        table = sc.pp.highly_variable_genes(counts, flavor="seurat_v3", n_top_genes=counts.n_vars, inplace=False)
    except ValueError as e:  # loess, for example where most genes have one mean
        raise DataError(_name(section), why, remedy) from e
    return np.asarray(table["variances_norm"], dtype=np.float64)


def _morans_i(section: AnnData, genes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return Moran's I of some genes, float64."""
    import scanpy as sc
    from squidpy.gr import spatial_autocorr
    from squidpy.gr.neighbors import GridBuilder

    lit = np.asarray(section.X.sum(axis=1)).ravel() > 0
    spots = AnnData(section.X[lit].astype(np.float32))
    sc.pp.normalize_total(spots)
    sc.pp.log1p(spots)
    spots = spots[:, genes].copy()
    hexagonal = metadata(section)[keys.LATTICE] == VISIUM.name
    around = GridBuilder(n_neighs=6 if hexagonal else 4)
    spots.obsp["spatial_connectivities"], _ = around.build(_places(section, hexagonal)[lit])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*variables were constant")  # they become NaN
        table = spatial_autocorr(spots, mode="moran", corr_method=None, copy=True, n_jobs=1, show_progress_bar=False)
    return np.asarray(table["I"].reindex(spots.var_names), dtype=np.float64)


def _places(section: AnnData, hexagonal: bool) -> NDArray[np.float64]:
    """Return where spots lie on their lattice, a pitch apart; where that is not known, their centres: [N, 2]."""
    if keys.ARRAY_ROW not in section.obs or keys.ARRAY_COL not in section.obs:
        return np.asarray(section.obsm[keys.SPATIAL], dtype=np.float64)
    places = np.asarray(section.obs[[keys.ARRAY_COL, keys.ARRAY_ROW]], dtype=np.float64)
    return np.multiply(places, VISIUM_STEPS) if hexagonal else places


def _name(section: AnnData) -> str:
    return str(section.obs[keys.LIBRARY_ID].iloc[0])
