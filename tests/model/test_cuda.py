"""A CUDA device gives what the CPU gives."""

from dataclasses import fields

import pytest
import torch

from genar.model.condition import Spots
from genar.model.decoder import Choice, Decoder
from genar.model.decoding import Decoding

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
EVERYTHING = {"position": "relative_um", "neighbours": 4, "library_size": True}
FORMS = {
    "block_causal": EVERYTHING,
    "whole": EVERYTHING | {"gene_layers": 2, "gene_attention": "scale"},
    "ordinal": EVERYTHING | {"distribution": "ordinal"},
    "cumulative": EVERYTHING | {"decoder": "cumulative", "handed_on": "greedy"},
}
COUNTS = torch.arange(21).view(3, 7)


def on(spots: Spots, device: str) -> Spots:
    return Spots(*(getattr(spots, f.name).float().to(device) for f in fields(Spots)))


def probabilities(net: Decoder, spots: Spots, choice: Choice | None = None) -> torch.Tensor:
    return torch.cat(net.generate(spots, lambda p, _: p, choice), dim=1).cpu()


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def pair(request, network) -> tuple[Decoder, Decoder]:
    """The same network on the CPU and on the device, in float32 without TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield network(**request.param).float(), network(**request.param).float().cuda()
    torch.set_float32_matmul_precision(before)


def test_loss_and_gradient_are_those_of_the_cpu(pair, spots) -> None:
    cpu, cuda = pair
    expected = cpu.loss(on(spots(), "cpu"), COUNTS)
    found = cuda.loss(on(spots(), "cuda"), COUNTS.cuda())
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    expected.backward()
    found.backward()
    for a, b in zip(cpu.parameters(), cuda.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad.cpu(), rtol=1e-3, atol=1e-4 * a.grad.abs().max().item())


def test_generation_is_that_of_the_cpu(pair, spots) -> None:
    cpu, cuda = pair
    for rule in ("expected", "greedy"):
        choice = Choice(rule)
        expected = probabilities(cpu, on(spots(), "cpu"), choice)
        assert torch.allclose(probabilities(cuda, on(spots(), "cuda"), choice), expected, atol=1e-4)


def test_sampled_paths_are_those_of_the_cpu(pair, spots) -> None:
    cpu, cuda = pair
    uniform = torch.rand(3, 4, 14, generator=torch.Generator().manual_seed(0))
    decoding = Decoding(rule="sample", n_samples=4, top_p=0.9)
    expected = probabilities(cpu, on(spots(), "cpu"), Choice("sample", uniform, decoding))
    found = probabilities(cuda, on(spots(), "cuda"), Choice("sample", uniform.cuda(), decoding))
    assert torch.allclose(found, expected, atol=1e-4)


def test_half_precision_loses_little(pair, spots) -> None:
    _, cuda = pair
    exact = cuda.loss(on(spots(), "cuda"), COUNTS.cuda())
    with torch.autocast("cuda", torch.bfloat16):
        half = cuda.loss(on(spots(), "cuda"), COUNTS.cuda())
    half.backward()
    assert half.item() == pytest.approx(exact.item(), rel=0.02)
    assert all(p.grad is None or p.grad.isfinite().all() for p in cuda.parameters())
