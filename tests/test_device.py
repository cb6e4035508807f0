import pytest
import torch

from genar.device import device_of
from genar.errors import ConfigError


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "meta", ""])
def test_unknown_devices(device: str) -> None:
    with pytest.raises(ConfigError, match="--device"):
        device_of(device)


@pytest.mark.parametrize(("found", "kind"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, found: bool, kind: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    assert device_of("auto") == torch.device(kind)


def test_a_device_of_torch_is_taken_as_it_is() -> None:
    assert device_of(torch.device("meta")) == torch.device("meta")
