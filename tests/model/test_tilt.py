"""The linear path, and training on what the network hands on itself."""

import numpy as np
import pytest
import torch

from genar.genes.hierarchy import Hierarchy
from genar.model.block_causal import BlockCausal
from genar.model.config import ModelConfig
from genar.model.decoder import Choice, Decoder
from genar.model.tilt import Tilt, phi, tilted


@pytest.fixture
def linear(network) -> Decoder:
    """A network with a linear path in which no two positions are alike."""
    net = network(linear=True, distribution="cross_entropy")
    random = torch.Generator().manual_seed(2)
    for name in ("weight", "bias", "offset", "slope", "width"):
        buffer = net.tilt.get_buffer(name)
        buffer.copy_(torch.rand(buffer.shape, generator=random))
    return net


def test_it_is_a_gaussian_of_the_log_count_cut_off_at_zero() -> None:
    grid = phi(torch.arange(200.0))
    mean, variance = torch.tensor([[2.5]]), torch.tensor([0.3])
    p = tilted(mean, torch.zeros(1), 1 / variance, 0.5 / variance, grid).softmax(-1)[0, 0]
    count = np.arange(200)
    density = np.exp(-((np.log2(count + 1) - 2.5) ** 2) / 0.6) / (count + 1)
    np.testing.assert_allclose(p, density / density.sum(), atol=1e-6)
    assert float(p @ grid) == pytest.approx(2.5, abs=0.02)


def test_an_untrained_decoder_adds_nothing(spots, tree: Hierarchy) -> None:
    config = ModelConfig(linear=True, distribution="ordinal", width=16, layers=2, heads=2, condition_width=24)
    torch.manual_seed(0)
    net = BlockCausal(config, tree, feature_dim=5, max_count=30).double().eval()
    net.tilt.weight.normal_()
    net.tilt.slope.fill_(1.0)
    batch = spots()
    outputs = torch.cat(net(batch, [torch.rand(3, s).double() for s in tree.scales[:-1]]), dim=1)
    x = net.condition.standard(batch.features)
    assert torch.allclose(outputs, net.tilt.logits(x @ net.tilt.weight, slice(0, sum(tree.scales))))
    assert not torch.allclose(outputs[:, 0], outputs[:, 1])


def test_each_position_has_its_own_path_in_training_and_in_prediction(linear, spots, tree: Hierarchy) -> None:
    batch = spots()
    without = linear(batch, [torch.ones(3, s).double() for s in tree.scales[:-1]])
    tilt, linear.tilt = linear.tilt, None
    plain = linear(batch, [torch.ones(3, s).double() for s in tree.scales[:-1]])
    linear.tilt = tilt
    added = torch.cat(without, dim=1) - torch.cat(plain, dim=1)
    expected = tilt.logits(tilt.means(linear.condition.standard(batch.features)), slice(0, sum(tree.scales)))
    assert torch.allclose(added, expected)


@pytest.mark.parametrize("settings", [{}, {"gene_attention": "scale"}, {"gene_layers": 1}])
def test_generation_equals_the_full_pass(network, spots, tree: Hierarchy, settings) -> None:
    net, batch = network(linear=True, distribution="cross_entropy", **settings), spots()
    net.tilt.weight.normal_(generator=torch.Generator().manual_seed(3))
    net.tilt.slope.fill_(0.7)
    _, _, values = net._run(batch, Choice("expected"))
    full = net(batch, values)
    for value, out in zip(values, full, strict=False):
        assert torch.allclose(value, net.distribution.expected(out))
    (generated,) = net.generate(batch, lambda p, _: p)
    assert torch.allclose(generated, net.distribution.probabilities(full[-1]))
    paths = torch.rand(3, 4, sum(tree.scales[:-1]), generator=torch.Generator().manual_seed(0))
    (drawn,) = net.generate(batch, lambda p, _: p, Choice("sample", paths))
    assert drawn.shape == generated.shape
    assert not torch.allclose(drawn, generated)


def test_free_running_trains_on_what_is_handed_on(linear, spots) -> None:
    batch, counts = spots(), torch.randint(0, 20, (3, 7), generator=torch.Generator().manual_seed(4))
    forced, free = (linear.loss(batch, counts, free_running=share).detach() for share in (0.0, 1.0))
    _, _, handed = linear._run(batch, Choice("expected"))
    values, _ = linear.targets(counts)
    out = linear(batch, handed)
    parts = [
        linear.distribution.loss(o, v, last=k == 3).sum(dim=1).mean()
        for k, (o, v) in enumerate(zip(out, values, strict=True))
    ]
    assert float(free) == pytest.approx(float(torch.stack(parts).mean().detach()))
    assert float(forced) != pytest.approx(float(free), rel=1e-3)
    torch.manual_seed(0)
    some = linear.loss(batch, counts, free_running=0.5)
    assert float(some.detach()) not in (float(forced), float(free))


def test_it_is_saved_and_nothing_of_it_is_trained(linear) -> None:
    assert {"tilt.weight", "tilt.bias", "tilt.offset", "tilt.slope", "tilt.width"} <= set(linear.state_dict())
    assert not [name for name, _ in linear.named_parameters() if name.startswith("tilt")]
    assert Tilt(5, 14, 30).weight.shape == linear.tilt.weight.shape


@pytest.mark.parametrize(
    "settings",
    [{"distribution": "nb"}, {"distribution": "mse"}, {"decoder": "cumulative", "handed_on": "greedy"}],
)
def test_it_needs_count_tokens(settings) -> None:
    with pytest.raises(ValueError, match="linear belongs to the block_causal decoder"):
        ModelConfig(linear=True, **settings)
