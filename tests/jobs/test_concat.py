"""A cohort in one AnnData: equal to its parts, drawn by squidpy, and put together in bounded memory."""

from collections.abc import Callable
from pathlib import Path

import anndata as ad
import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.errors import ConfigError, DataError, OutputError
from genar.jobs import concat as job
from genar.jobs.concat import check_names, concat
from genar.jobs.memory import forget_peak, peak_gb
from genar.jobs.slides import Task
from genar.slide.lattice import lattice
from genar.slide.section import describe
from genar.write.anndata import result, write_h5ad

GENES = ["B", "A", "C"]
Make = Callable[..., Path]


def section(name: str, spots: int, seed: int, genes: list[str] = GENES, image_px: int = 60) -> AnnData:
    random = np.random.default_rng(seed)
    laid = AnnData(
        csr_matrix((spots, 0), dtype=np.int32),
        obs=pd.DataFrame({keys.ARRAY_ROW: np.arange(spots)}, index=[f"{i}x0" for i in range(spots)]),
    )
    laid.obsm[keys.SPATIAL] = random.random((spots, 2)) * 900
    images = tuple(random.integers(0, 255, (side, side, 3), dtype=np.uint8) for side in (image_px, image_px // 2))
    describe(
        laid, lattice("visium", None), name, images=images, size=(1000, 1000), mpp=0.5, mpp_source="", slide_name=name
    )
    laid.obs["stain"] = f"stain of {name}"
    counts = random.poisson(1, (spots, len(genes)))
    panel = pd.DataFrame({keys.HELDOUT_PCC: np.linspace(0, 1, len(genes))}, index=genes)
    layers = {key: (counts + random.random(counts.shape)).astype(np.float32) for key in (keys.EXPECTED, keys.STD)}
    said = {"model": "m", "slide_sha256": name, "warnings": [f"of {name}"]}
    return result(laid, panel=panel, counts=counts, layers=layers, provenance=said)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(name: str, spots: int = 5, seed: int = 0, library: str | None = None, **options: object) -> Path:
        path = tmp_path / f"{name}.h5ad"
        write_h5ad(section(library or name, spots, seed, **options), path)  # type: ignore[arg-type]
        return path

    return make


def test_it_equals_its_parts(make: Make, tmp_path: Path) -> None:
    tables = [make("s2", 7, 1), make("s1", 70_000, 2), make("s3", 1, 3)]
    concat(tables, tmp_path / "cohort.h5ad")
    whole = ad.read_h5ad(tmp_path / "cohort.h5ad")
    parts = [ad.read_h5ad(table) for table in tables]
    expected = ad.concat(parts, merge="same", keys=["s2", "s1", "s3"], index_unique="-")
    assert whole.X.dtype == np.int32
    assert isinstance(whole.X, csr_matrix)
    assert (whole.X != expected.X).nnz == 0
    assert whole.X.has_canonical_format == expected.X.has_canonical_format
    for name in (keys.EXPECTED, keys.STD):
        assert whole.layers[name].dtype == np.float32
        np.testing.assert_array_equal(whole.layers[name], expected.layers[name])
    np.testing.assert_array_equal(whole.obsm[keys.SPATIAL], expected.obsm[keys.SPATIAL])
    assert list(whole.obs_names) == list(expected.obs_names)
    assert whole.obs_names.is_unique
    pd.testing.assert_frame_equal(whole.var, parts[0].var)
    library = whole.obs[keys.LIBRARY_ID]
    assert list(library.cat.categories) == ["s2", "s1", "s3"]
    assert library.value_counts(sort=False).tolist() == [7, 70_000, 1]
    assert whole.obs["stain"].astype(str).tolist() == [f"stain of {name}" for name in library]
    for column in (keys.ARRAY_ROW, keys.TOTAL_COUNTS, keys.N_GENES):
        assert whole.obs[column].dtype == np.int64
        assert whole.obs[column].tolist() == expected.obs[column].tolist()
    assert list(whole.uns[keys.SPATIAL]) == ["s1", "s2", "s3"]
    for part, name in zip(parts, ("s2", "s1", "s3"), strict=True):
        own, kept = part.uns[keys.SPATIAL][name], whole.uns[keys.SPATIAL][name]
        np.testing.assert_array_equal(own[keys.IMAGES][keys.HIRES], kept[keys.IMAGES][keys.HIRES])
        assert own[keys.SCALEFACTORS] == kept[keys.SCALEFACTORS]
        assert whole.uns[keys.GENAR]["sections"][name]["warnings"].tolist() == [f"of {name}"]
    whole.write_h5ad(tmp_path / "again.h5ad")


@pytest.mark.filterwarnings("ignore")
def test_squidpy_draws_each_and_scanpy_works_on_all(make: Make, tmp_path: Path) -> None:
    import scanpy as sc
    import squidpy as sq

    concat([make(name, 20, seed) for seed, name in enumerate("PQ")], tmp_path / "cohort.h5ad")
    adata = ad.read_h5ad(tmp_path / "cohort.h5ad")
    sq.pl.spatial_scatter(adata, library_key=keys.LIBRARY_ID, color="A")
    axes = [axis for axis in plt.gcf().axes if axis.images]
    assert len(axes) == 2
    for axis, name in zip(axes, "PQ", strict=True):
        image = adata.uns[keys.SPATIAL][name][keys.IMAGES][keys.HIRES]
        np.testing.assert_allclose(np.asarray(axis.images[0].get_array()), image)
        assert sum(len(collection.get_paths()) for collection in axis.collections) == 20
    plt.close("all")
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    assert adata.shape == (40, 3)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"genes": ["A", "B", "C"]}, "it has other genes than the first result"),
        ({"genes": ["B", "A"]}, "it has other genes than the first result"),
        ({"library": "P"}, "its library_id, P, is that of .*P.h5ad, too; call the slides otherwise"),
    ],
)
def test_results_that_do_not_go_together(make: Make, tmp_path: Path, second: dict[str, object], said: str) -> None:
    tables = [make("P"), make("Q", **second)]
    with pytest.raises(DataError, match=f"Q.h5ad: {said}"):
        concat(tables, tmp_path / "cohort.h5ad")
    assert sorted(tmp_path.iterdir()) == tables


def test_only_a_cohort_is_replaced(make: Make, tmp_path: Path) -> None:
    tables, target = [make("P"), make("Q")], tmp_path / "cohort.h5ad"
    concat(tables[:1], target)
    concat(tables, target)
    assert ad.read_h5ad(target).n_obs == 10
    target.write_bytes(target.read_bytes()[:1000])
    concat(tables, target)
    assert ad.read_h5ad(target).n_obs == 10
    with pytest.raises(OutputError, match="Q.h5ad: it exists"):
        concat(tables[:1], tables[1])


def test_a_disk_without_room(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(OutputError, match=r"cohort.h5ad: the disk has 0.0 GB left, and the results take 0.0 GB"):
        concat([make("P")], tmp_path / "cohort.h5ad")


def test_counts_may_be_more_than_32_bits_number(make: Make, tmp_path: Path) -> None:
    concat([make("P")], tmp_path / "cohort.h5ad")
    with h5py.File(tmp_path / "cohort.h5ad") as file:
        assert file["X/indptr"].dtype == np.int64
        assert file["X/data"].compression == file["layers/std"].compression == "gzip"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak is read as Linux tells it")
def test_memory_is_that_of_one_result(make: Make, tmp_path: Path) -> None:
    """Forty results of 2.5 MB in memory each take little more than one does."""
    genes = [f"G{i}" for i in range(200)]
    first = make("s0", 400, genes=genes, image_px=600)
    for number in range(1, 40):  # the same numbers under another name: writing them is what takes long
        with h5py.File(first) as source, h5py.File(tmp_path / f"s{number}.h5ad", "w") as file:
            for name in source:
                source.copy(name, file)
            file.attrs.update(source.attrs)
            file["uns/spatial"].move("s0", f"s{number}")
            file["obs/library_id/categories"][0] = f"s{number}"
    tables = sorted(tmp_path.glob("s*.h5ad"))
    assert len(tables) == 40
    concat(tables[:1], tmp_path / "cohort.h5ad")
    forget_peak()
    before = peak_gb()
    concat(tables, tmp_path / "cohort.h5ad")
    assert peak_gb() - before < 0.03  # all of it would be 0.1 GB
    assert ad.read_h5ad(tmp_path / "cohort.h5ad", backed="r").shape == (16_000, 200)


def test_names_that_become_one_are_told_before_the_work() -> None:
    check_names([Task(Path("a.svs"), "T21 1"), Task(Path("b.svs"), "T21 2")])
    for names in (("T21 1", "T21_1"), ("肺", "肝")):
        with pytest.raises(ConfigError, match=r"b.svs: with --concat, it and a.svs would both have the library_id"):
            check_names([Task(Path("a.svs"), names[0]), Task(Path("b.svs"), names[1])])
