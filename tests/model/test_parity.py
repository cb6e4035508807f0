"""The cumulative decoder against outputs of the published code."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from genar.model.condition import Spots
from genar.model.cumulative import Cumulative
from genar.model.decoder import Choice
from genar.published import network

HERE = os.environ.get("GENAR_PARITY_DIR") or str(Path(os.environ.get("GENAR_SHARED", "../shared")) / "parity")
CASES = sorted(p.with_suffix("") for p in Path(HERE).glob("*.safetensors"))


def test_cases_are_there():
    if not CASES and not os.environ.get("CI"):
        pytest.skip(f"no cases of the published model in {HERE}")
    assert CASES, f"no cases of the published model in {HERE}"


@pytest.fixture(params=CASES, ids=lambda p: p.name)
def case(request) -> tuple[Cumulative, dict[str, np.ndarray]]:
    path = request.param
    model = network(
        json.loads(path.with_suffix(".json").read_text()), load_file(path.with_suffix(".safetensors")), path
    )
    return model, dict(np.load(path.with_suffix(".npz")))


def spots(data: dict[str, np.ndarray]) -> Spots:
    return Spots(torch.from_numpy(data["histology"]).float(), torch.from_numpy(data["coords"]).float())


def values(model: Cumulative, data: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """Group means of the target, which is on the scale of the distribution's values already."""
    target = torch.from_numpy(data["target"]).float().clamp(0, model.max_count)
    return [model.pool(target.T, k).T for k in range(len(model.scales))]


def counts(model: Cumulative, data: dict[str, np.ndarray]) -> torch.Tensor:
    target = torch.from_numpy(data["target"]).double()
    return target.expm1() if model.config.distribution in ("mse", "gaussian_nll") else target


def close(ours: torch.Tensor, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-4, atol=1e-5)


def test_condition(case):
    model, data = case
    close(model.condition(spots(data)), data["condition"])


def test_teacher_forced(case):
    model, data = case
    outputs = model(spots(data), values(model, data)[:-1])
    for k, out in enumerate(outputs):
        close(out, data[f"teacher_forced_head_output_scale{k}"])
    if model.config.distribution in ("mse", "gaussian_nll"):
        close(model.distribution.expected(outputs[-1]), data["teacher_forced_predictions"])
    else:
        assert np.array_equal(outputs[-1].argmax(-1).numpy(), data["teacher_forced_predictions"])


def test_free_running(case):
    model, data = case
    with torch.no_grad():
        outputs = model.free_run(spots(data), Choice("greedy"))
    for k, out in enumerate(outputs):
        close(out, data[f"free_running_head_output_scale{k}"])
    if model.config.distribution in ("mse", "gaussian_nll"):
        close(model.distribution.expected(outputs[-1]), data["generated"])
    else:
        (tokens,) = model.generate(spots(data), lambda p, _: p.argmax(-1))
        assert np.array_equal(tokens.numpy(), data["generated"])


def test_loss_and_its_gradient(case):
    model, data = case
    loss = model.loss(spots(data), counts(model, data).float())
    close(loss, data["loss"])
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    close(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])), data["grad_norm"])


def test_loss_of_the_last_scale(case):
    model, data = case
    target = values(model, data)
    last = model(spots(data), target[:-1])[-1]
    close(model.distribution.loss(last, target[-1], last=True).sum(dim=1).mean(), data["loss_final"])
