"""Which genes a page holds, and what it says of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from numpy.typing import NDArray

from genar import keys
from genar.errors import ConfigError
from genar.genes.choice import named
from genar.write.report.pack import pack_gene
from genar.write.report.section import Shown

PAGE_BYTES = 10_000_000
LAYERS = (keys.EXPECTED, keys.STD)
FACTS = (keys.HELDOUT_PCC, keys.HELDOUT_PCC_MIN, keys.TRAIN_MEAN)
Gene = dict[str, str | float | bool | None]


@dataclass(frozen=True)
class Genes:
    """The genes of a page.

    Parameters
    ----------
    genes
        A dictionary each, with all that the page knows of it.
    layers
        Layers that it has beside the counts.
    left_out
        How many genes had no room.
    first
        Place of the gene that is shown at first.
    """

    genes: list[Gene]
    layers: list[str]
    left_out: int
    first: int


def genes_of(section: Shown, wanted: Sequence[str] | None, room: int) -> Genes:
    """Pack genes until the page is full, those with the clearest pattern first.

    Parameters
    ----------
    section
        The section.
    wanted
        Genes that the page must hold, and no others; by default as many as it can.
    room
        Bytes that they may take.

    Raises
    ------
    DataError
        If one is not in the result.
    ConfigError
        If they have no room.
    """
    layers = [name for name in LAYERS if name in section.adata.layers]
    order = _order(section) if wanted is None else _places(section, wanted)
    values = [section.adata.layers[name] for name in layers]
    taken: dict[int, Gene] = {}
    for place in order:
        counts = section.counts[:, place].toarray().ravel().astype(np.uint32)
        facts = _facts(section, place) | {"data": pack_gene(counts, [_column(layer, place) for layer in values])}
        room -= len(htmlsafe_json_dumps(facts)) + 2  # a comma and a space
        if room < 0:
            break
        taken[int(place)] = facts
    if not taken or (wanted is not None and len(taken) < len(order)):
        why = f"the genes do not fit on a page of {PAGE_BYTES // 10**6} MB"
        raise ConfigError("--genes", why, "name fewer with --genes, or report on a part of the slide")
    kept = sorted(taken)
    left_out = 0 if wanted is not None else section.adata.n_vars - len(kept)
    return Genes([taken[place] for place in kept], layers, left_out, _first(section, kept))


def _order(section: Shown) -> NDArray[np.intp]:
    """Sort genes by Moran's I, those where it is undefined last."""
    return np.argsort(-np.nan_to_num(section.moran, nan=-2.0), kind="stable")


def _places(section: Shown, wanted: Sequence[str]) -> NDArray[np.intp]:
    """Look genes up."""
    places: NDArray[np.intp] = section.adata.var_names.get_indexer(named(section.adata, wanted))
    return places


def _first(section: Shown, kept: list[int]) -> int:
    """Return the gene to begin with: confirmed best on sections left out, else with the clearest pattern."""
    var, varies = section.adata.var, ~np.isnan(section.moran)
    pcc = var[keys.HELDOUT_PCC].to_numpy(float) if keys.HELDOUT_PCC in var else np.full(len(var), np.nan)
    score = np.where(varies, pcc, np.nan)[kept]
    if not np.isfinite(score).any():
        score = section.moran[kept]
    return int(np.nanargmax(score)) if np.isfinite(score).any() else 0


def _facts(section: Shown, place: int) -> Gene:
    """Say what is known of a gene."""
    row = section.adata.var.iloc[place]
    facts: Gene = {"name": str(section.adata.var_names[place]), "moran": number(section.moran[place])}
    facts |= {name: number(row[name]) for name in FACTS if name in row}
    if row.get(keys.GENE_IDS):
        facts[keys.GENE_IDS] = str(row[keys.GENE_IDS])
    if keys.RELIABLE in row:
        facts[keys.RELIABLE] = bool(row[keys.RELIABLE])
    return facts


def number(value: object) -> float | None:
    """Return a number as JSON has it."""
    found = float(value)  # type: ignore[arg-type]  # of whatever kind the table holds
    return round(found, 4) if np.isfinite(found) else None


def _column(layer: object, place: int) -> NDArray[np.float32]:
    column = layer[:, [place]]  # type: ignore[index]  # an array or a sparse matrix
    dense = column.toarray() if hasattr(column, "toarray") else column
    return np.asarray(dense, dtype=np.float32).ravel()
