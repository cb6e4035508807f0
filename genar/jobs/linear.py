"""The linear path of a network (:mod:`genar.model.tilt`), fitted to the training spots before the decoder is."""

from collections.abc import Sequence

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
STEPS, DAMPING, TOLERANCE = 20, 1e-3, 1e-5  # nats a spot
LEAST_VARIANCE = 0.02  # of phi around its prediction, to start from


def fit_linear(network: Decoder, table: SpotTable, views: int, seed: int) -> tuple[float, NDArray[np.int64]]:
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
    alpha
        The penalty.
    fold
        The inner fold of each spot, int64 [N]. The path of each, fitted without it, is left in the network for its
        training.
    """
    assert network.tilt is not None
    rows = table.sample(MOST_ROWS // (views + 1), seed)
    x = np.stack([_standard(network, table, rows, view) for view in range(views + 1)])
    values, known = _targets(network, table, rows)
    goal = filled(phi(values).double().numpy(), known.numpy())
    parts = inner_folds(table.section[rows])
    left_out, alpha, of_folds = _cross_fitted(x, goal, parts)
    network.tilt.fold_weight, network.tilt.fold_bias = (torch.stack(part) for part in zip(*of_folds, strict=True))
    w, bias = _ridge(x, goal, [alpha])[0]
    some = slice(None) if len(rows) <= MOST_CALIBRATED else np.linspace(0, len(rows) - 1, MOST_CALIBRATED).astype(int)
    shape = _calibrated(torch.from_numpy(left_out[some]).float(), values[some], known[some], network.tilt.phi.cpu())
    for buffer, fitted in zip(("weight", "bias"), (w, bias), strict=True):
        network.tilt.get_buffer(buffer).copy_(torch.from_numpy(fitted))
    for buffer, of_positions in zip(("offset", "slope", "width"), shape, strict=True):
        network.tilt.get_buffer(buffer).copy_(of_positions)
    return alpha, _folds(table, rows, [held for _, held in parts])


def _folds(table: SpotTable, rows: NDArray[np.int64], held: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return each spot's fold, [N], from the places among ``rows`` that each fold holds."""
    found = np.zeros(len(table), dtype=np.int64)
    for i, part in enumerate(held):
        whole = len(table.names) > 1  # sections, with the spots that were not drawn
        found[np.isin(table.section, table.section[rows[part]]) if whole else rows[part]] = i
    return found


def _standard(network: Decoder, table: SpotTable, rows: NDArray[np.int64], view: int) -> NDArray[np.float32]:
    """Return the standardised features of one view of some spots, [N, D]."""
    seen = torch.from_numpy(table.seen(rows, np.full(len(rows), view)))
    return network.condition.standard(seen).numpy()


def _targets(network: Decoder, table: SpotTable, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return the mean counts of all positions, [N, P], and which of these were measured, bool [N, P]."""
    measured = torch.from_numpy(table.measured[table.section[rows]])
    values, known = network.targets(torch.from_numpy(table.counts[rows].astype(np.int32)), measured)
    return torch.cat(values, dim=1), torch.cat([k for k in known if k is not None], dim=1)


def _cross_fitted(
    x: NDArray[np.float32], goal: Array, folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> tuple[Array, float, list[tuple[Tensor, Tensor]]]:
    """Return what is predicted of left-out spots, [N, P], the penalty that does best there, and each fold's weights."""
    predicted, fitted = np.empty((len(ALPHAS), *goal.shape)), []
    for train, held in folds:
        fitted.append(_ridge(x[:, train], goal[train], ALPHAS))
        for i, (w, bias) in enumerate(fitted[-1]):
            predicted[i, held] = x[0, held] @ w + bias
    best = int(np.square(predicted - goal).mean(axis=(1, 2)).argmin())
    chosen = [of_alphas[best] for of_alphas in fitted]
    of_folds = [(torch.from_numpy(w).float(), torch.from_numpy(bias).float()) for w, bias in chosen]
    return predicted[best], float(ALPHAS[best]), of_folds


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
    """Maximise the likelihood of some positions, which is concave in a, b and s.

    By Newton's method with Levenberg's and Marquardt's damping: a step that makes a position less likely is taken
    back, and tried again shorter.
    """
    n = weight.sum(dim=0).clamp(min=1)
    variance = (((means - first).square() * weight).sum(dim=0) / n).clamp(min=LEAST_VARIANCE)
    tried = best = torch.stack([torch.zeros_like(variance), 1 / variance, 0.5 / variance], dim=-1)  # [P, 3]
    least, damping = torch.full_like(n, torch.inf), torch.full_like(n, DAMPING)
    slope, curve = torch.zeros(len(n), 3), torch.eye(3).expand(len(n), 3, 3)
    share = weight / n
    for _ in range(STEPS):
        loss, gradient, hessian = _derivatives(tried, means, first, second, share, grid)
        gain, better = least - loss, loss <= least
        best, slope = torch.where(better[:, None], tried, best), torch.where(better[:, None], gradient, slope)
        curve, least = torch.where(better[:, None, None], hessian, curve), torch.where(better, loss, least)
        if gain.abs().max() < TOLERANCE:
            break
        damping = torch.where(better, damping / 8, damping * 8).clamp(min=1e-7)
        ridge = torch.diag_embed(curve.diagonal(dim1=-2, dim2=-1) * damping[:, None] + 1e-9)
        tried = best - torch.linalg.solve(curve + ridge, slope)
        tried[:, 2] = torch.maximum(tried[:, 2], best[:, 2] / 8)  # s stays positive
    a, b, s = best.unbind(dim=-1)
    return a, b, s


def _derivatives(
    shape: Tensor, means: Tensor, first: Tensor, second: Tensor, share: Tensor, grid: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the negative log-likelihood [P] at a, b and s, ``shape`` [P, 3], its gradient and its Hessian.

    They are the moments of an exponential family: in a, b and s the statistics of a spot are phi, m phi and -phi^2.
    """
    a, b, s = shape.unbind(dim=-1)
    logits = tilted(means, a, b, s, grid)
    normaliser = logits.logsumexp(dim=-1)
    powers = torch.stack([grid**k for k in (1, 2, 3, 4)], dim=-1)
    e1, e2, e3, e4 = ((logits - normaliser.unsqueeze(-1)).exp() @ powers).unbind(dim=-1)  # [N, P] each
    loss = ((normaliser - (a + b * means) * first + s * second) * share).sum(dim=0)
    statistics = [e1 - first, means * (e1 - first), second - e2]
    gradient = torch.stack([(each * share).sum(dim=0) for each in statistics], dim=-1)
    v11, v12, v22 = e2 - e1.square(), e1 * e2 - e3, e4 - e2.square()
    covariance = [[v11, means * v11, v12], [means * v11, means.square() * v11, means * v12], [v12, means * v12, v22]]
    hessian = torch.stack([torch.stack([(v * share).sum(dim=0) for v in row], dim=-1) for row in covariance], dim=-2)
    return loss, gradient, hessian
