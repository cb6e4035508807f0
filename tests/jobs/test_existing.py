"""What a result that is there tells of itself."""

from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData

from genar import keys
from genar.jobs.existing import REQUEST, SLIDE_SHA256, SLIDE_STAMP, read
from genar.write.anndata import result, write_h5ad


@pytest.mark.parametrize(("ood", "unlike"), [([99.5, 0, 100, 99], 0.5), ([0, 0, 0, 0], 0.0), (None, None)])
def test_the_share_of_unlike_spots(tmp_path: Path, ood: list[float] | None, unlike: float | None) -> None:
    spots = AnnData(obs=pd.DataFrame({keys.LIBRARY_ID: "s"}, index=list("abcd")), obsm={keys.SPATIAL: np.zeros((4, 2))})
    spots.uns[keys.SPATIAL] = {"s": {}}
    made = result(
        spots,
        panel=pd.DataFrame(index=["A"]),
        counts=np.ones((4, 1), np.int64),
        layers={},
        provenance=dict.fromkeys((REQUEST, SLIDE_STAMP, SLIDE_SHA256), "x"),
        ood=None if ood is None else np.array(ood, np.float32),
    )
    write_h5ad(made, tmp_path / "a.h5ad")
    found = read(tmp_path / "a.h5ad")
    assert found is not None
    assert (found.spots, found.unlike) == (4, unlike)
    assert (keys.OOD in ad.read_h5ad(tmp_path / "a.h5ad").obs) == (ood is not None)
