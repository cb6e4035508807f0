import numpy as np
import pytest
import torch

from genar.errors import ConfigError, ModelError
from genar.genes import hierarchy
from genar.genes.hierarchy import Blocks, Hierarchy


def blocks(n_genes: int, n_programmes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts of genes that follow a few programmes, shuffled, and each gene's programme."""
    rng = np.random.default_rng(seed)
    programme = rng.permutation(np.arange(n_genes) % n_programmes)
    activity = rng.gamma(1.0, 20.0, size=(300, n_programmes))
    return rng.poisson(activity[:, programme]), programme


@pytest.mark.parametrize(
    ("n_genes", "scales"),
    [(7, (1, 3, 7)), (20, (1, 4, 10, 20)), (200, (1, 4, 8, 40, 100, 200)), (541, (1, 6, 50, 541)), (5, (5,))],
)
def test_any_panel_gives_the_scales_asked_for(n_genes: int, scales: tuple[int, ...]) -> None:
    counts, _ = blocks(n_genes, 4)
    order, tree = hierarchy.kmeans(counts, scales, seed=0)
    assert sorted(order) == list(range(n_genes))
    assert tree.scales == scales
    for k in range(1, len(scales)):
        # every group lies inside the parent that the decoder reads from
        assert np.array_equal(tree.parents(k)[tree.groups[k]], tree.groups[k - 1])


def test_groups_are_the_genes_that_vary_together() -> None:
    counts, programme = blocks(60, 4)
    order, tree = hierarchy.kmeans(counts, (1, 4, 60), seed=0)
    for group in range(4):
        assert len(set(programme[order][tree.groups[1] == group])) == 1


def means(tree: Hierarchy, k: int, values: np.ndarray) -> np.ndarray:
    genes, groups = tree.members(k)
    return np.bincount(groups, values[genes]) / np.bincount(groups)


def test_members_are_a_groups_own_genes() -> None:
    tree = Hierarchy((np.array([0, 0, 0, 1, 1]), np.arange(5)))
    values = np.array([1.0, 2.0, 6.0, 10.0, 20.0])
    assert means(tree, 0, values).tolist() == [3.0, 15.0]
    assert means(tree, 1, values).tolist() == values.tolist()


@pytest.mark.parametrize("scales", [(1, 2, 4, 10, 20), (1, 3, 4, 7, 20), (3, 8, 11), (5,)])
def test_blocks_are_the_windows_of_an_adaptive_average_pool(scales: tuple[int, ...]) -> None:
    """Where a scale does not divide the panel, windows overlap."""
    tree = Blocks.of(scales)
    assert tree.scales == scales
    values = np.random.default_rng(0).random(scales[-1])
    for k, size in enumerate(scales):
        pooled = torch.nn.functional.adaptive_avg_pool1d(torch.from_numpy(values)[None], size)[0]
        np.testing.assert_allclose(means(tree, k, values), pooled, rtol=1e-12)


@pytest.mark.parametrize("scales", [(1, 4, 8, 40, 100, 200), (1, 3, 4, 7, 20)])
def test_a_blocks_parent_holds_its_start(scales: tuple[int, ...]) -> None:
    tree = Blocks.of(scales)
    for k, (s, t) in enumerate(zip(scales, scales[1:], strict=False), start=1):
        assert tree.parents(k).tolist() == [j * s // t for j in range(t)]


def test_columns_round_trip() -> None:
    counts, _ = blocks(20, 4)
    _, tree = hierarchy.kmeans(counts, (1, 4, 20), seed=0)
    again = Hierarchy.from_columns(tree.columns(), tree.scales)
    assert all(np.array_equal(a, b) for a, b in zip(tree.groups, again.groups, strict=True))
    with pytest.raises(ModelError, match="group_4"):
        Hierarchy.from_columns(tree.columns().drop(columns="group_4"), tree.scales)


@pytest.mark.parametrize("scales", [(1, 4, 19), (1, 4, 4, 20), (4, 1, 20), (0, 20)])
def test_scales_must_rise_to_the_panel(scales: tuple[int, ...]) -> None:
    counts, _ = blocks(20, 4)
    with pytest.raises(ConfigError, match="scales"):
        hierarchy.kmeans(counts, scales, seed=0)


@pytest.mark.parametrize(
    "groups",
    [
        (np.array([0, 1, 0, 1]), np.arange(4)),  # not contiguous
        (np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]), np.arange(4)),  # a group across a border
        (np.array([0, 0, 1, 1]),),  # genes are not the last scale
    ],
)
def test_groups_that_do_not_nest_are_refused(groups: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ValueError, match="group|scale"):
        Hierarchy(groups)


def test_constant_gene_is_no_trouble() -> None:
    counts, _ = blocks(20, 4)
    counts[:, 3] = 0
    _, tree = hierarchy.kmeans(counts, (1, 4, 20), seed=0)
    assert tree.scales == (1, 4, 20)


def test_genes_with_one_profile_are_split_all_the_same() -> None:
    counts = np.repeat(np.arange(30)[:, None], 12, axis=1)
    order, tree = hierarchy.kmeans(counts, (1, 3, 5, 12), seed=0)
    assert tree.scales == (1, 3, 5, 12)
    assert sorted(order) == list(range(12))
