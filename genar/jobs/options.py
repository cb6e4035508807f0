"""What is asked of a prediction: one object from the command line to the worker that does it."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from pathlib import Path

from genar.estimate import Estimator
from genar.jobs.slides import Task
from genar.model.decoding import Decoding
from genar.slide.files import files_of
from genar.slide.lattice import LATTICES

HOW_NOT_WHAT = ("cache", "device", "batch_size", "workers")  # they change how long it takes, not what comes out
WORDS = ("auto", "none", *LATTICES)  # which are no files, though there may be such


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

    def request(self, slide: Path, model_sha256: str) -> str:
        """Return what tells requests on one slide apart: a SHA-256, in hexadecimal.

        Parameters
        ----------
        slide
            The slide, by whose name files are looked up in folders; its content is another matter.
        model_sha256
            Hash of the model's weights. Other files count by name, size and time of change.
        """
        wanted = {key: value for key, value in asdict(self).items() if key not in HOW_NOT_WHAT}
        for key in ("spots", "tissue", "features", "encoder_weights"):
            wanted[key] = _identity(wanted[key], slide.stem)
        wanted |= {"model": model_sha256, "decoding": self.decoding.model_dump()}
        return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()

    def of(self, task: Task) -> "Options":
        """Return the options of one slide of a table, which may give its resolution."""
        return self if task.mpp is None else replace(self, mpp=task.mpp)

    def absolute(self) -> "Options":
        """Return the same options for a process that works in another folder."""
        return replace(
            self, model=_absolute(self.model), spots=self.spots and _absolute(self.spots),
            tissue=_absolute(self.tissue), features=self.features and self.features.absolute(),
            encoder_weights=self.encoder_weights and self.encoder_weights.absolute(),
            cache=self.cache and self.cache.absolute(),
        )  # fmt: skip


def stamp(path: Path) -> list[int]:
    """Return what tells that a file, or one of several, has changed: number of files, bytes, latest change in ns."""
    status = [file.stat() for file in files_of(path).values()]
    return [len(status), sum(s.st_size for s in status), max((s.st_mtime_ns for s in status), default=0)]


def _identity(given: str | Path | None, stem: str) -> object:
    """Tell a file, or the one of a folder that is a slide's, by its name and stamp; other words are themselves."""
    if given is None or given in WORDS or not Path(given).exists():
        return None if given is None else str(given)
    path = Path(given)
    own = sorted(path.glob(f"{escape(stem)}[._]*")) if path.is_dir() else []
    return [[p.name, *stamp(p)] for p in own or [path]]


def _absolute(given: str) -> str:
    """Return a path that is there as an absolute one; other words stay."""
    return str(Path(given).absolute()) if given not in WORDS and Path(given).exists() else given
