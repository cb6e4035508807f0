"""What a bundled model gave when it was made, by which it is told whether it gives that on another machine."""

from pathlib import Path

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from safetensors import SafetensorError, numpy, safe_open
from torch import inference_mode

from genar import keys, tl
from genar.encoders.fingerprint import check, picture
from genar.encoders.registry import create
from genar.errors import GenarError, ModelError
from genar.slide.section import bare
from genar.store import Model, ModelInfo, load

RECORD = "record.safetensors"  # in the model's directory
SHA256 = "model_sha256"
N = 9  # spots of three rows
TOLERANCE = 1e-2  # of an expected count, or of one count; devices differ by less
REMEDY = "reinstall genar; of a model trained anew, run scripts/record_doctor.py"


def write(directory: Path) -> Path:
    """Record what a model gives of fixed features, those that its encoder has of shifts of a fixed picture.

    Returns
    -------
    The file, in the model's directory: ``features``, float32 [9, D], and ``expected``, float32 [9, G].

    Raises
    ------
    ModelError
        If the model or its encoder cannot be loaded.
    """
    model, encoder = load(directory), create(load(directory).info.encoder)
    with inference_mode():
        tiles = [picture(encoder.spec.input_px).roll((11 * i, 7 * i), (2, 3)) for i in range(N)]
        features = np.stack([encoder(tile)[0].float().cpu().numpy() for tile in tiles])
    tensors = {"features": features, "expected": expected(model, features)}
    (directory / RECORD).write_bytes(numpy.save(tensors, {SHA256: model.sha256}))
    return directory / RECORD


def verify(directory: Path) -> None:
    """Raise unless a model and its encoder give here what they gave where the record was written.

    Raises
    ------
    ModelError
        If they do not, or the record is missing or of other weights.
    """
    model = load(directory)
    features, recorded = _read(directory, model.sha256)
    if model.info.encoder_fingerprint is not None:
        fingerprint = create(model.info.encoder).fingerprint()
        check(fingerprint, model.info.encoder_fingerprint, model.info.encoder)
    found = expected(model, features)
    worst = float((np.abs(found - recorded) / np.maximum(recorded, 1)).max())
    if not worst <= TOLERANCE:
        why = f"it gives other counts here than recorded, by up to {worst:.1%}"
        raise ModelError(model.info.name, why, "set GENAR_RUNTIME=torch, or reinstall torch and genar")


def _read(directory: Path, sha256: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Read the features and the expected counts that were recorded of these weights."""
    path = directory / RECORD
    try:
        with safe_open(path, framework="numpy") as file:
            known = (file.metadata() or {}).get(SHA256)
            features, recorded = file.get_tensor("features"), file.get_tensor("expected")
    except (OSError, SafetensorError) as e:
        raise ModelError(path, f"the record cannot be read ({e})", REMEDY) from e
    if known != sha256:
        raise ModelError(path, "the record is of other weights than the model's", REMEDY)
    return features, recorded


def expected(model: Model, features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the expected counts, float32 [9, G], that a model decodes on the CPU from features, float32 [9, D]."""
    found: NDArray[np.float32] = tl.predict(_spots(model.info, features), model).layers[keys.EXPECTED]
    return found


def _spots(info: ModelInfo, features: NDArray[np.float32]) -> AnnData:
    """Lay nine spots in a square, as far apart as the model's, at 1 µm per pixel."""
    at = np.arange(N)
    xy = np.column_stack([at % 3, at // 3]).astype(np.float64) * info.pitch_um
    spots = bare(xy, pd.DataFrame({keys.LIBRARY_ID: pd.Categorical(["record"] * N)}, index=at.astype(str)))
    geometry = {keys.MPP: 1.0, keys.SPOT_UM: info.spot_um, keys.PITCH_UM: info.pitch_um, keys.TILE_UM: info.tile_um}
    spots.uns[keys.SPATIAL] = {"record": {keys.METADATA: geometry}}
    spots.obsm[keys.features(info.encoder)] = features
    return spots


def fault(directory: Path) -> GenarError | None:
    """Return what :func:`verify` raises, or None."""
    try:
        verify(directory)
    except GenarError as e:
        return e
    return None
