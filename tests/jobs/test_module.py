"""What a training step gives the network."""

from pathlib import Path

import numpy as np
import pytest
import torch

from genar.cli.config import load
from genar.errors import ConfigError
from genar.jobs.config import OptimizerConfig, TrainConfig, TrainerConfig
from genar.jobs.module import GenARModule
from genar.model.condition import Spots

CONFIG = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"


class Network(torch.nn.Module):
    """Notes what it is given."""

    scales = (1, 4)

    def loss(self, spots: Spots, counts: torch.Tensor, measured: torch.Tensor | None, free: float) -> torch.Tensor:
        assert free == 0
        self.given = spots, counts
        return torch.zeros(())


def step(monkeypatch: pytest.MonkeyPatch, thin_to: float, counts: torch.Tensor) -> tuple[Spots, torch.Tensor]:
    torch.manual_seed(0)
    network = Network()
    module = GenARModule(network, OptimizerConfig(), TrainerConfig(thin_to=thin_to))  # type: ignore[arg-type]
    monkeypatch.setattr(module, "log", lambda *_, **__: None)
    batch = {"features": torch.ones(len(counts), 2), "log_library_size": torch.full((len(counts),), 8.0)}
    module.training_step(batch | {"counts": counts}, 0)
    return network.given


def test_without_thinning_the_counts_are_those_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = torch.randint(0, 99, (5, 7))
    spots, given = step(monkeypatch, 1.0, counts)
    assert torch.equal(given, counts)
    assert spots.log_library_size.tolist() == [8.0] * 5


def test_thinning_lowers_counts_and_depth_by_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = torch.tensor([0, 1, 40, 1000]).repeat(4000, 1)
    spots, given = step(monkeypatch, 0.2, counts)
    share = (spots.log_library_size - 8.0).exp()
    assert torch.equal(given, given.round())
    assert (given <= counts).all()
    assert 0.2 <= share.min() < 0.21
    assert 0.99 < share.max() <= 1.0
    assert share.log().mean() == pytest.approx(np.log(0.2) / 2, rel=0.03)  # log-uniform
    z = (given - share[:, None] * counts)[:, 1:] / (counts[:, 1:] * (share * (1 - share))[:, None]).sqrt()
    assert z.mean(dim=0).abs().max() < 0.06  # as a binomial has it
    assert z.std(dim=0).sub(1).abs().max() < 0.06


def test_thinning_needs_a_model_that_is_told_the_depth() -> None:
    given = {"data.root": "data", "output": "run", "trainer.thin_to": 0.5}
    assert load(CONFIG, TrainConfig, given | {"model.library_size": True}).trainer.thin_to == 0.5
    with pytest.raises(ConfigError, match=r"trainer\.thin_to below 1 needs model\.library_size: true"):
        load(CONFIG, TrainConfig, given)
    for share in (0.0, 1.5):
        with pytest.raises(ConfigError, match=r"trainer\.thin_to"):
            load(CONFIG, TrainConfig, given | {"trainer.thin_to": share, "model.library_size": True})
