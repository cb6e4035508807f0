"""Which genes a model predicts: chosen by their scores in the training sections, or read from a file."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from genar.errors import ConfigError, DataError
from genar.genes.scores import Method, check_installed, score

__all__ = ["Method", "check_installed", "check_measured", "choose", "from_file", "score"]

LISTED = 5  # genes that an error names


def choose(
    scores: Sequence[tuple[pd.Series, int]], n_genes: int, method: Method, min_sections: int | None = None
) -> pd.Index:
    """Choose the genes that score best over the training sections.

    Parameters
    ----------
    scores
        For each training section its genes' scores (see :func:`score`) and its number of spots.
    n_genes
        Size of the panel.
    method
        What was scored, which says how sections are combined: ``"top_mean"`` by the mean over all spots that measured
        the gene, ``"hvg"`` by the number of sections in which the gene is among the best ``n_genes``, then by its
        median rank there, as scanpy's ``seurat_v3_paper`` combines batches, ``"svg"`` by the mean.
    min_sections
        Number of sections that must measure a gene; by default all.

    Returns
    -------
    Gene symbols, best first, ties by name.

    Raises
    ------
    ConfigError
        If ``min_sections`` is more than there are sections.
    DataError
        If fewer than ``n_genes`` genes are measured in enough sections.
    """
    needed = _needed(min_sections, len(scores))
    table = pd.concat([values for values, _ in scores], axis=1, keys=range(len(scores)))  # NaN: not measured
    table = table[table.notna().sum(axis=1) >= needed].sort_index()
    if len(table) < n_genes:
        why = f"{len(table):,} genes are measured in {needed} or more of {len(scores)}, {n_genes:,} are asked for"
        remedy = f"set panel.n_genes to at most {len(table)}" + (", or lower panel.min_sections" if needed > 1 else "")
        raise DataError("the training sections", why, remedy)
    if method == "top_mean":
        spots = np.array([n for _, n in scores])
        totals = np.rint(table * spots).sum(axis=1)  # counts are whole: genes that tie do so to the last bit
        combined: pd.Series = totals / (table.notna() * spots).sum(axis=1)
    elif method == "hvg":
        ranks = table.rank(ascending=False)
        best = ranks.where(ranks <= n_genes)
        rank = best.median(axis=1).fillna(ranks.median(axis=1))
        combined = best.notna().sum(axis=1) - rank / (len(table) + 1)
    else:
        combined = table.mean(axis=1)
    return combined.sort_values(ascending=False, kind="stable").index[:n_genes]


def _needed(min_sections: int | None, n_sections: int) -> int:
    """Return the number of sections that must measure a gene."""
    if min_sections is not None and min_sections > n_sections:
        why = f"{min_sections} is more than the {n_sections} training sections"
        raise ConfigError("panel.min_sections", why, f"set it to at most {n_sections}, or leave it out for all")
    return n_sections if min_sections is None else min_sections


def from_file(path: Path) -> pd.Index:
    """Read a panel.

    Parameters
    ----------
    path
        One gene symbol a line; or a table with tabs or commas whose first column is headed ``gene``, for example the
        ``genes.tsv`` of a model. What follows a ``#`` is a comment.

    Returns
    -------
    Gene symbols, in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be read, names no gene, one twice, or is neither a list nor such a table.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(path, f"it cannot be read ({e})", "give a text file with one gene a line") from e
    lines = [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
    rows = [[cell.strip().strip('"') for cell in line.replace(",", "\t").split("\t")] for line in lines]
    table = bool(rows) and rows[0][0] == "gene"
    if not table and (wide := [line for line, row in zip(lines, rows, strict=True) if len(row) > 1]):
        why = f"the line {wide[0]!r} holds more than a gene"
        raise DataError(path, why, "give one gene a line, or a table whose first column is headed gene")
    genes = pd.Index([row[0] for row in rows[table:]], dtype=object)
    if genes.empty:
        raise DataError(path, "it names no gene", "give one gene a line")
    if not genes.is_unique:
        twice = genes[genes.duplicated()].unique()
        raise DataError(path, f"it names {_some(list(twice))} twice", "remove the duplicates")
    return genes


def check_measured(
    genes: pd.Index, measured: Sequence[pd.Index], min_sections: int | None = None, *, path: Path
) -> None:
    """Make sure that the training sections measure a panel that was read from a file.

    Parameters
    ----------
    genes
        The panel.
    measured
        For each training section the genes that it measures.
    min_sections
        Number of sections that must measure a gene; by default all.
    path
        The file, for the error.

    Raises
    ------
    ConfigError
        If ``min_sections`` is more than there are sections.
    DataError
        If a gene is measured in fewer, naming the genes that it may have been meant to be.
    """
    needed = _needed(min_sections, len(measured))
    found = np.sum([genes.isin(names) for names in measured], axis=0)
    missing = list(genes[found < needed])
    if not missing:
        return
    known = sorted(set().union(*measured))
    if len(missing) == len(genes) and not genes.isin(known).any():
        why = f"no training section measures any of its genes, but {_some(known[:2])} and others"
        raise DataError(path, why, "name genes as the sections do, by symbol or by Ensembl id")
    meant = [f"{gene}{_suggestion(gene, known)}" for gene in missing[:LISTED]]
    why = f"{_some([*meant, *missing[LISTED:]])} of its {len(genes)} genes measured in fewer than {needed} sections"
    remedy = "correct or remove them" + (", or lower panel.min_sections" if needed > 1 else "")
    raise DataError(path, why, remedy)


def _suggestion(gene: str, known: Sequence[str]) -> str:
    """Say which measured gene a misspelt one may be."""
    folded = {name.upper(): name for name in known}
    if gene in known:
        return ""
    near = difflib.get_close_matches(gene.upper(), folded, n=2, cutoff=0.75)
    return f" (did you mean {' or '.join(folded[name] for name in near)}?)" if near else ""


def _some(names: Sequence[str]) -> str:
    """List the first few names."""
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
