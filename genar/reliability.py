"""Which genes a model predicts well enough to be believed, as sections left out say."""

import pandas as pd

from genar import keys

# a rule of thumb: what follows the measured gene visibly on average, and on no section not at all
MEAN_PCC = 0.4  # over the sections left out, at least
WORST_PCC = 0.2  # on the worst of them, at least
FEW = 0.5  # share of reliable genes below which it is said


def add(panel: pd.DataFrame, by_gene: pd.DataFrame) -> None:
    """Add ``heldout_pcc``, ``heldout_pcc_min`` and ``reliable`` to a panel; nothing if no section was left out.

    Parameters
    ----------
    panel
        The genes, indexed by symbol.
    by_gene
        Each gene's correlation on each section left out, [G, S]; NaN where the gene was not measured. Genes of the
        panel that it lacks have NaN, and are not reliable.
    """
    if by_gene.shape[1] == 0:
        return
    own = by_gene.reindex(panel.index)
    panel[keys.HELDOUT_PCC], panel[keys.HELDOUT_PCC_MIN] = own.mean(axis=1), own.min(axis=1)
    panel[keys.RELIABLE] = (panel[keys.HELDOUT_PCC] >= MEAN_PCC) & (panel[keys.HELDOUT_PCC_MIN] >= WORST_PCC)


def reliability_warning(panel: pd.DataFrame) -> str | None:
    """Return a sentence if few genes of a panel are reliable; None if most are, or the model was not judged."""
    if keys.RELIABLE not in panel or panel[keys.RELIABLE].mean() >= FEW:
        return None
    return (
        f"{panel[keys.RELIABLE].sum():,} of {len(panel):,} genes are reliable (correlation on sections left out of "
        f'{MEAN_PCC:g} or more, {WORST_PCC:g} on the worst): look at var["{keys.RELIABLE}"] before you believe a gene'
    )
