"""Decoding: what is refused before it, where tiles' sizes meet, and what draws and the depth do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import torch
from anndata import AnnData

from genar import keys, ood, pp, reliability, tl
from genar.data.spots import SpotTable
from genar.errors import ConfigError, DataError
from genar.genes.hierarchy import Hierarchy
from genar.model.config import ModelConfig
from genar.model.decoding import Decoding
from genar.ood import Reference
from genar.slide.section import metadata
from genar.slide.tiles import TileDataset
from genar.store import Model, ModelInfo, build
from genar.write.anndata import write_h5ad

ENCODER = "efficientnet_lite0"


@pytest.fixture
def model() -> Model:
    """A model that takes tiles of 200 µm; its network is not under test."""
    info = ModelInfo(
        name="m", encoder=ENCODER, feature_dim=3, tile_um=200.0, lattice="st", spot_um=100.0, pitch_um=200.0,
        scales=(1, 2), max_count=5, network=ModelConfig(), genar_version="0", sections=("A",),
    )  # fmt: skip
    return Model(info, pd.DataFrame(index=["A", "B"]), torch.nn.Linear(1, 1))  # type: ignore[arg-type]


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Put zeros for features, and note the side of the tiles in µm."""
    noted: list[float] = []

    def encode(_: object, tiles: TileDataset, **options: object) -> np.ndarray:
        assert isinstance(options["device"], torch.device)
        noted.append(tiles.side * tiles.slide.mpp)
        return np.zeros((sum(map(len, tiles.chunks)), 3), np.float32)

    monkeypatch.setattr(pp, "encode", encode)
    return noted


@pytest.fixture
def slide(make_slide: Callable[..., Path], tissue_image: Callable[..., np.ndarray]) -> Path:
    return make_slide(tissue_image(), mpp=2.0)


def test_tiles_are_as_wide_as_the_spots_were_laid_with(slide: Path, sides: list[float]) -> None:
    spots = pp.spots(slide, "st", tile_um=200)
    pp.embed(spots)
    pp.embed(spots, tile_um=100, device="auto")
    assert metadata(spots)[keys.TILE_UM] == 100
    del metadata(spots)[keys.TILE_UM]
    pp.embed(spots)
    assert sides == pytest.approx([200, 100, pp.TILE_UM])
    assert metadata(spots)[keys.TILE_UM] == pp.TILE_UM
    with pytest.raises(ConfigError, match="tile_um: 20000 µm is out of range"):
        pp.embed(spots, tile_um=20_000)


@pytest.mark.usefixtures("sides")
def test_a_part_of_the_spots_has_a_record_of_its_own(slide: Path) -> None:
    spots = pp.spots(slide, "st")
    part = spots[:3]
    with pytest.warns(ad.ImplicitModificationWarning):
        pp.embed(part, tile_um=100)
    assert metadata(part)[keys.TILE_UM] == 100
    assert metadata(spots)[keys.TILE_UM] == pp.TILE_UM


@pytest.mark.usefixtures("sides")
def test_tiles_of_another_size_are_refused(slide: Path, model: Model) -> None:
    spots = pp.spots(slide, "st")
    pp.embed(spots, tile_um=154)
    said = r"the spots: their tiles are 154 µm wide, model m takes 200 µm; embed them again with tile_um=200"
    with pytest.raises(DataError, match=said):
        tl.predict(spots, model)
    pp.embed(spots, tile_um=200 * (1 + 1e-9))
    tl._check_features(spots, model)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": "median"}, "--estimator: 'median' is not known; give one of: mean, log_mean, mode, sample"),
        ({"seed": -1}, "--seed: -1 is out of range"),
        ({"seed": 2**63}, "--seed: 9223372036854775808 is out of range"),
        ({"device": "gpu"}, "--device: 'gpu' is not a device"),
    ],
)
def test_options_that_cannot_be(model: Model, options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as e:
        tl.predict(AnnData(), model, **options)  # type: ignore[arg-type]
    assert str(e.value).startswith(said)


SAMPLED = Decoding(rule="sample", n_samples=8)


@pytest.fixture
def small() -> Callable[..., Model]:
    """Make a model of six genes whose network is untrained, but moved from where it starts."""

    def make(**settings: object) -> Model:
        torch.manual_seed(0)
        sizes = {"width": 8, "layers": 1, "heads": 2, "condition_width": 8, "histology_width": 8}
        if settings.get("decoder") == "cumulative":
            settings["handed_on"] = "greedy"
        info = ModelInfo(
            name="small", encoder=ENCODER, feature_dim=3, tile_um=200.0, lattice="st", spot_um=100.0, pitch_um=200.0,
            scales=(1, 2, 6), max_count=30, network=ModelConfig.model_validate(sizes | settings),
            library_size=1000.0, genar_version="0", sections=("A",),
        )  # fmt: skip
        tree = Hierarchy((np.zeros(6, int), np.array([0, 0, 0, 0, 1, 1]), np.arange(6)))
        panel = tree.columns().set_index(pd.Index(list("PQRSTU")))
        network = build(info, panel)
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.randn_like(p) * 0.5)
        return Model(info, panel, network.eval())

    return make


@pytest.fixture
def section() -> AnnData:
    """Twenty spots with features."""
    random = np.random.default_rng(0)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical(["A"] * 20)}, index=[f"s{i}" for i in range(20)])
    adata = AnnData(np.zeros((20, 0), np.float32), obs=obs)
    adata.obsm[keys.SPATIAL] = random.random((20, 2)) * 1000
    adata.obsm[keys.features(ENCODER)] = random.normal(size=(20, 3)).astype(np.float32)
    geometry = {keys.MPP: 0.5, keys.LATTICE: "st", keys.SPOT_UM: 100.0, keys.PITCH_UM: 200.0, keys.TILE_UM: 200.0}
    adata.uns[keys.SPATIAL] = {"A": {keys.METADATA: geometry}}
    return adata


def counts(adata: AnnData) -> np.ndarray:
    return adata.X.toarray()


@pytest.mark.parametrize("decoder", ["block_causal", "cumulative"])
def test_several_paths_add_quantiles(small: Callable[..., Model], section: AnnData, decoder: str) -> None:
    model = small(decoder=decoder)
    once = tl.predict(section, model)
    assert set(once.layers) == {keys.EXPECTED, keys.STD}
    drawn = tl.predict(section, model, decoding=SAMPLED)
    assert set(drawn.layers) == {keys.EXPECTED, keys.STD, *keys.QUANTILES.values()}
    low, median, high = (drawn.layers[keys.QUANTILES[q]] for q in (0.05, 0.5, 0.95))
    assert (low <= median).all()
    assert (median <= high).all()
    assert (low < high).any()
    assert not np.allclose(drawn.layers[keys.EXPECTED], once.layers[keys.EXPECTED], atol=1e-3)
    said = drawn.uns[keys.GENAR]["decoding"]
    assert (said["rule"], said["n_samples"], said["seed"], said["estimator"]) == ("sample", 8, 0, "log_mean")


@pytest.mark.parametrize("estimator", ["log_mean", "sample"])
@pytest.mark.parametrize("decoder", ["block_causal", "cumulative"])
def test_draws_depend_on_the_seed_and_the_spot_alone(
    small: Callable[..., Model], section: AnnData, decoder: str, estimator: str
) -> None:
    options = {"decoding": SAMPLED, "estimator": estimator}
    a, b, other = (
        tl.predict(section, small(decoder=decoder), batch_size=n, seed=s, **options)  # type: ignore[arg-type]
        for n, s in ((1, 3), (7, 3), (7, 4))
    )
    assert np.array_equal(counts(a), counts(b))
    for layer in a.layers:
        np.testing.assert_allclose(a.layers[layer], b.layers[layer], rtol=1e-4)
    assert not np.allclose(other.layers[keys.EXPECTED], b.layers[keys.EXPECTED], atol=1e-3)


def test_a_drawn_count_is_drawn_from_what_is_narrowed(small: Callable[..., Model], section: AnnData) -> None:
    model = small()
    narrow = tl.predict(section, model, estimator="sample", decoding=Decoding(top_k=1))
    assert np.array_equal(counts(narrow), counts(tl.predict(section, model, estimator="mode")))
    assert not np.array_equal(counts(narrow), counts(tl.predict(section, model, estimator="sample")))


def test_a_depth_is_for_a_model_that_takes_it(small: Callable[..., Model], section: AnnData) -> None:
    with pytest.raises(ConfigError, match="--depth: model small is not conditioned on the sequencing depth"):
        tl.predict(section, small(), depth=2000)
    for depth in (0.5, -1.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="--depth: .* is out of range"):
            tl.predict(section, small(library_size=True), depth=depth)


def test_the_depth_moves_the_counts_and_is_recorded(small: Callable[..., Model], section: AnnData) -> None:
    model = small(library_size=True)
    default, same, deeper = (tl.predict(section, model, depth=d) for d in (None, 1000, 20_000))
    assert [p.uns[keys.GENAR]["depth"] for p in (default, same, deeper)] == [1000, 1000, 20_000]
    assert np.array_equal(counts(default), counts(same))
    assert not np.allclose(default.layers[keys.EXPECTED], deeper.layers[keys.EXPECTED], atol=1e-2)


def test_a_model_that_is_told_no_depth_records_none(
    small: Callable[..., Model], section: AnnData, tmp_path: Path
) -> None:
    predicted = tl.predict(section, small(), decoding=SAMPLED)
    assert "depth" not in predicted.uns[keys.GENAR]
    write_h5ad(predicted, tmp_path / "a.h5ad")
    again = ad.read_h5ad(tmp_path / "a.h5ad")
    assert again.uns[keys.GENAR]["decoding"]["n_samples"] == 8


def test_the_rule_that_was_used_is_recorded(small: Callable[..., Model], section: AnnData) -> None:
    said = tl.predict(section, small()).uns[keys.GENAR]["decoding"]
    assert said == {"estimator": "log_mean", "seed": 0, "rule": "expected"}
    assert tl.predict(section, small(decoder="cumulative")).uns[keys.GENAR]["decoding"]["rule"] == "greedy"


def test_how_to_draw_is_refused_where_nothing_is_drawn(small: Callable[..., Model], section: AnnData) -> None:
    with pytest.raises(ConfigError, match="nothing is drawn"):
        tl.predict(section, small(), decoding=Decoding(top_k=3))
    with pytest.raises(ConfigError, match="predicts values"):
        tl.predict(section, small(distribution="gaussian_nll"), decoding=SAMPLED)


def test_features_that_are_not_numbers_are_refused(small: Callable[..., Model], section: AnnData) -> None:
    model = small()
    section.obsm[keys.features(model.info.encoder)][2, 1] = np.nan
    with pytest.raises(DataError, match="not finite"):
        tl.predict(section, model)


def known(section: AnnData) -> Reference:
    """The section's own tissue, its spots taken in two halves."""
    halves = [section[i::2].copy() for i in range(2)]
    found = ood.fit(SpotTable.of(halves, None, ENCODER, depth=1.0), np.zeros((section.n_obs, 2)))
    assert found is not None
    return found


def test_spots_say_how_unlike_the_training_tissue_they_are(
    small: Callable[..., Model], section: AnnData, tmp_path: Path
) -> None:
    model = replace(small(), reference=known(section))
    alike = tl.predict(section, model, batch_size=7)
    assert alike.obs[keys.OOD].dtype == np.float32
    np.testing.assert_array_equal(
        alike.obs[keys.OOD],
        model.reference.percentile(section.obsm[keys.features(ENCODER)]),  # type: ignore[union-attr]
    )
    assert not any("unlike" in text for text in alike.uns[keys.GENAR]["warnings"])
    distances = replace(model.reference, quantiles=np.zeros(101, np.float32))  # type: ignore[type-var]
    far = tl.predict(section, replace(model, reference=distances))
    said = "100 % of spots look unlike the tissue that small was trained on (ood > 99): do not rely on their counts"
    assert said in list(far.uns[keys.GENAR]["warnings"])
    write_h5ad(far, tmp_path / "a.h5ad")
    again = ad.read_h5ad(tmp_path / "a.h5ad")
    assert (again.obs[keys.OOD].dtype, again.obs[keys.OOD].unique().tolist()) == (np.float32, [100])
    assert said in list(again.uns[keys.GENAR]["warnings"])


def test_a_model_without_a_reference_says_nothing_of_it(small: Callable[..., Model], section: AnnData) -> None:
    section.obs[keys.OOD] = 3.0  # of another model
    predicted = tl.predict(section, small())
    assert keys.OOD not in predicted.obs
    assert not {keys.RELIABLE, keys.HELDOUT_PCC_MIN} & set(predicted.var)
    assert list(predicted.uns[keys.GENAR]["warnings"]) == []


@pytest.mark.parametrize(("pcc", "said"), [([0.7] * 3 + [0.1] * 3, None), ([0.7] * 2 + [0.1] * 4, "2 of 6 genes are")])
def test_the_result_says_which_genes_are_reliable(
    small: Callable[..., Model], section: AnnData, tmp_path: Path, pcc: list[float], said: str | None
) -> None:
    model = small()
    reliability.add(model.panel, pd.DataFrame({"s": pcc, "t": 0.5}, index=model.panel.index))
    predicted = tl.predict(section, model)
    write_h5ad(predicted, tmp_path / "a.h5ad")
    for one in (predicted, ad.read_h5ad(tmp_path / "a.h5ad")):
        assert one.var[keys.RELIABLE].dtype == bool
        assert one.var[keys.RELIABLE].tolist() == [value > 0.5 for value in pcc]
        np.testing.assert_allclose(one.var[keys.HELDOUT_PCC_MIN], np.minimum(pcc, 0.5))
        warnings = list(one.uns[keys.GENAR]["warnings"])
        assert [text[: len(said or "")] for text in warnings] == ([] if said is None else [said])


def test_sections_are_predicted_one_by_one(small: Callable[..., Model], section: AnnData) -> None:
    section.obs[keys.LIBRARY_ID] = pd.Categorical(["a"] + ["b"] * (section.n_obs - 1))
    section.uns[keys.SPATIAL] = dict.fromkeys("ab", next(iter(section.uns[keys.SPATIAL].values())))
    with pytest.raises(DataError, match="several sections"):
        tl.predict(section, small())


def test_spots_of_no_slide_are_refused(small: Callable[..., Model]) -> None:
    bare = AnnData(obs=pd.DataFrame(index=["a", "b"]), obsm={keys.features(ENCODER): np.ones((2, 3), np.float32)})
    with pytest.raises(DataError, match=r"which slide they are on .*genar\.pp\.spots"):
        tl.predict(bare, small())
