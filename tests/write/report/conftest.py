import numpy as np
import pandas as pd
import pytest
from anndata import AnnData

from genar import keys
from genar.slide.lattice import lattice
from genar.slide.section import bare, describe
from genar.write.anndata import result

EVIL = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
CARD = f"""---
licence: mit
---
# A model

| a | b |
|:--|---|
| 1 | <b>2</b> |

{EVIL} [bad](javascript:window.ran=3) [good](https://example.org) ![picture](https://example.org/x.png)
"""
SHAPE = (7, 6)  # rows, columns


def section(name: str = "s", *, evil: bool = False, predicted: bool = True) -> AnnData:
    """Forty-two spots 200 px apart at 0.5 µm/px, with the counts of twenty genes, of which one is constant."""
    random = np.random.default_rng(0)
    row, column = (a.ravel() for a in np.mgrid[: SHAPE[0], : SHAPE[1]])
    n, text = len(row), EVIL if evil else ""
    obs = pd.DataFrame({keys.IN_TISSUE: 1, keys.ARRAY_ROW: row, keys.ARRAY_COL: column, keys.TISSUE_FRACTION: 0.75},
                       index=[f"{r}x{c}{text}" for r, c in zip(row, column, strict=True)])  # fmt: skip
    spots = bare(np.column_stack([column, row]) * 200.0 + 300, obs)
    image = random.integers(150, 255, (400, 360, 3)).astype(np.uint8)
    describe(spots, lattice("visium"), name, images=(image, image[::4, ::4]), size=(1800, 2000), mpp=0.5,
             mpp_source=f"test{text}", slide_name=f"{name}.svs{text}")  # fmt: skip
    level = np.outer(1 + row + column, np.linspace(1, 60, 20)) * 1.0
    counts = random.poisson(level)
    counts[:, 3] = 7
    panel = pd.DataFrame({keys.HELDOUT_PCC: np.linspace(0, 0.9, 20), keys.RELIABLE: np.arange(20) > 9},
                         index=[f"GENE{k}" for k in range(19)] + [f"EVIL{text}"])  # fmt: skip
    layers = {keys.EXPECTED: level * 0.987, keys.STD: np.sqrt(level)} if predicted else {}
    said = {"model": f"m{text}", "warnings": [f"mind{text}"], keys.MODEL_CARD: CARD} if predicted else {}
    ood = np.linspace(0, 100, n).astype(np.float32)
    return result(spots, panel=panel, counts=counts, layers=layers, provenance=said, ood=ood if predicted else None)


@pytest.fixture
def adata() -> AnnData:
    return section()
