"""Ensembl ids and gene symbols, mapped onto each other by the sections that have both; no table is fetched.

Two passes over the sections, one in memory at a time: :func:`pairs` of each, then :func:`mapping` of all the pairs,
by which :func:`harmonise` renames each.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

import pandas as pd
from anndata import AnnData

from genar import keys

Identifiers = Literal["symbols", "ensembl", "mixed"]

ENSEMBL = re.compile(r"(ENS[A-Z]*G\d+)(?:\.\d+)?")  # a gene of any species, with or without its version
FEW = 0.05  # names of the other kind that do not make a section mixed: spike-ins, genes without a symbol


def ensembl_id(name: str) -> str | None:
    """Return a gene's Ensembl id without its version, or None where ``name`` is none."""
    found = ENSEMBL.fullmatch(name)
    return found[1] if found else None


def ensembl_names(section: AnnData) -> dict[str, str]:
    """Return the genes of a section that are named by Ensembl id: the name, and the id without its version."""
    found = {name: ensembl_id(name) for name in section.var_names}
    return {name: stable for name, stable in found.items() if stable is not None}


def identifiers(section: AnnData) -> Identifiers:
    """Tell whether a section's genes are named by symbol, by Ensembl id, or either way (more than 5 % each)."""
    share = len(ensembl_names(section)) / max(section.n_vars, 1)
    if share <= FEW:
        return "symbols"
    return "ensembl" if share >= 1 - FEW else "mixed"


def pairs(section: AnnData) -> Counter[tuple[str, str]]:
    """Return the pairs (Ensembl id without version, symbol) that a section knows.

    Parameters
    ----------
    section
        A measured section. Its pairs are those of ``var_names`` that are symbols and ``var["gene_ids"]``; none without
        that column.

    Returns
    -------
    Each pair, once, to be added to those of other sections.
    """
    if keys.GENE_IDS not in section.var:
        return Counter()
    ids = [ensembl_id(str(gene)) for gene in section.var[keys.GENE_IDS]]
    both = {
        (stable, symbol)
        for stable, symbol in zip(ids, section.var_names, strict=True)
        if stable is not None and ensembl_id(symbol) is None
    }
    return Counter(both)


def mapping(found: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """Choose each Ensembl id's symbol.

    Parameters
    ----------
    found
        Pairs (id, symbol), and the number of sections that each stands in.

    Returns
    -------
    The symbol of each id. Annotations of different years may disagree; then the symbol of most sections is taken, the
    first by alphabet of equals, so that the order of the sections does not matter.
    """
    best: dict[str, str] = {}
    for (stable, symbol), _ in sorted(found.items(), key=lambda pair: (-pair[1], pair[0])):
        best.setdefault(stable, symbol)
    return best


def match_rate(ids: Iterable[str], symbols: Mapping[str, str]) -> float | None:
    """Return the share of Ensembl ids (without version) whose symbol is known, or None if there are no ids."""
    known = [stable in symbols for stable in ids]
    return sum(known) / len(known) if known else None


def harmonise(section: AnnData, symbols: Mapping[str, str]) -> float | None:
    """Rename a section's genes from Ensembl ids to symbols, in place.

    Parameters
    ----------
    section
        A measured section. Afterwards ``var_names`` are unique, and ``var["gene_ids"]`` holds the Ensembl ids of the
        genes that were named by them.
    symbols
        The symbol of each Ensembl id, from :func:`mapping`.

    Returns
    -------
    Share of the genes named by Ensembl id whose symbol is known; None if there are none. The others keep their id, as
    does a gene whose symbol another one of the section has already.
    """
    ids = ensembl_names(section)
    names = renamed(section.var_names, symbols)
    if ids:
        before = section.var.get(keys.GENE_IDS, pd.Series("", index=section.var_names)).astype(str)
        section.var[keys.GENE_IDS] = [ids.get(n, old) for n, old in zip(section.var_names, before, strict=True)]
    section.var_names = names
    section.var_names_make_unique()
    return match_rate(ids.values(), symbols)


def renamed(names: pd.Index, symbols: Mapping[str, str]) -> pd.Index:
    """Return the names of a section's genes with Ensembl ids replaced by symbols.

    Of a symbol that another gene of the section has, already or by an id before, nothing is made: that id stays.
    """
    taken, found = set(names), []
    for name in names:
        symbol = symbols.get(ensembl_id(name) or "", name)
        found.append(name if symbol in taken else symbol)
        taken.add(found[-1])
    index: pd.Index = pd.Index(found, dtype=object)
    return index
