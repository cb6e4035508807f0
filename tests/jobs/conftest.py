"""Small sections, in memory and on disk, and configurations that train on them in seconds."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from scipy.sparse import csr_matrix

from genar import keys
from genar.cli.config import load
from genar.jobs.config import TrainConfig

CONFIG = Path(__file__).parents[2] / "configs" / "her2st-mini.yaml"
LIGHTNING = [  # of Lightning and what it uses, not of ours
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore:.*does not have many workers.*",
    "ignore:.*isinstance.treespec.*",
    "ignore:.*lr_scheduler.step.*",
    "ignore:.*exists and is not empty.*",
]
SMALL: dict[str, object] = {
    "data.sections": None, "data.mpp": None, "panel.n_genes": 6, "hierarchy.scales": [1, 2, 6], "model.width": 16,
    "model.heads": 2, "model.layers": 2, "model.condition_width": 16, "model.histology_width": 16,
    "trainer.max_epochs": 3, "trainer.batch_size": 8, "trainer.accelerator": "cpu", "trainer.refit": False,
    "trainer.min_epochs": 1, "trainer.ema": 0.0, "trainer.free_running": 0.0, "tiles.views": 0, "model.linear": False,
    "model.neighbours": 0, "model.neighbour_pooling": "attention", "model.distribution": "gaussian",
    "optimizer.lr": 1e-3, "split.validation": "section",
}  # fmt: skip
Configure = Callable[..., TrainConfig]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for warning in LIGHTNING:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Make a configuration; ``trainer__max_epochs=1`` changes ``trainer.max_epochs``."""

    def make(**changes: object) -> TrainConfig:
        fixed = {"data.root": str(tmp_path / "data"), "output": str(tmp_path / "run")}
        return load(CONFIG, TrainConfig, SMALL | fixed | {k.replace("__", "."): v for k, v in changes.items()})

    return make


def section(
    name: str, seed: int, spots: int = 24, genes: Sequence[str] = "PQRSTUVW", tile_um: float = 154.0
) -> AnnData:
    """Spots with counts that follow one of their four features, of which the last never varies."""
    random = np.random.default_rng(seed)
    obs = pd.DataFrame({keys.LIBRARY_ID: pd.Categorical([name] * spots)}, index=[f"{name}{i}" for i in range(spots)])
    features = random.random((spots, 4)).astype(np.float32)
    features[:, 3] = 0.25
    level = np.linspace(2, 30, len(genes)) * (0.2 + 2 * features[:, :1])
    adata = AnnData(csr_matrix(random.poisson(level).astype(np.int32)), obs=obs, var=pd.DataFrame(index=list(genes)))
    adata.obsm[keys.SPATIAL] = random.random((spots, 2)) * 100
    adata.obsm[keys.features("efficientnet_lite0")] = features
    geometry = {keys.LATTICE: "st", keys.SPOT_UM: 100.0, keys.PITCH_UM: 200.0, keys.TILE_UM: tile_um, keys.MPP: 1.0}
    adata.uns[keys.SPATIAL] = {name: {keys.METADATA: geometry}}
    return adata


@pytest.fixture
def cohort(tissue_image: Callable[..., np.ndarray], make_slide: Callable[..., Path], tmp_path: Path) -> Path:
    """Four small sections of four patients, written as ``.h5ad`` with their images, and the sample sheet of them.

    Their spots lie 200 µm apart on tissue whose counts follow its darkness.
    """
    rows = []
    for number, name in enumerate("ABCD"):
        image = tissue_image(side=700, radius=310, seed=number)
        slide = make_slide(image, mpp=2.0, name=f"{name}.tif")
        xy = np.stack(np.meshgrid(np.arange(150, 651, 100), np.arange(150, 651, 100)), axis=-1).reshape(-1, 2) * 1.0
        xy = xy[np.linalg.norm(xy - 350, axis=1) < 270]
        x, y = xy.astype(int).T
        dark = 255 - image.mean(axis=2)[y, x]
        random = np.random.default_rng(number)
        level = np.linspace(1, 20, 10) * (0.3 + dark[:, None] / 100)
        adata = AnnData(
            csr_matrix(random.poisson(level).astype(np.int32)),
            obs=pd.DataFrame(index=[f"{a}x{b}" for a, b in xy.astype(int)]),
            var=pd.DataFrame(index=[f"GENE{i}" for i in range(10)]),
        )
        adata.obsm[keys.SPATIAL] = xy
        adata.write_h5ad(tmp_path / f"{name}.h5ad")
        rows.append({"section": name, "path": f"{name}.h5ad", "image": slide.name, "patient": f"patient {name}"})
    sheet = tmp_path / "samples.csv"
    pd.DataFrame(rows).to_csv(sheet, index=False)
    return sheet


def write_sample(task: Path, name: str, section: AnnData, patches: np.ndarray, kept: np.ndarray) -> None:
    """Write a section, and the patches of ``kept`` of its spots, in that order."""
    for folder in ("adata", "patches"):
        (task / folder).mkdir(parents=True, exist_ok=True)
    bare = AnnData(section.X.astype(np.float32), obs=section.obs[[]], var=section.var[[]])
    bare.obsm[keys.SPATIAL] = section.obsm[keys.SPATIAL]
    bare.write_h5ad(task / f"adata/{name}.h5ad")
    with h5py.File(task / f"patches/{name}.h5", "w") as file:
        file["img"] = patches
        file["barcode"] = np.array([[b.encode()] for b in section.obs_names[kept]])
        file["coords"] = section.obsm[keys.SPATIAL][kept].astype(np.int64)


def write_splits(task: Path, genes: list[str], names: list[str]) -> None:
    """Write the genes, and folds that leave out a sample each."""
    (task / "splits").mkdir(parents=True)
    (task / "var_50genes.json").write_text(json.dumps({"genes": genes}))
    for number, left in enumerate(names):
        for side, samples in (("train", [n for n in names if n != left]), ("test", [left])):
            rows = [
                {"sample_id": n, "patches_path": f"patches/{n}.h5", "expr_path": f"adata/{n}.h5ad"} for n in samples
            ]
            pd.DataFrame(rows).to_csv(task / "splits" / f"{side}_{number}.csv", index=False)


def small(name: str, seed: int, spots: int = 14) -> tuple[AnnData, np.ndarray]:
    """Spots whose counts follow the colour of their patches, and these, 32 px wide."""
    random = np.random.default_rng(seed)
    shade = random.uniform(60, 220, spots)
    counts = random.poisson(shade[:, None] / 20 * np.arange(1, 7)).astype(np.int32)
    counts[:, 5] = 0
    obs = pd.DataFrame(index=[f"{name}-{i}" for i in range(spots)])
    section = AnnData(csr_matrix(counts), obs=obs, var=pd.DataFrame(index=[f"G{i}" for i in range(6)]))
    section.obsm[keys.SPATIAL] = random.random((spots, 2)) * 4000
    patches = random.normal(shade[:, None, None, None], 20, (spots, 32, 32, 3)).clip(0, 255).astype(np.uint8)
    return section, patches


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A task of three samples, whose patches come in another order than the spots, and not of all of them."""
    kept = np.array([11, 3, 4, 0, 7, 9, 1, 2, 5, 12])
    for seed, name in enumerate("ABC"):
        section, patches = small(name, seed)
        write_sample(tmp_path / "IDC", name, section, patches[kept], kept)
    write_splits(tmp_path / "IDC", ["G4", "G1", "G5"], list("ABC"))
    (tmp_path / "fm_v1").mkdir()  # the benchmark's weights, which are no task
    return tmp_path
