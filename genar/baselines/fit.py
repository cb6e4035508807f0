"""Training a small network, with as many epochs as a left-out section says."""

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from genar.data.spots import SpotTable

logger: logging.Logger = logging.getLogger("genar")

Rows = NDArray[np.int64]
Batch = dict[str, Tensor]
Network = TypeVar("Network", bound=nn.Module)

JUDGED = 1024  # left-out spots in memory at once


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Parameters
    ----------
    lr, weight_decay
        Of AdamW; the learning rate is constant, and only matrices decay.
    batch_size
        Spots a step.
    max_epochs
        Epochs at most.
    patience
        Epochs without a lower loss of the left-out spots after which training stops.
    clip
        Norm to which gradients are clipped.
    average
        Of the running mean of the weights, which is judged and kept: what stays of it at each step.
    """

    lr: float = 1e-3
    weight_decay: float = 0.01
    batch_size: int = 64
    max_epochs: int = 200
    patience: int = 15
    clip: float = 1.0
    average: float = 0.98


def fit(
    make: Callable[[], Network], loss: Callable[[Network, Batch], Tensor], table: SpotTable, seed: int, recipe: Recipe
) -> Network:
    """Train a network twice: to learn for how many epochs, without a section, then for these on all spots.

    Parameters
    ----------
    make
        Makes the untrained network.
    loss
        Of a network and a batch of spots: the loss of each count, [B, G]. What was not measured does not count.
    table
        Training spots.
    seed
        Of the weights, the order of the spots, dropout, and the section that is left out (of a single section a fifth
        of its spots). The same seed gives the same network.
    recipe
        How it is trained.

    Returns
    -------
    The network, for inference.
    """
    rows, held = left_out(table, seed)
    with torch.random.fork_rng(devices=[]):
        _, epochs, _ = train(make, loss, table, rows, held, seed, recipe)
        logger.info("training again on all %s spots, for %d epochs", f"{len(table):,}", epochs)
        network, _, _ = train(make, loss, table, np.arange(len(table)), None, seed, recipe, epochs)
    return network.eval()


def left_out(table: SpotTable, seed: int) -> tuple[Rows, Rows]:
    """Return rows of the spots to train on, and of a section left out, or of a fifth of the spots of a single one."""
    draw = np.random.default_rng(seed)
    if len(table.names) > 1:
        held = table.section == draw.integers(len(table.names))
    else:
        held = draw.permutation(len(table)) < max(1, len(table) // 5)
    return np.flatnonzero(~held), np.flatnonzero(held)


def train(
    make: Callable[[], Network],
    loss: Callable[[Network, Batch], Tensor],
    table: SpotTable,
    rows: Rows,
    held: Rows | None,
    seed: int,
    recipe: Recipe,
    epochs: int | None = None,
) -> tuple[Network, int, float]:
    """Train on ``rows``, for some epochs or until the loss on ``held`` has not fallen for a while.

    Returns
    -------
    network
        As it was after the best epoch, or the last.
    epochs
        How many these were.
    error
        The least mean loss on ``held``; NaN without.
    """
    torch.manual_seed(seed)
    network, order = make(), np.random.default_rng(seed)
    running = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
    mean = cast("Network", running.module)
    optimizer = _optimizer(network, recipe)
    best, best_epoch, kept = float("inf"), 0, network
    for epoch in range(1, (epochs or recipe.max_epochs) + 1):
        turn = order.permutation(rows)
        for start in range(0, len(turn), recipe.batch_size):
            _step(network, loss, table.batch(turn[start : start + recipe.batch_size]), optimizer, recipe.clip)
            running.update_parameters(network)
        if held is None:
            continue
        error = judge(mean, loss, table, held)
        if error < best or not best_epoch:
            best, best_epoch, kept = error, epoch, copy.deepcopy(mean)
        elif epoch - best_epoch >= recipe.patience:
            break
    return (mean, epochs or recipe.max_epochs, float("nan")) if held is None else (kept, best_epoch, best)


def _optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """Return AdamW, which decays matrices alone: a gene's level is none of its business."""
    weights = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, recipe.lr)


def _step(
    network: Network,
    loss: Callable[[Network, Batch], Tensor],
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    clip: float,
) -> None:
    network.train()
    optimizer.zero_grad()
    total, seen = _summed(loss(network, batch), batch)
    (total / seen.clamp(min=1)).backward()
    nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()


@torch.inference_mode()
def judge(network: Network, loss: Callable[[Network, Batch], Tensor], table: SpotTable, rows: Rows) -> float:
    """Return the mean loss of the measured counts of some spots."""
    network.eval()
    total, seen = 0.0, 0.0
    for part in chunks(len(rows)):
        batch = table.batch(rows[part])
        error, number = _summed(loss(network, batch), batch)
        total, seen = total + float(error), seen + float(number)
    return total / max(seen, 1.0)


def _summed(each: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Sum the losses [B, G] of the measured counts, and say how many these are."""
    weight = batch["measured"].to(each.dtype) if "measured" in batch else torch.ones_like(each)
    return (each * weight).sum(), weight.sum()


def chunks(n: int, size: int = JUDGED) -> list[Rows]:
    """Split the rows 0 to n - 1 into parts of no more than ``size``."""
    return np.array_split(np.arange(n), range(size, n, size))
