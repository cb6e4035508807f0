from dataclasses import replace

import numpy as np
import pytest
import torch

from genar.estimate import moments
from genar.genes.hierarchy import Hierarchy
from genar.model import block_causal
from genar.model.block_causal import BlockCausal
from genar.model.condition import Spots
from genar.model.config import ModelConfig
from genar.model.cumulative import Cumulative
from genar.model.decoder import Choice, Decoder
from genar.model.decoding import Decoding

FORMS = {
    "default": {},  # gene_layers 1 of 2, gene_attention "coarser"
    "genes apart": {"gene_layers": 2},
    "late genes": {"gene_attention": "scale"},
    "whole": {"gene_layers": 2, "gene_attention": "scale"},
}
CUMULATIVE = {"decoder": "cumulative", "handed_on": "greedy"}


def probabilities(net: Decoder, spots: Spots, choice: Choice | None = None) -> torch.Tensor:
    return torch.cat(net.generate(spots, lambda p, _: p, choice), dim=1)


def some(spots: Spots, rows: slice) -> Spots:
    return Spots(**{name: given[rows] for name, given in vars(spots).items() if given is not None})


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request) -> dict[str, object]:
    return request.param


@pytest.mark.parametrize("settings", [*FORMS.values(), CUMULATIVE], ids=[*FORMS, "cumulative"])
def test_cached_generation_equals_the_full_pass(network, spots, tree, settings) -> None:
    net, batch = network(**settings), spots()
    free = net.generate(batch, lambda p, _: p, Choice("greedy"))
    values: list[torch.Tensor] = []
    with torch.no_grad():
        for k in range(3):  # hand on each scale's most probable token, recomputing everything each time
            padded = values + [torch.zeros(3, s).double() for s in tree.scales[len(values) : 3]]
            values.append(net(batch, padded)[k].argmax(-1).double())
        full = net(batch, values)[-1].softmax(-1)
    assert torch.allclose(torch.cat(free, 1), full, atol=1e-9)
    assert full.std(dim=1).max() > 1e-3  # genes differ, so the comparison says something


def test_float32_generation_equals_the_full_pass(network, spots, form) -> None:
    net, batch = network(**form).float(), spots()
    batch = Spots(**{name: given.float() for name, given in vars(batch).items() if given is not None})
    seen = []
    choose = net.choose
    net.choose = lambda out, choice, k: seen.append((out, value := choose(out, choice, k))) or value
    last = torch.cat(net.generate(batch, lambda p, _: p.log()), dim=1)
    with torch.no_grad():
        full = net(batch, [value for _, value in seen])
    for (out, _), again in zip(seen, full[:-1], strict=True):
        assert torch.allclose(out, again, atol=1e-5)
    assert torch.allclose(last, full[-1].log_softmax(-1), atol=1e-5)


def test_no_position_sees_a_finer_scale(network, spots, form) -> None:
    net, batch = network(**form), spots()
    values, _ = net.targets(torch.arange(21).view(3, 7))
    with torch.no_grad():
        before = net(batch, values[:-1])
        for k in (1, 2):  # a scale's values are the next scale's input
            after = net(batch, [v + 5.0 if i == k else v for i, v in enumerate(values[:-1])])
            assert all(torch.equal(a, b) for a, b in zip(before[: k + 1], after[: k + 1], strict=True))
            assert not torch.allclose(before[k + 1], after[k + 1], atol=1e-3)


def test_the_coarse_scales_reach_the_genes_through_attention(network, spots, form) -> None:
    net, batch = network(**form), spots()
    values, _ = net.targets(torch.arange(21).view(3, 7))
    with torch.no_grad():
        before, after = net(batch, values[:-1]), net(batch, [values[0] + 9.0, *values[1:3]])
    assert not torch.allclose(before[3], after[3], atol=1e-3)


def test_genes_apart_do_not_see_each_other(network, spots) -> None:
    for settings, independent in ((FORMS["genes apart"], True), (FORMS["whole"], False)):
        net, batch = network(**settings), spots()
        before = probabilities(net, batch)
        with torch.no_grad():
            net.gene.weight[6] += torch.randn(net.config.width)
        net.pool = lambda genes, k, pool=net.pool: pool(genes if k == 3 else torch.zeros_like(genes), k)
        reference = network(**settings)
        reference.pool = net.pool
        assert torch.allclose(probabilities(reference, batch)[:, :6], probabilities(net, batch)[:, :6]) is independent
        assert not torch.allclose(before[:, 6], probabilities(net, batch)[:, 6])


@pytest.mark.parametrize("settings", [*FORMS.values(), CUMULATIVE], ids=[*FORMS, "cumulative"])
def test_a_spot_does_not_depend_on_its_batch(network, spots, settings) -> None:
    net, batch = network(**settings), spots()
    assert torch.allclose(probabilities(net, batch)[1:2], probabilities(net, some(batch, slice(1, 2))), atol=1e-9)


def test_permuting_genes_with_their_groups_permutes_the_output(network, spots, tree, form) -> None:
    net, batch = network(**form), spots()
    order = np.array([5, 6, 2, 4, 3, 1, 0])  # groups stay together; their order and the order inside change
    regroup = [np.unique(np.cumsum(np.r_[0, np.diff(g[order]) != 0]), return_inverse=True)[1] for g in tree.groups]
    other = BlockCausal(net.config, Hierarchy(tuple(regroup)), feature_dim=5, max_count=30).double().eval()
    other.load_state_dict(net.state_dict() | {"gene.weight": net.gene.weight.detach()[order]})
    assert torch.allclose(probabilities(other, batch), probabilities(net, batch)[:, order], atol=1e-9)


@pytest.mark.parametrize("distribution", ["gaussian", "mse"])
def test_genes_in_chunks_give_the_same_loss_gradient_and_counts(
    network, spots, form, distribution, monkeypatch
) -> None:
    form = form | {"distribution": distribution, "continuous_reduction": "published"}
    counts = torch.arange(21).view(3, 7)
    found = []
    for size in (block_causal.CHUNK_BYTES, 1):
        monkeypatch.setattr(block_causal, "CHUNK_BYTES", size)
        net = network(**form)
        chunks = net.generate(spots(), lambda p, genes: (p, genes))
        loss = net.loss(spots(), counts)
        loss.backward()
        found.append((loss.detach(), torch.cat([p for p, _ in chunks], 1), [p.grad for p in net.parameters()]))
        assert [g for _, rows in chunks for g in range(7)[rows]] == list(range(7))
        assert len(chunks) == (1 if size > 1 else 7)
    assert torch.allclose(found[0][0], found[1][0])
    assert torch.allclose(found[0][1], found[1][1])
    assert all(torch.allclose(a, b) for a, b in zip(found[0][2], found[1][2], strict=True))


@pytest.mark.parametrize("settings", [*FORMS.values(), CUMULATIVE], ids=[*FORMS, "cumulative"])
def test_recomputed_activations_give_the_same_gradient(network, spots, settings) -> None:
    found = []
    for recompute in (False, True):
        net = network(**settings)
        net.recompute = recompute
        net.loss(spots(), torch.arange(21).view(3, 7)).backward()
        found.append([p.grad for p in net.parameters()])
    assert all(torch.allclose(a, b) for a, b in zip(*found, strict=True))


def test_group_means_are_over_the_groups_own_genes(network) -> None:
    means, _ = network().targets(torch.tensor([[1, 2, 3, 4, 5, 10, 99]]))
    assert torch.allclose(means[1], torch.tensor([[3.0, 20.0]]).double())  # 99 is clipped to the largest token, 30
    assert torch.allclose(means[2], torch.tensor([[1.5, 4.0, 10.0, 30.0]]).double())


def test_means_are_over_the_genes_that_were_measured(network) -> None:
    """Of the second spot's groups 2 and 3 nothing was measured: they hand on what their parent has."""
    counts = torch.tensor([[1, 2, 3, 4, 5, 10, 20], [7, 7, 1, 2, 9, 9, 9]])
    measured = torch.tensor([[1, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0, 0]]).bool()
    means, known = network().targets(counts, measured)
    assert torch.allclose(means[1], torch.tensor([[13 / 4, 15.0], [10 / 3, 10 / 3]]).double())
    assert torch.allclose(means[2], torch.tensor([[1.0, 4.0, 10.0, 20.0], [7.0, 1.5, 10 / 3, 10 / 3]]).double())
    assert known[1].tolist() == [[True, True], [True, False]]
    assert torch.equal(known[3], measured)


@pytest.mark.parametrize("settings", [*FORMS.values(), CUMULATIVE], ids=[*FORMS, "cumulative"])
@pytest.mark.parametrize("distribution", ["gaussian", "nb", "mse", "ordinal", "cross_entropy"])
def test_what_was_not_measured_does_not_count(network, spots, settings, distribution, monkeypatch) -> None:
    net, counts = network(**settings, distribution=distribution), torch.arange(21).view(3, 7)
    whole = net.loss(spots(), counts)
    assert torch.allclose(net.loss(spots(), counts, torch.ones(3, 7, dtype=torch.bool)), whole)
    measured = torch.ones(3, 7, dtype=torch.bool)
    measured[1, [1, 5, 6]] = False  # a gene of a group, and all the genes of another
    other = torch.where(measured, counts, 25)
    loss = net.loss(spots(), counts, measured)
    assert torch.allclose(net.loss(spots(), other, measured), loss)
    assert not torch.allclose(loss, whole)
    monkeypatch.setattr(block_causal, "CHUNK_BYTES", 1)
    assert torch.allclose(net.loss(spots(), counts, measured), loss)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("settings", [*FORMS.values(), CUMULATIVE], ids=[*FORMS, "cumulative"])
@pytest.mark.parametrize("scales", [1, 4])
def test_every_parameter_that_is_trained_has_a_gradient(network, spots, tree, settings, scales) -> None:
    """Else processes that train together wait for it."""
    if scales == 1:
        tree, settings = Hierarchy(tree.groups[-1:]), settings | {"gene_attention": "scale"}
        settings |= {} if settings.get("decoder") != "cumulative" else {"gene_attention": "coarser"}
    net = network(tree, **settings)
    net.loss(spots(), torch.arange(21).view(3, 7)).backward()
    assert [name for name, p in net.named_parameters() if p.requires_grad and p.grad is None] == []


def test_values_between_tokens_are_embedded_between_them(network) -> None:
    net = network()
    token = net.token.weight
    assert torch.allclose(
        net.embed_values(torch.tensor([2.25, 30.0]).double()),
        torch.stack([0.75 * token[2] + 0.25 * token[3], token[30]]),
    )


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"position": "published"}, "position"),
        ({"position": "relative_um"}, "position"),
        ({"neighbours": 4}, "neighbour_features"),
        ({"neighbours": 4}, "neighbour_offsets"),
        ({"library_size": True}, "log_library_size"),
    ],
)
def test_the_condition_holds_what_is_asked_and_nothing_else(network, spots, settings, what) -> None:
    batch = spots()
    other = replace(batch, **{what: getattr(batch, what) * 0.5})
    for net, moves in ((network(**{"position": "none"} | settings), True), (network(position="none"), False)):
        assert torch.allclose(probabilities(net, batch), probabilities(net, other), atol=1e-9) is not moves
    with pytest.raises(ValueError, match="input"):
        probabilities(network(**{"position": "none"} | settings), Spots(batch.features))


def test_neighbours_that_are_not_there_do_not_count(network, spots) -> None:
    net, batch = network(neighbours=4), spots()
    around = batch.neighbour_features.clone()
    around[:, 3] += 9.0  # its offset is NaN
    assert torch.equal(probabilities(net, batch), probabilities(net, replace(batch, neighbour_features=around)))
    alone = replace(batch, neighbour_offsets=torch.full_like(batch.neighbour_offsets, torch.nan))
    assert probabilities(net, alone).isfinite().all()


def test_paths_are_averaged_and_their_spread_counts(network, spots) -> None:
    """Many sampled paths approach the exact mixture over the coarse values of a small model."""
    tree = Hierarchy((np.zeros(3, int), np.arange(3)))
    net, batch = network(tree, max_count=4), spots(2)
    with torch.no_grad():
        first = net(batch, [torch.zeros(2, 1).double()])[0].softmax(-1)[:, 0]  # [2, 5]
        last = [net(batch, [torch.full((2, 1), float(c)).double()])[1].softmax(-1) for c in range(5)]
    mixture = sum(first[:, c, None, None] * last[c] for c in range(5))
    uniform = torch.rand(2, 4000, 1, generator=torch.Generator().manual_seed(0))
    drawn = probabilities(net, batch, Choice("sample", uniform))
    assert drawn.shape == (2, 3, 5)
    assert torch.allclose(drawn, mixture, atol=0.02)
    expected = probabilities(net, batch)
    assert not torch.allclose(drawn, expected, atol=0.02)
    assert moments(drawn)[1].mean() > 0


@pytest.mark.parametrize("settings", [{}, CUMULATIVE], ids=["block_causal", "cumulative"])
def test_a_sharp_draw_is_the_greedy_one(network, spots, settings) -> None:
    net, batch = network(**settings), spots()
    uniform = torch.rand(3, 2, 7, generator=torch.Generator().manual_seed(0))
    greedy = probabilities(net, batch, Choice("greedy"))
    assert torch.allclose(probabilities(net, batch, Choice("sample", uniform, Decoding(top_k=1))), greedy, atol=1e-9)
    assert not torch.allclose(probabilities(net, batch, Choice("sample", uniform)), greedy, atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        *FORMS.values(),
        CUMULATIVE,
        *({"distribution": name} for name in ("cross_entropy", "ordinal", "nb", "mse", "gaussian_nll")),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_training_learns_what_histology_tells(tree, settings) -> None:
    torch.manual_seed(0)
    config = ModelConfig(width=16, layers=2, heads=2, condition_width=16, histology_width=16, dropout=0, **settings)
    net = (Cumulative if config.decoder == "cumulative" else BlockCausal)(config, tree, feature_dim=5, max_count=30)
    features = torch.randn(64, 5)
    counts = torch.poisson(torch.exp(features @ torch.full((5, 7), 0.4) + torch.linspace(0, 1.5, 7)))
    batch = Spots(features)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(100):
        loss = net.loss(batch, counts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(p.grad is not None for p in net.parameters())
    predicted = torch.cat(net.eval().generate(batch, lambda p, _: moments(p)[0]), dim=1)
    by_gene = [np.corrcoef(predicted[:, g], counts.clamp(max=30)[:, g])[0, 1] for g in range(7)]
    assert np.mean(by_gene) > 0.5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"width": 16, "heads": 3}, "heads"),
        ({"layers": 2, "gene_layers": 3}, "gene_layers"),
        ({"decoder": "cumulative", "handed_on": "greedy", "gene_attention": "scale"}, "block_causal"),
        ({"decoder": "cumulative"}, "handed_on"),
        ({"scale_weights": [0.0, 0.0]}, "scale_weights"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, said) -> None:
    with pytest.raises(ValueError, match=said):
        ModelConfig.model_validate(settings)


def test_settings_that_do_not_fit_the_scales_are_refused(network) -> None:
    with pytest.raises(ValueError, match="scale_weights"):
        network(scale_weights=(1.0, 1.0))
    with pytest.raises(ValueError, match="coarser"):
        network(Hierarchy((np.arange(7),)))


def test_a_single_scale_decodes_without_coarser_ones(network, spots) -> None:
    net = network(Hierarchy((np.arange(7),)), gene_attention="scale")
    assert net.scales == (7,)
    loss = net.loss(spots(), torch.arange(21).view(3, 7))
    loss.backward()
    assert torch.allclose(probabilities(net, spots()), net(spots(), [])[0].softmax(-1))
