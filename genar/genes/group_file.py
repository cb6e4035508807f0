"""Groups of genes from a table, for example pathways."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genar.errors import ConfigError

logger: logging.Logger = logging.getLogger("genar")

GENE, UNASSIGNED = "gene", "unassigned"
COLUMNS = "gene and one or more columns of groups, coarse to fine"


def labels_of(path: Path, genes: pd.Index) -> list[NDArray[np.int64]]:
    """Read the groups of a panel's genes.

    Parameters
    ----------
    path
        A table with the column ``gene`` and one or more columns of group names, coarse to fine.
    genes
        The panel.

    Returns
    -------
    For each scale coarser than the genes, the first of one group, each gene's group: int64 [G], numbered in the order
    of the file. Panel genes that it lacks are in a last group, and are logged; a column that splits no group of the
    panel further makes no scale.

    Raises
    ------
    ConfigError
        If the table cannot be read, lacks columns or names, names a gene twice or none of the panel, or if a group
        does not lie inside one of the column before.
    """
    table = _table(path)
    _check_nesting(table, path)
    panel = table.reindex(genes)
    lacking = panel.index[panel.iloc[:, 0].isna()]
    if len(lacking) == len(genes):
        why = f"it holds no gene of the panel ({', '.join(genes[:3])}, ...)"
        raise ConfigError(path, why, "name genes as the sections do")
    if len(lacking):
        named = f"{', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''}"
        logger.warning("%s lacks %d of %d genes, now group %s: %s", path, len(lacking), len(genes), UNASSIGNED, named)
    labels = [np.zeros(len(genes), dtype=np.int64)]
    for column in table:
        names = [*table[column].unique(), np.nan]
        codes = np.unique(pd.Index(names).get_indexer(panel[column]), return_inverse=True)[1].astype(np.int64)
        if codes.max() == len(genes) - 1:
            break  # one gene a group is the scale of the genes themselves
        if codes.max() > labels[-1].max():
            labels.append(codes)
    return labels


def _table(path: Path) -> pd.DataFrame:
    """Read the file: group names indexed by gene."""
    try:
        table = pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", dtype=str, keep_default_na=False)
    except (OSError, ValueError) as e:  # pandas' own errors and a wrong encoding are ValueErrors
        why = f"it cannot be read ({' '.join(str(e).split())})"
        raise ConfigError(path, why, f"give a table of {COLUMNS}") from e
    table = pd.DataFrame({name: column.str.strip() for name, column in table.items()})
    if GENE not in table or table.shape[1] < 2:
        raise ConfigError(path, f"its columns are {', '.join(map(str, table))}", f"give {COLUMNS}")
    table = table.set_index(GENE)
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()][0]
        raise ConfigError(path, f"the gene {twice} stands in it twice", "give each gene one group a column")
    if (table == "").to_numpy().any():
        row, column = np.argwhere((table == "").to_numpy())[0]
        why = f"the gene {table.index[row]} has no group in column {table.columns[column]}"
        raise ConfigError(path, why, "name one, or leave the gene out")
    return table


def _check_nesting(table: pd.DataFrame, path: Path) -> None:
    """Make sure that each group lies inside one group of the column before."""
    for coarse, fine in zip(table.columns, table.columns[1:], strict=False):
        parents = table.groupby(fine, sort=False)[coarse].unique()
        for group, found in parents[parents.str.len() > 1].items():
            why = f"the group {group} of column {fine} lies in {found[0]} and in {found[1]} of column {coarse}"
            raise ConfigError(path, why, "order the columns coarse to fine, and give such groups names of their own")
