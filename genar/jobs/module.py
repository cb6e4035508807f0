"""Training of a decoder under Lightning."""

import math
from typing import Any, cast

import lightning as L
import numpy as np
import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel
from torchmetrics import MeanMetric

from genar.data.spots import spots_of
from genar.errors import ConfigError
from genar.estimate import log_mean
from genar.jobs.config import OptimizerConfig, TrainerConfig
from genar.jobs.validation import SectionPearson
from genar.metrics.distribution import negative_log_likelihood
from genar.model.condition import Spots
from genar.model.decoder import Decoder

Tensors = tuple[Tensor, ...] | list[Tensor]


class GenARModule(L.LightningModule):
    """Loss, optimiser and free-running validation around a :class:`~genar.model.decoder.Decoder`.

    Parameters
    ----------
    network
        The decoder.
    optimizer, trainer
        How to train it.
    sections
        Number of sections that are held out for validation.
    seed
        Seed of dropout and of what else is drawn; a step's depends on its number alone, so that a resumed training
        goes on as it would have.
    """

    def __init__(
        self, network: Decoder, optimizer: OptimizerConfig, trainer: TrainerConfig, sections: int = 0, seed: int = 0
    ) -> None:
        super().__init__()
        self.network, self.optimizer, self.settings, self.seed = network, optimizer, trainer, seed
        self.average: AveragedModel | None = None
        if trainer.ema:
            self.average = AveragedModel(network, multi_avg_fn=self._average).requires_grad_(False)
        self.pearson, self.nll = SectionPearson(max(sections, 1), network.scales[-1]), MeanMetric()

    @property
    def judged(self) -> Decoder:
        """The network that is validated and kept: the running average where there is one."""
        return self.network if self.average is None else cast("Decoder", self.average.module)

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        """Return the loss of one batch."""
        torch.manual_seed(
            int(np.random.SeedSequence([self.seed, self.global_step, self.global_rank]).generate_state(1)[0])
        )
        counts, spots = batch["counts"], spots_of(batch, self.device)
        if self.settings.thin_to < 1:
            log_share = math.log(self.settings.thin_to) * torch.rand_like(batch["log_library_size"])
            counts = torch.binomial(counts.float(), log_share.exp().unsqueeze(1).expand(counts.shape))
            spots = Spots(**{**vars(spots), "log_library_size": batch["log_library_size"] + log_share})
        loss = self.network.loss(spots, counts, batch.get("measured"), self.settings.free_running)
        if not loss.isfinite():
            why = f"the loss is {loss.item()} at step {self.global_step}"
            raise ConfigError("optimizer.lr", why, f"set it lower than {self.optimizer.lr:g}")
        self.log("loss", loss, prog_bar=True, batch_size=len(counts), sync_dist=True)
        return loss

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Step, and let the running average follow."""
        super().optimizer_step(*args, **kwargs)
        if self.average is not None:
            self.average.update_parameters(self.network)

    def validation_step(self, batch: dict[str, Tensor], _: int) -> None:
        """Predict one held-out batch free-running, and compare."""
        counts, measured = batch["counts"], batch.get("measured")
        if not len(counts):  # a process may get none of a last batch
            return

        def read(p: Tensor, genes: slice) -> tuple[Tensor, Tensor]:
            return log_mean(p), negative_log_likelihood(p, counts[:, genes])

        chunks = self.judged.generate(spots_of(batch, self.device), read)
        predicted, nll = (torch.cat(part, dim=1) for part in zip(*chunks, strict=True))
        known = torch.ones_like(nll, dtype=torch.bool) if measured is None else measured
        self.pearson.update(predicted, (counts + 1).log2(), batch["section"], known)
        self.log("val_pcc", self.pearson, on_step=False, on_epoch=True, prog_bar=True)
        self.nll.update(nll[known])
        self.log("val_nll", self.nll, on_step=False, on_epoch=True)

    def configure_optimizers(self) -> Any:
        """Return AdamW and its schedule."""
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            lr=self.optimizer.lr,
            weight_decay=self.optimizer.weight_decay,
            fused=self.trainer.precision == "32-true",  # Lightning clips no gradients of a fused one in bfloat16
        )
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self.optimizer.warmup)) if self.optimizer.warmup else 0
        cosine = self.optimizer.schedule == "cosine"

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup))) if cosine else 1.0

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @torch.no_grad()
    def _average(self, averages: Tensors, weights: Tensors, updates: Tensor | int) -> None:
        """Move the running average; at the start it forgets sooner, so that the first steps do not linger."""
        decay = min(self.settings.ema, (1 + float(updates)) / (10 + float(updates)))
        torch._foreach_lerp_(list(averages), list(weights), 1 - decay)
