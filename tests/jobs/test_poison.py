"""Whatever a test section holds, the model, its baselines and what they are judged by are the same, bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anndata as ad
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from genar import keys, metrics
from genar.baselines import BASELINES
from genar.baselines.fit import Recipe
from genar.data.splits import FINAL
from genar.data.spots import SpotTable
from genar.encoders.cache import Features, features
from genar.jobs.train import Data, load, train_one
from genar.store import Model
from tests.jobs.conftest import Configure

HELD, CLEAN, KNOWN = "D", "C", "A"  # the poisoned test section, another one, and a section that is learnt from
SETTINGS: dict[str, object] = {
    "split__method": "holdout", "split__test": [HELD, CLEAN], "split__validation": "section",
    "split__shared_patients": [], "trainer__refit": True, "trainer__ema": 0.8, "trainer__max_epochs": 2,
    "trainer__thin_to": 0.5, "model__library_size": True, "model__linear": True, "model__neighbours": 4,
    "model__neighbour_pooling": "mean", "hierarchy__scales": [1, 2, 6],
}  # fmt: skip
PER_CM = 5000  # pixels, at the 2 µm of the sections
QUICK = Recipe(lr=0.01, max_epochs=6, patience=3, average=0.8)


class Learnt(NamedTuple):
    """What a run learnt from its training sections."""

    data: Data
    model: Model
    predictions: dict[str, metrics.Prediction]  # of CLEAN, by the baselines
    training: metrics.Training

    def fixed(self) -> dict[str, NDArray[np.generic]]:
        """Return all numbers of it that poison could change."""
        model, reference = self.model, self.model.reference
        assert reference is not None
        weights = {name: tensor.numpy() for name, tensor in model.network.state_dict().items()}
        panel = {f"panel {name}": column.to_numpy() for name, column in model.panel.items()}
        found = weights | reference.tensors() | vars(self.training) | panel | {"genes": model.panel.index.to_numpy()}
        return found | {name: prediction.log for name, prediction in self.predictions.items()}


def learn(configure: Configure, sheet: Path, name: str) -> Learnt:
    """Train on the sections as they lie on disk, as ``genar train`` does, and let the baselines learn beside it."""
    config = configure(data__root=str(sheet), output=str(sheet.parent / name), **SETTINGS)
    data = load(config)
    model = train_one(config, data, FINAL, config.output)
    genes, encoder = model.panel.index, model.info.encoder
    known = SpotTable.of(data.of(data.runs[FINAL].learnt), genes, encoder)
    tests = [SpotTable.of(data.of([section]), None, encoder) for section in (HELD, CLEAN)]
    predictions = {baseline: BASELINES[baseline](known, tests, 0)[1] for baseline in BASELINES}
    return Learnt(data, model, predictions, metrics.Training.of(known.counts, known.measured[known.section]))


def few(*args: object, **options: object) -> Features:
    """Extract features and keep eight projections, which regressions are fitted to in no time."""
    found = features(*args, **options)
    projection = np.random.default_rng(0).normal(size=(found.plain.shape[1], 8)).astype(np.float32)
    return replace(found, plain=found.plain @ projection)


def poison(sheet: Path, name: str, image: NDArray[np.uint8]) -> None:
    """Give a section another image, other places, and counts a hundredfold in other genes' favour."""
    path = sheet.parent / f"{name}.h5ad"
    section = ad.read_h5ad(path)
    random = np.random.default_rng(99)
    counts = random.permutation(section.X.toarray()[:, ::-1], axis=0) * 100 + random.integers(0, 50, section.shape)
    section.X = csr_matrix(counts.astype(np.int32))
    section.obsm[keys.SPATIAL] = section.obsm[keys.SPATIAL] + [12.0, -9.0]
    section.write_h5ad(path)
    tifffile.imwrite(
        sheet.parent / f"{name}.tif", image, tile=(256, 256), photometric="rgb", resolution=(PER_CM, PER_CM),
        resolutionunit="CENTIMETER",
    )  # fmt: skip


@pytest.fixture
def another(tissue_image: Callable[..., NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """A picture of the sections' size, of other tissue in other colours."""
    return np.ascontiguousarray(tissue_image(side=700, radius=310, seed=77)[..., [2, 0, 1]])


def test_no_test_section_has_a_say(
    configure: Configure,
    cohort: Path,
    another: NDArray[np.uint8],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Panel, hierarchy, scaling, early stopping, refit, the linear path, dispersions: all of it; then the control."""
    monkeypatch.setenv("GENAR_CACHE", str(tmp_path_factory.getbasetemp() / "features"))
    monkeypatch.setattr("genar.jobs.prepare.features", few)
    monkeypatch.setattr("genar.jobs.train.draw_curves", lambda *_: None)
    for network in ("mlp", "nb"):
        monkeypatch.setattr(f"genar.baselines.{network}.RECIPE", QUICK)
    first = learn(configure, cohort, "first")
    poison(cohort, HELD, another)
    second = learn(configure, cohort, "second")
    before, after = (run.data.sections[HELD] for run in (first, second))
    for slot in (keys.SPATIAL, keys.features("efficientnet_lite0")):
        assert not np.isclose(before.obsm[slot], after.obsm[slot]).any()
    assert after.X.sum() > 20 * before.X.sum()
    found = second.fixed()
    for name, values in first.fixed().items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    of_first, of_second = first.model.info.model_dump(), second.model.info.model_dump()
    sides = [info.pop("split") for info in (of_first, of_second)]
    assert of_first == of_second
    assert sides[0].pop("test") != sides[1].pop("test")
    assert sides[0] == sides[1]
    for name in ("metrics.csv", "selection/metrics.csv", "fit.json", "selection/fit.json"):
        assert (cohort.parent / "first" / name).read_text() == (cohort.parent / "second" / name).read_text()

    poison(cohort, KNOWN, another)
    found = learn(configure, cohort, "third").fixed()
    same = {name for name, values in first.fixed().items() if np.array_equal(found[name], values)}
    assert same <= {"panel group_1", "panel group_2", "panel group_6"}  # sizes of groups, at most
