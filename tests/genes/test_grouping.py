import numpy as np
import pandas as pd
import pytest
from anndata import AnnData, concat
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics.pairwise import euclidean_distances

from genar.errors import ConfigError
from genar.genes import clusters, grouping, panel
from genar.genes.hierarchy import Blocks, Hierarchy

NESTED = ["kmeans", "ward", "random"]


def programmes(n_genes: int, n_programmes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts of genes that follow a few programmes, shuffled, and each gene's programme."""
    rng = np.random.default_rng(seed)
    programme = rng.permutation(np.arange(n_genes) % n_programmes)
    activity = rng.gamma(1.0, 20.0, size=(300, n_programmes))
    return rng.poisson(activity[:, programme]).astype(float), programme


def build(
    counts: np.ndarray, method: grouping.Method, scales: tuple[int, ...] | None = None, seed: int = 0
) -> tuple[np.ndarray, Hierarchy]:
    genes = pd.Index([f"g{i}" for i in range(counts.shape[1])])
    order, tree = grouping.build(counts, genes, method, scales, seed)
    assert sorted(order) == list(range(len(genes)))
    return order, tree


@pytest.fixture(scope="module")
def real_counts(real_sections: list[AnnData]) -> np.ndarray:
    """The 200 genes of highest mean over three sections of her2st, float [N, 200]."""
    genes = panel.choose([(panel.score(s, "top_mean"), s.n_obs) for s in real_sections], 200, "top_mean")
    return concat([s[:, genes] for s in real_sections], index_unique="-").X.toarray().astype(float)


def z_scores(counts: np.ndarray) -> np.ndarray:
    return ((counts - counts.mean(axis=0)) / counts.std(axis=0)).T


@pytest.mark.parametrize("method", NESTED)
@pytest.mark.parametrize(
    ("n_genes", "scales"),
    [(7, (1, 3, 7)), (20, (1, 4, 10, 20)), (200, (1, 4, 8, 40, 100, 200)), (541, (1, 6, 50, 541)), (5, (5,))],
)
def test_any_panel_gives_the_scales_asked_for(method: grouping.Method, n_genes: int, scales: tuple[int, ...]) -> None:
    counts, _ = programmes(n_genes, 4)
    _, tree = build(counts, method, scales)
    assert tree.scales == scales
    assert not isinstance(tree, Blocks)
    for k in range(1, len(scales)):
        # every group lies inside the parent that the decoder reads from
        assert np.array_equal(tree.parents(k)[tree.groups[k]], tree.groups[k - 1])


@pytest.mark.parametrize("method", ["kmeans", "ward"])
def test_groups_are_the_genes_that_vary_together(method: grouping.Method) -> None:
    counts, programme = programmes(60, 4)
    order, tree = build(counts, method, (1, 4, 60))
    for group in range(4):
        assert len(set(programme[order][tree.groups[1] == group])) == 1


def test_the_published_order_on_real_sections(real_counts: np.ndarray) -> None:
    """The two stages of the paper, written down from its text."""
    z = z_scores(real_counts)
    expected: list[int] = []
    first = KMeans(4, n_init=10, random_state=42).fit_predict(z)
    for cluster in range(4):
        genes = np.flatnonzero(first == cluster)
        if len(genes) > 10:
            parts = max(2, len(genes) // 12)
            second = KMeans(parts, n_init=10, random_state=42).fit_predict(z[genes])
            for part in range(parts):
                expected.extend(genes[second == part])
        else:
            expected.extend(genes)
    order, tree = build(real_counts, "published", seed=42)
    assert list(order) == expected
    assert isinstance(tree, Blocks)
    assert tree.scales == (1, 4, 8, 40, 100, 200)
    assert np.array_equal(tree.groups[3], np.arange(200) // 5)


def test_kmeans_on_real_sections(real_counts: np.ndarray) -> None:
    """The first split is k-means on the z-scores; with more spots than genes the axes are turned, to no effect."""
    assert len(real_counts) > 200
    order, tree = build(real_counts, "kmeans", (1, 4, 200), seed=1)
    direct = KMeans(4, n_init=10, random_state=1).fit_predict(z_scores(real_counts))
    assert np.array_equal(direct[order], tree.groups[1])


def test_ward_on_real_sections(real_counts: np.ndarray) -> None:
    order, tree = build(real_counts, "ward")
    for k in range(1, 5):
        direct = AgglomerativeClustering(tree.scales[k], linkage="ward").fit_predict(z_scores(real_counts))
        pairs = set(zip(direct[order], tree.groups[k], strict=True))
        assert len(pairs) == tree.scales[k]  # the same groups, by other names


def test_random_is_a_control() -> None:
    counts, programme = programmes(103, 4)
    order, tree = build(counts, "random", (1, 4, 8, 51, 103), seed=3)
    for groups in tree.groups[:-1]:
        sizes = np.bincount(groups)
        assert sizes.max() - sizes.min() <= 1 + (len(sizes) > 8)
    assert [len(set(programme[order][tree.groups[1] == g])) for g in range(4)] == [4] * 4
    assert np.corrcoef(order, np.arange(103))[0, 1] < 0.5
    assert np.array_equal(order, build(counts, "random", (1, 4, 8, 51, 103), seed=3)[0])
    assert not np.array_equal(order, build(counts, "random", (1, 4, 8, 51, 103), seed=4)[0])


@pytest.mark.parametrize("method", ["kmeans", "published", "ward"])
def test_where_a_section_lacks_a_gene(method: grouping.Method) -> None:
    counts, programme = programmes(40, 2)
    scales = (1, 2, 40) if method != "published" else None
    counts[:150, 7] = np.nan  # its other half says enough
    order, tree = build(counts, method, scales)
    if method != "published":
        for group in range(2):
            assert len(set(programme[order][tree.groups[1] == group])) == 1
    counts[:, 7] = np.nan  # nowhere measured: as a constant gene
    constant = np.where(np.isnan(counts), 5.0, counts)
    assert np.array_equal(build(counts, method, scales)[0], build(constant, method, scales)[0])


@pytest.mark.parametrize("n_spots", [30, 300])
def test_distances_are_those_of_z_scores_where_measured(n_spots: int) -> None:
    counts = programmes(40, 4)[0][:n_spots]
    counts[:20, 7] = np.nan
    z = np.zeros((40, n_spots))
    for gene in range(40):
        known = np.isfinite(counts[:, gene])
        values = counts[known, gene]
        z[gene, known] = (values - values.mean()) / values.std()
    found = clusters.profiles(counts)
    assert found.shape == (40, min(n_spots, 40))
    np.testing.assert_allclose(euclidean_distances(found), euclidean_distances(z), atol=1e-6)


@pytest.mark.parametrize("method", ["kmeans", "published", "ward"])
def test_genes_without_a_profile_of_their_own(method: grouping.Method) -> None:
    counts, _ = programmes(20, 4)
    counts[:, 3] = 0
    assert build(counts, method, (1, 4, 20))[1].scales == (1, 4, 20)
    same = np.repeat(np.arange(30.0)[:, None], 12, axis=1)
    assert build(same, method, (1, 3, 5, 12))[1].scales == (1, 3, 5, 12)


@pytest.mark.parametrize("n_genes", [2, 3, 4, 11])
@pytest.mark.parametrize("method", ["kmeans", "published", "ward", "random"])
def test_few_genes(method: grouping.Method, n_genes: int) -> None:
    counts, _ = programmes(n_genes, 2)
    assert build(counts, method)[1].scales == grouping.auto_scales(n_genes)


@pytest.mark.parametrize("method", [*NESTED, "published"])
@pytest.mark.parametrize("scales", [(1, 4, 19), (1, 4, 4, 20), (4, 1, 20), (0, 20), ()])
def test_scales_must_rise_to_the_panel(scales: tuple[int, ...], method: grouping.Method) -> None:
    counts, _ = programmes(20, 4)
    with pytest.raises(ConfigError, match=r"hierarchy\.scales: .* does not rise to the panel's 20 genes; .*1, 4, 10"):
        build(counts, method, scales)


def test_scales_of_a_panel() -> None:
    assert grouping.auto_scales(200) == (1, 4, 8, 40, 100, 200)  # the paper's
    assert grouping.auto_scales(2) == (1, 2)
    assert grouping.auto_scales(20) == (1, 4, 10, 20)
    assert grouping.auto_scales(541) == (1, 4, 8, 40, 108, 270, 541)
    assert grouping.auto_scales(20_000) == (1, 4, 8, 40, 200, 1000, 4000, 10_000, 20_000)
    for n_genes in (*range(2, 300), *range(300, 20_001, 97)):
        scales = grouping.auto_scales(n_genes)
        assert (scales[0], scales[-1]) == (1, n_genes)
        steps = np.array(scales[1:]) / scales[:-1]
        assert steps.min() >= 2 or n_genes == 3
        assert steps.max() <= 10
