"""From a vision transformer's tokens to one vector."""

import torch
from torch import Tensor, nn

from genar.encoders.entries import Pooling


def features(network: nn.Module, x: Tensor, pooling: Pooling) -> Tensor:
    """Return the features of normalised tiles.

    Parameters
    ----------
    network
        timm's network, without a classifier.
    x
        Tiles, float32 [B, 3, H, W].
    pooling
        See :class:`genar.encoders.entries.EncoderSpec`.

    Returns
    -------
    Float32 [B, dim].
    """
    if pooling == "network":
        return network(x)  # type: ignore[no-any-return]
    tokens: Tensor = network.forward_features(x)  # type: ignore[operator] # [B, class, registers, patches; C]
    if pooling == "class":
        return tokens[:, 0]
    mean = tokens[:, network.num_prefix_tokens :].mean(dim=1)
    return mean if pooling == "mean" else torch.cat([tokens[:, 0], mean], dim=1)
