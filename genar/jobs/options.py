"""What is asked of a prediction: one object from the command line to the worker that does it."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from genar.estimate import Estimator
from genar.jobs.existing import is_result
from genar.jobs.given import WORDS
from genar.jobs.slides import Task
from genar.model.decoding import Decoding
from genar.read.features import file_of
from genar.shelf import pinned
from genar.slide.files import stamp
from genar.slide.outline import source_of

HOW_NOT_WHAT = ("cache", "device", "batch_size", "workers", "report")  # they do not change what the result is
OWN = ("summary.csv", "cohort.h5ad", "index.html")  # files of genar's that lie among results


@dataclass(frozen=True)
class Options:
    """Options of :func:`genar.predict`, which describes them.

    Parameters
    ----------
    model
        A bundled model's name or a model directory.
    spots, pitch, tissue, mpp
        Where to predict, and the resolution of the slide.
    features
        A file of features that another program computed, or a folder of such files, ``<slide stem>.h5`` or ``.zarr``.
    encoder_weights
        File of the encoder's weights.
    cache
        Folder in which features are kept.
    seed, estimator, decoding, depth
        How counts are decoded.
    device, batch_size, workers
        Where and in what portions to compute.
    report
        Write a page to look at beside each result, too.
    """

    model: str = "her2st-mini"
    spots: str | None = None
    pitch: float | None = None
    tissue: str = "auto"
    mpp: float | None = None
    features: Path | None = None
    encoder_weights: Path | None = None
    cache: Path | None = None
    seed: int = 0
    estimator: Estimator = "log_mean"
    decoding: Decoding = field(default_factory=Decoding)
    depth: float | None = None
    device: str = "auto"
    batch_size: int = 32
    workers: int | None = None
    report: bool = False

    def request(self, slide: Path, model_sha256: str) -> str:
        """Return what tells requests on one slide apart: a SHA-256, in hexadecimal.

        Parameters
        ----------
        slide
            The slide, by whose name files are looked up in folders; its content is another matter.
        model_sha256
            Hash of the model's weights. Other files count by name, size and time of change.

        Raises
        ------
        DataError
            If a folder holds no file for this slide.
        """
        wanted = {key: value for key, value in asdict(self).items() if key not in HOW_NOT_WHAT}
        for key in ("spots", "tissue", "features", "encoder_weights"):
            if (given := wanted[key]) is not None:
                wanted[key] = str(given)
                if given not in WORDS and Path(given).exists():
                    wanted[key] = _identity(key, Path(given), slide)
        wanted |= {"model": model_sha256, "decoding": self.decoding.model_dump()}
        return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()

    def of(self, task: Task) -> "Options":
        """Return the options of one slide of a table, which may give its resolution."""
        return self if task.mpp is None else replace(self, mpp=task.mpp)

    def absolute(self) -> "Options":
        """Return the same options for a process that works in another folder."""
        return replace(
            self, model=pinned(self.model), spots=self.spots and _absolute(self.spots),
            tissue=_absolute(self.tissue), features=self.features and self.features.absolute(),
            encoder_weights=self.encoder_weights and self.encoder_weights.absolute(),
            cache=self.cache and self.cache.absolute(),
        )  # fmt: skip


def _identity(key: str, path: Path, slide: Path) -> list[list[object]]:
    """Tell the files that are read for a slide by their names and stamps."""
    if key == "tissue":
        path = Path(source_of(slide, path))
    if key == "features":
        path = file_of(path, slide)
    if key == "spots" and path.is_dir():
        return [[file.relative_to(path).as_posix(), *stamp(file)] for file in _measured(path)]
    return [[path.name, *stamp(path)]]


def _measured(folder: Path) -> list[Path]:
    """List the files of a folder of measured sections, without those that genar has written there."""
    files: list[Path] = []
    for root, inner, names in os.walk(folder):  # which does not mind that other processes remove hidden folders
        inner[:] = [name for name in inner if not name.startswith(".")]
        files += [Path(root, name) for name in names if not name.startswith(".")]
    results = {p.with_suffix("") for p in files if p.suffix == ".h5ad" and is_result(p)}
    return [
        file
        for file in sorted(files)
        if not (file.suffix in (".h5ad", ".png", ".html") and file.with_suffix("") in results)
        and file.name not in OWN
        and not file.name.endswith((".tissue.png", ".tissue.geojson"))
    ]


def _absolute(given: str) -> str:
    """Return a path that is there as an absolute one; other words stay."""
    return str(Path(given).absolute()) if given not in WORDS and Path(given).exists() else given
