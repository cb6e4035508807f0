"""Training of a decoder under Lightning."""

import math
from typing import Any

import lightning as L
import torch
from torch import Tensor

from genar.jobs.config import OptimizerConfig
from genar.model.condition import Spots
from genar.model.decoder import Decoder


class GenARModule(L.LightningModule):
    """Loss and optimiser around a :class:`~genar.model.decoder.Decoder`.

    Parameters
    ----------
    network
        The decoder.
    optimizer
        How to train it.
    thin_to
        Below 1: each step thins a spot's counts, and its depth with them, by a factor drawn between this and 1, so
        that a model conditioned on the depth sees more depths than its sections have.
    """

    def __init__(self, network: Decoder, optimizer: OptimizerConfig, thin_to: float = 1.0) -> None:
        super().__init__()
        self.network, self.optimizer, self.thin_to = network, optimizer, thin_to

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        """Return the loss of one batch."""
        counts = batch.pop("counts")
        if self.thin_to < 1:
            log_share = math.log(self.thin_to) * torch.rand_like(batch["log_library_size"])
            counts = torch.binomial(counts.float(), log_share.exp().unsqueeze(1).expand(counts.shape))
            batch["log_library_size"] = batch["log_library_size"] + log_share
        loss = self.network.loss(Spots(**batch), counts)
        self.log("loss", loss, prog_bar=True, batch_size=len(counts))
        return loss

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule."""
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            lr=self.optimizer.lr,
            weight_decay=self.optimizer.weight_decay,
            fused=self.trainer.precision == "32-true",  # Lightning clips no gradients of a fused one in bfloat16
        )
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self.optimizer.warmup))

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
