"""Fusing convolutions and normalisations changes what a network computes by rounding alone."""

import copy

import pytest
import timm
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from genar.encoders.fuse import fuse


def with_statistics(network: nn.Module) -> nn.Module:
    """Give the normalisations something to do."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low in ((module.running_mean, -1), (module.running_var, 0.5), (module.weight, 0.5)):
                nn.init.uniform_(tensor, low, 1.5)
            nn.init.uniform_(module.bias, -1, 1)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("tf_efficientnet_lite0", 0),  # with padding as TensorFlow has it, and activations in the normalisations
        ("resnet18", 0),
        ("densenet121", 62),  # normalisations before convolutions stay
        ("mobilenetv3_small_050", 0),
        ("regnetx_002", 0),
    ],
)
@torch.no_grad()
def test_it_computes_the_same(name: str, left: int) -> None:
    network = with_statistics(timm.create_model(name, pretrained=False, num_classes=0))
    fused = copy.deepcopy(network)
    number = fuse(fused)
    found = sum(isinstance(m, nn.BatchNorm2d) for m in network.modules())
    assert sum(isinstance(m, nn.BatchNorm2d) for m in fused.modules()) == left == found - number
    assert number > 0
    tiles = torch.randn(2, 3, 64, 64)
    expected = network(tiles)
    assert expected.std() > 1e-3
    torch.testing.assert_close(fused(tiles), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


class Scaled(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._conv_forward(x, self.weight / self.weight.norm(), self.bias)


class Odd(nn.Module):
    """Convolutions that must be left as they are: used twice, derived, or with another reader."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.derived, self.read = nn.Conv2d(3, 3, 1), Scaled(3, 3, 1), nn.Conv2d(3, 3, 1)
        self.norms = nn.ModuleList(BatchNormAct2d(3) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norms[1](self.twice(self.norms[0](self.twice(x))))
        x = self.norms[2](self.derived(x))
        y = self.read(x)
        return self.norms[3](y) + y


class Branching(Odd):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x if x.sum() > 0 else -x)


@pytest.mark.parametrize("kind", [Odd, Branching])
@torch.no_grad()
def test_what_cannot_be_fused_stays(kind: type[Odd]) -> None:
    network = with_statistics(kind())
    before = copy.deepcopy(network)
    assert fuse(network) == 0
    tiles = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(network(tiles), before(tiles), rtol=0, atol=0)
