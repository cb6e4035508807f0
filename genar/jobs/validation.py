"""What is measured of held-out spots while training goes on."""

import torch
from torch import Tensor
from torchmetrics import Metric

FLAT = 1e-12  # variance over squared mean at which rounding cannot be told from variation


class SectionPearson(Metric):
    """Mean over sections and genes of the Pearson correlation over a section's spots, batch by batch.

    A gene that is constant on either side counts as 0, one that a section did not measure not at all.

    Parameters
    ----------
    sections, genes
        How many there are.
    """

    full_state_update = False

    def __init__(self, sections: int, genes: int) -> None:
        super().__init__()
        self.sums: Tensor
        self.add_state("sums", torch.zeros(sections, 6, genes, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predicted: Tensor, measured: Tensor, section: Tensor, known: Tensor) -> None:
        """Add spots.

        Parameters
        ----------
        predicted, measured
            Values, [B, G].
        section
            The section of each spot, int [B].
        known
            Which genes were measured, bool [B, G].
        """
        x, y, weight = predicted.double(), measured.double(), known.double()
        parts = torch.stack([weight, weight * x, weight * y, weight * x * x, weight * y * y, weight * x * y], dim=1)
        self.sums.index_add_(0, section, parts)

    def compute(self) -> Tensor:
        """Return the mean correlation."""
        n, x, y, xx, yy, xy = self.sums.unbind(dim=1)
        count = n.clamp(min=1)
        mean_x, mean_y = x / count, y / count
        var_x, var_y = xx / count - mean_x**2, yy / count - mean_y**2
        flat = (var_x <= FLAT * mean_x**2) | (var_y <= FLAT * mean_y**2)
        pcc = (xy / count - mean_x * mean_y) / (var_x * var_y).clamp(min=0).sqrt()
        return torch.where(flat, 0.0, pcc)[n > 0].mean()
