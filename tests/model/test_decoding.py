"""How a distribution is narrowed, and how a count is drawn from it."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from genar.model.decoding import Decoding, draw

P = torch.rand(6, 5, 17, generator=torch.Generator().manual_seed(0), dtype=torch.float64).pow(4)
P = P / P.sum(-1, keepdim=True)


def sharpened(p: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """One distribution, narrowed step by step."""
    p = p ** (1 / temperature)
    p = p / p.sum()
    kept, held = np.zeros_like(p), 0.0
    for rank, token in enumerate(np.argsort(-p, kind="stable")):
        if held >= top_p or rank >= (top_k or len(p)):
            break
        kept[token] = p[token]
        held += p[token]
    return kept / kept.sum()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [0, 1, 4, 99])
@pytest.mark.parametrize("top_p", [1e-9, 0.5, 0.9, 1.0])
def test_a_distribution_is_narrowed(temperature: float, top_k: int, top_p: float) -> None:
    decoding = Decoding(temperature=temperature, top_k=top_k, top_p=top_p)
    expected = np.apply_along_axis(sharpened, -1, P.numpy(), temperature, top_k, top_p)
    np.testing.assert_allclose(decoding.sharpen(P), expected, rtol=1e-9, atol=1e-15)


def test_nothing_is_drawn_where_nothing_was() -> None:
    p = torch.tensor([0.0, 0.5, 0.0, 0.5])
    assert Decoding(temperature=0.01).sharpen(p).tolist() == [0.0, 0.5, 0.0, 0.5]
    assert Decoding(top_k=3).sharpen(p).tolist() == [0.0, 0.5, 0.0, 0.5]


def test_of_equals_the_smaller_count_stays() -> None:
    assert Decoding(top_k=1).sharpen(torch.full((4,), 0.25)).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_draw_inverts_the_distribution_function() -> None:
    p = torch.tensor([0.25, 0.0, 0.5, 0.25])
    uniform = torch.tensor([0.1, 0.2499, 0.2501, 0.7499, 0.7501, 0.9999])
    assert draw(p.expand(6, -1), uniform).tolist() == [0, 0, 2, 2, 3, 3]


def test_draws_are_as_frequent_as_they_are_probable() -> None:
    p = P[0, 0]
    uniform = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    shares = torch.bincount(draw(p.expand(20_000, -1), uniform), minlength=17) / 20_000
    np.testing.assert_allclose(shares, p, atol=1e-4)


def test_a_count_of_no_probability_is_never_drawn() -> None:
    assert draw(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0.0])) == 1
    rounded = torch.tensor([[0.5, 0.5 - 2**-22, 0.0]])  # sums of float32 end a little off 1
    assert draw(rounded, torch.tensor([1 - 2**-24])) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_samples": 2},
        {"n_samples": 2, "rule": "greedy"},
        {"n_samples": 0},
        {"temperature": 0.0},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"rule": "best"},
    ],
    ids=str,
)
def test_options_that_cannot_be(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Decoding.model_validate(options)


def test_several_paths_are_sampled_ones() -> None:
    assert Decoding(rule="sample", n_samples=2).n_samples == 2
    with pytest.raises(ValidationError, match='2 n_samples need the rule "sample"'):
        Decoding(n_samples=2)
