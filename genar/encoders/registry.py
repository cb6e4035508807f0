"""Tile encoders: what each is, as data, and how to run one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import timm
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate

from genar.encoders import weights
from genar.encoders.weights import efficientnet_lite0
from genar.errors import GenarError, ModelError
from genar.progress import bar
from genar.units import TilePx


@dataclass(frozen=True)
class EncoderSpec:
    """One encoder.

    Parameters
    ----------
    name
        Its name in genar.
    timm_name
        Its architecture in timm.
    input_px
        Side of its input in pixels.
    mean, std
        Normalisation of RGB values in [0, 1].
    dim
        Dimension of its features.
    licence
        Licence of the weights.
    weights
        Returns its state dict under timm's names, from local files alone.
    sha256
        SHA-256 of the file of weights, in hexadecimal: features of other weights are other features.
    """

    name: str
    timm_name: str
    input_px: TilePx
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    dim: int
    licence: str
    weights: Callable[[nn.Module], dict[str, Tensor]]
    sha256: str


ENCODERS = {
    spec.name: spec
    for spec in (
        EncoderSpec(
            name="efficientnet_lite0",
            timm_name="tf_efficientnet_lite0",
            input_px=TilePx(224),
            mean=(0.5, 0.5, 0.5),
            std=(0.5, 0.5, 0.5),
            dim=1280,
            licence="Apache-2.0",
            weights=efficientnet_lite0,
            sha256=weights.SHA256,
        ),
    )
}


class Encoder(nn.Module):
    """A frozen network that turns tiles into feature vectors.

    Parameters
    ----------
    spec
        Which one.
    """

    def __init__(self, spec: EncoderSpec) -> None:
        super().__init__()
        self.spec = spec
        network = timm.create_model(spec.timm_name, pretrained=False)
        network.load_state_dict(spec.weights(network), strict=True)
        network.reset_classifier(0)  # type: ignore[operator]
        self.network = network.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(spec.mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(spec.std).view(1, 3, 1, 1) * 255, persistent=False)

    def forward(self, tiles: Tensor) -> Tensor:
        """Return the features, float32 [B, dim], of RGB ``tiles``, uint8 [B, 3, input_px, input_px]."""
        x = (tiles.float() - self.mean) / self.std
        return self.network(x.contiguous(memory_format=torch.channels_last))  # type: ignore[no-any-return]


def spec_of(name: str) -> EncoderSpec:
    """Return what an encoder is.

    Raises
    ------
    ModelError
        If there is no such encoder.
    """
    if name not in ENCODERS:
        raise ModelError(name, "genar knows no such encoder", f"use one of: {', '.join(ENCODERS)}")
    return ENCODERS[name]


def create(name: str) -> Encoder:
    """Return an encoder with its weights, ready to run.

    Raises
    ------
    ModelError
        If there is no such encoder, or its weights are not what they should be.
    """
    return Encoder(spec_of(name))


class _Caught(Dataset[Tensor | GenarError]):
    """Tiles, or the error that stands for one: torch would make a RuntimeError of what a worker raises."""

    def __init__(self, tiles: Dataset[Tensor]) -> None:
        self.tiles = tiles

    def __len__(self) -> int:
        return len(self.tiles)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Tensor | GenarError:
        try:
            return self.tiles[index]
        except GenarError as e:
            return e


def _batch(items: list[Tensor | GenarError]) -> Tensor | GenarError:
    """Stack tiles, or pass on the first error among them."""
    errors = [item for item in items if isinstance(item, GenarError)]
    return errors[0] if errors else default_collate(items)


def encode(
    encoder: Encoder,
    tiles: Dataset[Tensor],
    *,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int = 0,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Encode tiles in order: the batches of :func:`batches` in one array, float32 [N, dim]."""
    parts = batches(encoder, tiles, device=device, batch_size=batch_size, workers=workers, progress=progress)
    return np.concatenate(list(parts))


@torch.inference_mode()
def batches(
    encoder: Encoder,
    tiles: Dataset[Tensor],
    *,
    device: str | torch.device = "cpu",
    batch_size: int = 32,
    workers: int = 0,
    progress: bool = False,
    description: str = "Encoding tiles",
) -> Iterator[NDArray[np.float32]]:
    """Encode tiles in order, batch by batch.

    Parameters
    ----------
    encoder
        The encoder; moved to ``device``.
    tiles
        RGB tiles, uint8 [3, input_px, input_px] each.
    device
        Where to compute.
    batch_size
        Tiles at once.
    workers
        Processes that read tiles beside this one.
    progress
        Show a progress bar on stderr, where that is a terminal.
    description
        What stands beside it.

    Yields
    ------
    Features of the next tiles, float32 [B, dim].

    Raises
    ------
    GenarError
        What reading a tile raises, in whatever process.
    """
    encoder = encoder.to(device)
    pinned = torch.device(device).type == "cuda"
    loader = DataLoader(_Caught(tiles), batch_size, num_workers=workers, pin_memory=pinned, collate_fn=_batch)
    for batch in bar(loader, description, shown=progress):
        if isinstance(batch, GenarError):
            raise batch
        yield encoder(batch.to(device, non_blocking=True)).float().cpu().numpy()
