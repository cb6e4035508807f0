"""Published weights under the names that timm's networks give them."""

import re

import torch
from torch import Tensor, nn
from torch.nn import functional

# of the transformers library's ViT and DINOv2 (with registers, or without): what stands there, what stands in timm
NAMES = (
    (r"^embeddings\.(cls_token)$", r"\1"),
    (r"^embeddings\.register_tokens$", "reg_token"),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^layernorm\.", "norm."),
    (r"^encoder\.layer\.(\d+)\.", r"blocks.\1."),
    (r"\.(?:layernorm_before)\.", ".norm1."),
    (r"\.(?:layernorm_after)\.", ".norm2."),
    (r"\.attention\.output\.dense\.", ".attn.proj."),
    (r"\.(?:intermediate\.dense|mlp\.weights_in)\.", ".mlp.fc1."),
    (r"\.(?:output\.dense|mlp\.weights_out)\.", ".mlp.fc2."),
    (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
)
UNUSED = ("embeddings.mask_token", "pooler.")  # of training, and of another task
QUERY = ".attention.attention.query."


def from_transformers(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Rename the tensors of a vision transformer of the transformers library as timm does.

    Queries, keys and values are put together; the class token's position goes into the token where timm's network has
    positions of patches alone; and positions of another grid are interpolated as that library does.

    Parameters
    ----------
    state
        Tensors under its names.
    network
        timm's network.
    """
    renamed = {}
    for name, tensor in state.items():
        if name.startswith(UNUSED) or re.search(r"\.attention\.attention\.(key|value)\.", name):
            continue
        if QUERY in name:
            parts = [state.get(name.replace(".query.", f".{part}.")) for part in ("query", "key", "value")]
            tensor = torch.cat([part for part in parts if part is not None])
            name = name.replace(QUERY, ".attn.qkv.")
        for pattern, replacement in NAMES:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    if {"pos_embed", "cls_token"} <= set(renamed):
        _place(renamed, network)
    return renamed


def _place(state: dict[str, Tensor], network: nn.Module) -> None:
    """Fit the positions, [1, 1 + g * g, C], to the network's."""
    first, patches = state["pos_embed"][:, :1], state["pos_embed"][:, 1:]
    side = round(patches.shape[1] ** 0.5)
    wanted: tuple[int, int] = network.patch_embed.grid_size  # type: ignore[union-attr, assignment]
    if side * side == patches.shape[1] and (side, side) != wanted:
        grid = patches.reshape(1, side, side, -1).permute(0, 3, 1, 2).float()
        grid = functional.interpolate(grid, wanted, mode="bicubic", align_corners=False)
        patches = grid.flatten(2).transpose(1, 2)
    if network.no_embed_class:
        state["cls_token"] = state["cls_token"] + first
        state["pos_embed"] = patches
    else:
        state["pos_embed"] = torch.cat([first, patches], dim=1)


def in_order(state: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Give the tensors of a file the network's names, where both have them in one order.

    Parameters
    ----------
    state
        Tensors under other names; the classifier's weight and bias, if there, come last.
    network
        timm's network, without a classifier.
    """
    expected = network.state_dict()
    named = dict(zip(expected, state.values(), strict=False))
    surplus = len(state) - len(expected)
    fits = surplus in (0, 2) and all(named[name].shape == expected[name].shape for name in expected)
    return named if fits else state
