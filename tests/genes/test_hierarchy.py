import numpy as np
import pytest
import torch

from genar.errors import ModelError
from genar.genes.hierarchy import Blocks, Hierarchy


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
    tree = Hierarchy((np.zeros(20, dtype=int), np.repeat([0, 1, 2, 3], [9, 1, 4, 6]), np.arange(20)))
    again = Hierarchy.from_columns(tree.columns(), tree.scales)
    assert all(np.array_equal(a, b) for a, b in zip(tree.groups, again.groups, strict=True))
    with pytest.raises(ModelError, match="group_4"):
        Hierarchy.from_columns(tree.columns().drop(columns="group_4"), tree.scales)


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
