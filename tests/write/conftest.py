"""A small result of two sections, as genar predict and --concat make it."""

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys

GENES = ["ERBB2", "GNAS", "MUC1"]


def section_of(name: str, seed: int = 0, spots: int = 6) -> AnnData:
    """Six spots 20 px wide on a slide of 200 x 100 px, whose image is half as large."""
    random = np.random.default_rng(seed)
    counts = random.poisson([2, 30, 5], (spots, 3)).astype(np.int32)
    obs = pd.DataFrame(
        {
            keys.IN_TISSUE: 1,
            keys.ARRAY_ROW: np.arange(spots) // 3,
            keys.ARRAY_COL: np.arange(spots) % 3,
            keys.BLUR_UM: np.array([np.nan, *random.random(spots - 1)], dtype=np.float32),
            keys.IN_FOCUS: np.arange(spots) % 2 == 0,
            keys.LIBRARY_ID: pd.Categorical([name] * spots),
            keys.TOTAL_COUNTS: counts.sum(axis=1),
            keys.OOD: np.array([0, 50, 99, 100, 1, 2], dtype=np.float32),
        },
        index=[f"{i // 3}x{i % 3}" for i in range(spots)],
    )
    adata = AnnData(csr_matrix(counts), obs=obs, var=pd.DataFrame(index=GENES))
    adata.layers[keys.EXPECTED] = (counts + 0.25).astype(np.float32)
    xy = np.column_stack([30 + 60 * (np.arange(spots) % 3), 25 + 50 * (np.arange(spots) // 3)])
    adata.obsm[keys.SPATIAL] = xy.astype(np.float64)
    image = np.full((50, 100, 3), 230, dtype=np.uint8)
    for x, y in xy // 2:
        image[y - 2 : y + 2, x - 2 : x + 2] = 0  # dark where a spot's centre is
    known = {
        keys.SLIDE_NAME: f"{name}.svs", keys.SLIDE_WIDTH: 200, keys.SLIDE_HEIGHT: 100, keys.MPP: 0.5,
        keys.LATTICE: "st", keys.SPOT_UM: 10.0, keys.PITCH_UM: 30.0, keys.BOUNDS_X: 4.0, keys.BOUNDS_Y: 7.0,
    }  # fmt: skip
    factors = {keys.HIRES_SCALE: 0.5, keys.SPOT_DIAMETER: 20.0}
    entry = {keys.IMAGES: {keys.HIRES: image}, keys.SCALEFACTORS: factors, keys.METADATA: known}
    adata.uns[keys.SPATIAL] = {name: entry}
    adata.uns[keys.GENAR] = {"model": "m", "model_sha256": "0"}
    return adata


@pytest.fixture
def result() -> AnnData:
    return section_of("one")


@pytest.fixture
def cohort() -> AnnData:
    parts = [section_of("one"), section_of("two", 1)]
    for part in parts:
        part.obs_names = [f"{n}-{part.obs[keys.LIBRARY_ID].iloc[0]}" for n in part.obs_names]
    return ad.concat(parts, uns_merge="unique")
