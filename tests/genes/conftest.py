from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys

MakeSection = Callable[..., AnnData]


@pytest.fixture(scope="session")
def make_section() -> MakeSection:
    """Make a section of counts [N, G] and gene names; without centres, spots lie in a row."""

    def make(counts: object, genes: object, *, name: str = "s", lattice: str = "st", xy: object = None) -> AnnData:
        section = AnnData(csr_matrix(np.asarray(counts, dtype=np.int32)), var=pd.DataFrame(index=list(genes)))
        section.obs[keys.LIBRARY_ID] = pd.Categorical([name] * section.n_obs)
        xy = np.column_stack([np.arange(section.n_obs) * 290.0, np.zeros(section.n_obs)]) if xy is None else xy
        section.obsm[keys.SPATIAL] = np.asarray(xy, dtype=np.float64)
        section.uns[keys.SPATIAL] = {name: {keys.METADATA: {keys.LATTICE: lattice}}}
        return section

    return make


@pytest.fixture(scope="session")
def real_sections(shared: Path, make_section: MakeSection) -> list[AnnData]:
    """Three neighbouring sections of her2st, which measure different genes."""
    sections = []
    for name in ("C2", "C3", "C4"):
        counts = pd.read_csv(shared / f"data/her2st/ST-cnts/{name}.tsv.gz", sep="\t", index_col=0)
        spots = pd.read_csv(shared / f"data/her2st/ST-spotfiles/{name}_selection.tsv", sep="\t")
        spots.index = [f"{x}x{y}" for x, y in zip(spots["x"], spots["y"], strict=True)]
        spots = spots[spots.index.isin(counts.index)]
        counts = counts.loc[spots.index]
        sections.append(make_section(counts, counts.columns, name=name, xy=spots[["pixel_x", "pixel_y"]]))
        sections[-1].obs[keys.ARRAY_ROW], sections[-1].obs[keys.ARRAY_COL] = (
            spots["y"].to_numpy(),
            spots["x"].to_numpy(),
        )
    return sections
