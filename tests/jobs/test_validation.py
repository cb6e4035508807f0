"""The correlation that training is stopped by, against those of the reports and of torchmetrics."""

import numpy as np
import pytest
import torch
from torchmetrics import PearsonCorrCoef

from genar import metrics
from genar.jobs.validation import SectionPearson


@pytest.fixture
def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    measured = torch.poisson(torch.rand(60, 5, generator=g) * 40 + 0.5, generator=g).add(1).log2()
    return measured + torch.randn(60, 5, generator=g), measured


def test_it_agrees_with_the_reports_and_torchmetrics_whatever_the_batches(pairs) -> None:
    predicted, measured = pairs
    section = torch.arange(60) % 2
    found = SectionPearson(2, 5)
    for rows in torch.randperm(60).split(7):
        found.update(predicted[rows], measured[rows], section[rows], torch.ones(len(rows), 5, dtype=torch.bool))
    by_hand = [
        metrics.pearson(predicted[section == s].double().numpy(), measured[section == s].double().numpy())
        for s in (0, 1)
    ]
    assert float(found.compute()) == pytest.approx(np.mean(by_hand), rel=1e-9)
    theirs = [PearsonCorrCoef(5)(predicted[section == s], measured[section == s]) for s in (0, 1)]
    assert float(found.compute()) == pytest.approx(float(torch.stack(theirs).mean()), rel=1e-4)


def test_what_is_constant_counts_as_nothing_and_what_was_not_measured_not_at_all(pairs) -> None:
    predicted, measured = pairs
    whole = SectionPearson(1, 5)
    known = torch.ones(60, 5, dtype=torch.bool)
    where = torch.zeros(60, dtype=torch.int64)
    whole.update(predicted, measured, where, known)
    each = metrics.pearson(predicted.double().numpy(), measured.double().numpy())
    constant = SectionPearson(1, 5)
    constant.update(predicted.index_fill(1, torch.tensor([2]), 1 / 3), measured, where, known)
    assert float(constant.compute()) == pytest.approx(np.delete(each, 2).sum() / 5)
    absent = SectionPearson(1, 5)
    absent.update(predicted, measured, where, known.index_fill(1, torch.tensor([2]), False))
    assert float(absent.compute()) == pytest.approx(np.delete(each, 2).mean())
    assert float(whole.compute()) == pytest.approx(each.mean())
