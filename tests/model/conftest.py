from collections.abc import Callable

import numpy as np
import pytest
import torch

from genar.genes.hierarchy import Hierarchy
from genar.model.block_causal import BlockCausal
from genar.model.condition import Spots
from genar.model.config import ModelConfig
from genar.model.cumulative import Cumulative
from genar.model.decoder import Decoder

TREE = Hierarchy((np.zeros(7, int), np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1, 2, 3]), np.arange(7)))


@pytest.fixture
def tree() -> Hierarchy:
    """Seven genes in unequal groups, at scales 1, 2, 4 and 7."""
    return TREE


@pytest.fixture
def network() -> Callable[..., Decoder]:
    """Build a network whose every parameter matters: what starts at zero is given values too."""

    def build(tree: Hierarchy = TREE, max_count: int = 30, **settings: object) -> Decoder:
        torch.manual_seed(0)
        sizes = {"width": 16, "layers": 2, "heads": 2, "condition_width": 24, "histology_width": 24}
        config = ModelConfig.model_validate(sizes | {"position": "published"} | settings)
        decoder = BlockCausal if config.decoder == "block_causal" else Cumulative
        net = decoder(config, tree, feature_dim=5, max_count=max_count).eval()
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn_like(p) * 0.3)
        return net.double()

    return build


@pytest.fixture
def spots() -> Callable[[int], Spots]:
    """Make n spots with everything that a model may take."""

    def make(n: int = 3) -> Spots:
        g = torch.Generator().manual_seed(1)

        def random(*shape: int) -> torch.Tensor:
            return torch.rand(*shape, generator=g).double()

        offsets = random(n, 4, 2)
        offsets[:, 3] = torch.nan  # three neighbours found
        return Spots(random(n, 5) * 4 - 2, random(n, 2), random(n) + 7, random(n, 4, 5), offsets)

    return make
