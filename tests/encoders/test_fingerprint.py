import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from genar import keys, pp, store, tl
from genar.encoders import fingerprint
from genar.encoders.entries import ENCODERS
from genar.encoders.registry import create
from genar.errors import ModelError


def test_the_picture_is_fixed() -> None:
    """Another picture would be another fingerprint: models on disk know this one."""
    picture = fingerprint.picture(224)
    assert picture.shape == (1, 3, 224, 224)
    assert picture.dtype == torch.uint8
    digest = hashlib.sha256(picture.numpy().tobytes()).hexdigest()
    assert digest == "86f7c291ff0c74e90b20a32238e07e0eba45f558750267ebf60103aad6e3badf"


def test_the_bundled_models_encoder() -> None:
    known = store.load("her2st-mini").info.encoder_fingerprint
    assert known is not None
    found = create("efficientnet_lite0").fingerprint()
    assert (found.shape, found.dtype) == ((16,), np.float32)
    np.testing.assert_allclose(found, known, atol=1e-4)
    fingerprint.check(found, known, "efficientnet_lite0")


def test_how_much_it_may_differ() -> None:
    known = np.linspace(0, 2, 16)
    fingerprint.check(known + 0.019, tuple(known), "a")
    for other in (known + 0.021, known[:8], known[::-1], known * np.nan):
        with pytest.raises(ModelError, match="^a: its features are of other weights"):
            fingerprint.check(other, tuple(known), "a")


def test_features_of_other_weights_are_refused(make_slide, tissue_image, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
    save_file(network.state_dict(), tmp_path / "other.safetensors")
    spots = pp.spots(make_slide(tissue_image(400, 150), mpp=2.0), "st")[:3].copy()
    pp.embed(spots)
    assert tl.predict(spots, "her2st-mini").n_obs == 3
    key = keys.fingerprint("efficientnet_lite0")
    metadata = next(iter(spots.uns["spatial"].values()))["metadata"]
    known = metadata[key]
    with pytest.MonkeyPatch.context() as patched:  # this file has timm's names
        patched.setitem(ENCODERS, "efficientnet_lite0", replace(ENCODERS["efficientnet_lite0"], naming="timm"))
        pp.embed(spots, weights=tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match=r"^efficientnet_lite0: its features are of other weights.*--encoder-weights"):
        tl.predict(spots, "her2st-mini")
    next(iter(spots.uns["spatial"].values()))["metadata"][key] = known
    assert tl.predict(spots, "her2st-mini").n_obs == 3
    del next(iter(spots.uns["spatial"].values()))["metadata"][key]  # of features that came without
    assert tl.predict(spots, "her2st-mini").n_obs == 3
