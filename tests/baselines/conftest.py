"""Small sections whose counts follow their features."""

import numpy as np
import pandas as pd
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.data.spots import SpotTable

ENCODER = "e"
GENES = pd.Index([f"G{i}" for i in range(6)])
FEATURES = 20
SLOPES = np.random.default_rng(1).normal(size=(FEATURES, len(GENES))) * 0.25


def section(name: str, seed: int, spots: int = 60, genes: pd.Index = GENES, level: float = 2.0) -> AnnData:
    """Spots with Poisson counts whose log2 is linear in their features, of which the last never varies."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(spots, FEATURES)).astype(np.float32)
    features[:, -1] = 0.5
    counts = random.poisson(np.exp2(level + features @ SLOPES)).astype(np.int32)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical([name] * spots)}, index=[f"{name}{i}" for i in range(spots)])
    adata = AnnData(csr_matrix(counts), obs=obs, var=pd.DataFrame(index=GENES))[:, genes].copy()
    adata.obsm[keys.SPATIAL] = random.random((spots, 2)) * 100
    adata.obsm[keys.features(ENCODER)] = features
    adata.uns[keys.SPATIAL] = {name: {keys.METADATA: {keys.MPP: 1.0, keys.PITCH_UM: 200.0}}}
    return adata


def table(*sections: AnnData, genes: pd.Index | None = GENES) -> SpotTable:
    """Stack them."""
    return SpotTable.of(sections, genes, ENCODER)
