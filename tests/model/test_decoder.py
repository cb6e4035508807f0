import numpy as np
import pytest
import torch

from genar.genes.hierarchy import Hierarchy
from genar.model.config import ModelConfig
from genar.model.decoder import GenAR, Spots

TREE = Hierarchy((np.zeros(7, int), np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 1, 2, 3]), np.arange(7)))
CONFIG = ModelConfig(width=16, depth=2, heads=2, condition_width=24, position="published")


def network(tree: Hierarchy = TREE, config: ModelConfig = CONFIG) -> GenAR:
    """A network whose every parameter matters: what starts at zero is given values too."""
    torch.manual_seed(0)
    net = GenAR(config, tree, feature_dim=5, max_count=30).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return net.double()


def spots(n: int = 3) -> Spots:
    g = torch.Generator().manual_seed(1)
    return Spots(torch.randn(n, 5, generator=g).double(), torch.rand(n, 2, generator=g).double())


def test_cached_generation_equals_the_full_pass() -> None:
    net, batch = network(), spots()
    values: list[torch.Tensor] = []
    with torch.no_grad():
        for k in range(3):  # hand on each scale's expectation, recomputing everything each time
            padded = values + [torch.zeros(3, s).double() for s in TREE.scales[len(values) : 3]]
            values.append(net.expect(net(batch, padded)[k].softmax(-1)))
        full = net(batch, values)[-1].softmax(-1)
    assert torch.allclose(net.generate(batch), full, atol=1e-9)
    assert full.std(dim=1).max() > 1e-3  # genes differ, so the comparison says something


def test_no_position_sees_a_finer_scale() -> None:
    net, batch = network(), spots()
    values = net.group_means(torch.arange(21).view(3, 7))
    with torch.no_grad():
        before = net(batch, values[:-1])
        changed = [*values[:2], values[2] + 5.0]  # enters as input of the last scale alone
        after = net(batch, changed)
    assert all(torch.equal(a, b) for a, b in zip(before[:3], after[:3], strict=True))
    assert not torch.allclose(before[3], after[3], atol=1e-3)


def test_a_spot_does_not_depend_on_its_batch() -> None:
    net = network()
    alone = Spots(spots().features[:1], spots().position[:1])
    assert torch.allclose(net.generate(spots())[:1], net.generate(alone), atol=1e-9)


def test_group_means_are_over_the_groups_own_genes() -> None:
    means = network().group_means(torch.tensor([[1, 2, 3, 4, 5, 10, 99]]))
    assert torch.allclose(means[1], torch.tensor([[3.0, 20.0]]).double())  # 99 is clipped to the largest token, 30
    assert torch.allclose(means[2], torch.tensor([[1.5, 4.0, 10.0, 30.0]]).double())


def test_permuting_genes_with_their_groups_permutes_the_output() -> None:
    net, batch = network(), spots()
    order = np.array([5, 6, 2, 4, 3, 1, 0])  # groups stay together; their order and the order inside change
    regroup = [np.unique(np.cumsum(np.r_[0, np.diff(g[order]) != 0]), return_inverse=True)[1] for g in TREE.groups]
    other = GenAR(CONFIG, Hierarchy(tuple(regroup)), feature_dim=5, max_count=30).double().eval()
    state = net.state_dict() | {"gene.weight": net.gene.weight.detach()[order]}
    other.load_state_dict(state)
    assert torch.allclose(other.generate(batch), net.generate(batch)[:, order], atol=1e-9)


def test_values_between_tokens_are_embedded_between_them() -> None:
    net = network()
    token = net.token.weight
    assert torch.allclose(
        net.embed_values(torch.tensor([2.25, 30.0]).double()),
        torch.stack([0.75 * token[2] + 0.25 * token[3], token[30]]),
    )


@pytest.mark.parametrize(("position", "moves"), [("none", False), ("published", True)])
def test_position_counts_only_where_asked(position: str, moves: bool) -> None:
    net = network(config=CONFIG.model_copy(update={"position": position}))
    there = Spots(spots().features, 1 - spots().position)
    assert torch.allclose(net.generate(spots()), net.generate(there), atol=1e-9) is not moves


def test_training_learns_what_histology_tells() -> None:
    torch.manual_seed(0)
    net = GenAR(CONFIG.model_copy(update={"position": "none"}), TREE, feature_dim=5, max_count=30)
    features = torch.randn(64, 5)
    counts = torch.poisson(torch.exp(features @ torch.full((5, 7), 0.4) + torch.linspace(0, 1.5, 7)))
    batch = Spots(features, torch.zeros(64, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(200):
        loss = net.loss(batch, counts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    predicted = net.eval().expect(net.generate(batch))
    correlation = np.corrcoef(predicted.numpy().ravel(), counts.numpy().ravel())[0, 1]
    assert correlation > 0.7
    assert all(p.grad is not None for p in net.parameters())


def test_heads_must_divide_width() -> None:
    with pytest.raises(ValueError, match="heads"):
        ModelConfig(width=16, heads=3)
