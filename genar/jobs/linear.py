"""The linear path of a network (:mod:`genar.model.tilt`), fitted to the training spots before the decoder is."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve
from torch import Tensor

from genar.data.folds import inner_folds
from genar.data.spots import SpotTable, filled
from genar.model.decoder import Decoder
from genar.model.tilt import phi, tilted

Array = NDArray[np.float64]

ALPHAS = np.geomspace(1e3, 1e5, 9)
MOST_ROWS, MOST_CALIBRATED = 20_000, 2_000  # spots, each view of one counting, and spots without views
POSITIONS = 50  # calibrated at once
STEPS = 30
LEAST_VARIANCE = 0.02  # of phi around its prediction, to start from


def fit_linear(network: Decoder, table: SpotTable, views: int, seed: int) -> float:
    """Fit the linear path of a network in place.

    Every position's phi(c) = log2(c + 1), of its group's mean count, is regressed on the standardised features, in
    all views alike. The penalty is the one of :data:`ALPHAS` that does best on left-out training sections; what it
    predicts of these also says, by maximum likelihood, how far a prediction may be believed (a, b and s).

    Parameters
    ----------
    network
        The network, with the moments of its features.
    table
        Its training spots.
    views
        Number of augmented views of each.
    seed
        Seed of which spots are taken, of very many.

    Returns
    -------
    The penalty.
    """
    assert network.tilt is not None
    rows = table.sample(MOST_ROWS // (views + 1), seed)
    x = np.stack([_standard(network, table, rows, view) for view in range(views + 1)])
    values, known = _targets(network, table, rows)
    goal = filled(phi(values).double().numpy(), known.numpy())
    left_out, alpha = _cross_fitted(x, goal, table.section[rows])
    w, bias = _ridge(x, goal, [alpha])[0]
    some = slice(None) if len(rows) <= MOST_CALIBRATED else np.linspace(0, len(rows) - 1, MOST_CALIBRATED).astype(int)
    shape = _calibrated(torch.from_numpy(left_out[some]).float(), values[some], known[some], network.tilt.phi.cpu())
    for buffer, fitted in zip(("weight", "bias"), (w, bias), strict=True):
        network.tilt.get_buffer(buffer).copy_(torch.from_numpy(fitted))
    for buffer, of_positions in zip(("offset", "slope", "width"), shape, strict=True):
        network.tilt.get_buffer(buffer).copy_(of_positions)
    return alpha


def _standard(network: Decoder, table: SpotTable, rows: NDArray[np.int64], view: int) -> NDArray[np.float32]:
    """Return the standardised features of one view of some spots, [N, D]."""
    seen = torch.from_numpy(table.seen(rows, np.full(len(rows), view)))
    return network.condition.standard(seen).numpy()


def _targets(network: Decoder, table: SpotTable, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return the mean counts of all positions, [N, P], and which of these were measured, bool [N, P]."""
    measured = torch.from_numpy(table.measured[table.section[rows]])
    values, known = network.targets(torch.from_numpy(table.counts[rows].astype(np.int32)), measured)
    return torch.cat(values, dim=1), torch.cat([k for k in known if k is not None], dim=1)


def _cross_fitted(x: NDArray[np.float32], goal: Array, section: NDArray[np.int64]) -> tuple[Array, float]:
    """Return what is predicted of left-out spots, [N, P], with the penalty that does best there."""
    predicted = np.empty((len(ALPHAS), *goal.shape))
    for train, held in inner_folds(section):
        for i, (w, bias) in enumerate(_ridge(x[:, train], goal[train], ALPHAS)):
            predicted[i, held] = x[0, held] @ w + bias
    best = int(np.square(predicted - goal).mean(axis=(1, 2)).argmin())
    return predicted[best], float(ALPHAS[best])


def _ridge(x: NDArray[np.float32], goal: Array, alphas: NDArray[np.float64] | list[float]) -> list[tuple[Array, Array]]:
    """Return weights [D, P] and biases [P] for each penalty, of views ``x`` [V, N, D] that count 1/V each."""
    mean_x, mean_y = x.mean(axis=(0, 1), dtype=np.float64), goal.mean(axis=0)
    gram, cross = np.zeros((x.shape[2],) * 2), np.zeros((x.shape[2], goal.shape[1]))
    for view in x:
        centred = view - mean_x.astype(np.float32)
        gram += centred.T @ centred / len(x)
        cross += centred.T @ (goal - mean_y) / len(x)
    found = []
    for alpha in alphas:
        w = solve(gram + alpha * np.eye(len(gram)), cross, assume_a="pos")
        found.append((w, mean_y - mean_x @ w))
    return found


def _calibrated(means: Tensor, values: Tensor, known: Tensor, grid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a, b and s, [P] each, that make the measured ``values`` [N, P] likeliest given the ``means`` [N, P].

    A value between two counts is taken as a mixture of both.
    """
    low = values.floor()
    upper = values - low
    first = (1 - upper) * phi(low) + upper * phi(low + 1)  # the means of phi and of its square
    second = (1 - upper) * phi(low).square() + upper * phi(low + 1).square()
    parts = []
    for start in range(0, means.shape[1], POSITIONS):
        rows = slice(start, start + POSITIONS)
        parts.append(_likeliest(means[:, rows], first[:, rows], second[:, rows], known[:, rows].float(), grid))
    a, b, s = (torch.cat(part) for part in zip(*parts, strict=True))
    return a, b, s


def _likeliest(
    means: Tensor, first: Tensor, second: Tensor, weight: Tensor, grid: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Maximise the likelihood of some positions, which is concave in a, b and s."""
    n = weight.sum(dim=0).clamp(min=1)
    variance = (((means - first).square() * weight).sum(dim=0) / n).clamp(min=LEAST_VARIANCE)
    a, b, log_s = torch.zeros_like(variance), 1 / variance, (0.5 / variance).log()
    free = [t.requires_grad_() for t in (a, b, log_s)]
    search = torch.optim.LBFGS(free, max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        normaliser = tilted(means, a, b, log_s.exp(), grid).logsumexp(dim=-1)
        each = normaliser - (a + b * means) * first + log_s.exp() * second
        total = (each * weight / n).sum()
        total.backward()
        return total

    search.step(loss)
    return a.detach(), b.detach(), log_s.detach().exp()
