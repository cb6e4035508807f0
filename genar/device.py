"""Where to compute."""

import os

import torch

from genar.errors import ConfigError

REMEDY = "give auto, cpu, cuda or cuda:<number>"


def device_of(name: str | torch.device) -> torch.device:
    """Turn ``auto``, ``cpu`` or ``cuda[:i]`` into a device; ``auto`` takes the first GPU where there is one.

    Parameters
    ----------
    name
        The name; a device of torch is returned as it is.

    Raises
    ------
    ConfigError
        If the name is none of these, or there is no such GPU.
    """
    if isinstance(name, torch.device):
        return name
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError("--device", f"{name!r} is not a device", REMEDY) from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError("--device", f"{name!r} is not supported", REMEDY)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError("--device", f"there is no GPU {name!r} here", "give --device cpu")
    return device


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
