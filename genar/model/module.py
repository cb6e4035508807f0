"""Training of a decoder under Lightning."""

import math
from typing import Any

import lightning as L
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from genar.data.spots import Batch
from genar.model.decoder import GenAR, Spots


class OptimizerConfig(BaseModel):
    """AdamW with a linear warm-up and a cosine decay to zero.

    Parameters
    ----------
    lr
        Peak learning rate.
    weight_decay
        Decoupled weight decay.
    warmup
        Share of all steps over which the rate rises.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup: float = Field(0.1, ge=0, lt=1)


class GenARModule(L.LightningModule):
    """Loss and optimiser around a :class:`~genar.model.decoder.GenAR`.

    Parameters
    ----------
    network
        The decoder.
    optimizer
        How to train it.
    """

    def __init__(self, network: GenAR, optimizer: OptimizerConfig) -> None:
        super().__init__()
        self.network, self.optimizer = network, optimizer

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """Return the loss of one batch."""
        features, position, counts = batch
        loss = self.network.loss(Spots(features, position), counts)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule."""
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=self.optimizer.lr, weight_decay=self.optimizer.weight_decay
        )
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self.optimizer.warmup))

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
