"""The likelihood of measured counts around predicted means, for methods that predict no distribution."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from genar.metrics.values import Numbers

LEAST_MEAN = 1e-3  # counts: a predicted mean of 0 or less would make any measured count impossible
LEAST_DISPERSION = 1e-8  # below it the law is a Poisson one, to the precision of float64
BLOCK = 1 << 21  # cells that are looked at at once


@dataclass(frozen=True)
class Training:
    """What judging takes from the training counts.

    Parameters
    ----------
    mean
        Mean count of each gene, float64 [G].
    dispersion
        Dispersion a of each gene, variance = mean + a mean^2, float64 [G]; 0 for a Poisson law.
    """

    mean: NDArray[np.float64]
    dispersion: NDArray[np.float64]

    @classmethod
    def of(cls, counts: Numbers, measured: NDArray[np.bool_] | None = None) -> "Training":
        """Estimate both from training counts.

        Parameters
        ----------
        counts
            [N, G].
        measured
            Which cells count, bool [N, G], where sections lack genes; by default all. A gene that none measured gets
            0 for both.
        """
        step = max(1, BLOCK // max(len(counts), 1))
        blocks = [slice(i, i + step) for i in range(0, counts.shape[1], step)]
        parts = [_moments(counts[:, b], None if measured is None else measured[:, b]) for b in blocks]
        mean, variance = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0))
        return cls(mean, dispersion_of(mean, variance))

    def genes(self, columns: slice | NDArray[np.integer] | NDArray[np.bool_]) -> "Training":
        """Return that of some genes."""
        return Training(self.mean[columns], self.dispersion[columns])


def _moments(counts: Numbers, measured: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Return mean and unbiased variance of each gene, float64 [2, G], over its ``measured`` cells."""
    seen = np.ones(counts.shape, dtype=bool) if measured is None else measured
    number = seen.sum(axis=0)
    mean = np.where(seen, counts, 0.0).sum(axis=0) / np.maximum(number, 1)
    squares = np.where(seen, counts - mean, 0.0) ** 2
    return np.stack([mean, squares.sum(axis=0) / np.maximum(number - 1, 1)])


def dispersion_of(mean: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the dispersion a by the method of moments, variance = mean + a mean^2, [...]; 0 where none is left."""
    return np.asarray(np.maximum(variance - mean, 0) / np.where(mean > 0, mean, 1.0) ** 2, dtype=np.float64)


def dispersions(train_counts: Numbers) -> NDArray[np.float64]:
    """Return each gene's dispersion, float64 [G], of training counts [N, G]; see :class:`Training`."""
    return Training.of(train_counts).dispersion


def nb_nll(measured: NDArray[np.integer], mean: Numbers, dispersion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the negative log-likelihood, nats, of negative binomials.

    As that of :data:`scipy.stats.nbinom` with n = 1/a and p = 1/(1 + a mean); Poisson where a is 0.

    Parameters
    ----------
    measured
        Counts, int [N, G].
    mean
        Predicted means, [N, G]; at least :data:`LEAST_MEAN` is taken.
    dispersion
        Of each gene, a, [G].

    Returns
    -------
    float64 [N, G].
    """
    mu = np.maximum(np.asarray(mean, dtype=np.float64), LEAST_MEAN)
    poisson = dispersion < LEAST_DISPERSION
    a = np.where(poisson, 1.0, dispersion)
    spread: NDArray[np.float64] = np.where(poisson, mu, (measured + 1 / a) * np.log1p(a * mu))
    return spread - measured * np.log(mu) - _log_coefficient(measured, a, poisson)


def _log_coefficient(
    counts: NDArray[np.integer], a: NDArray[np.float64], poisson: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return what of the log-likelihood knows no mean, [N, G]: looked up where counts are fewer than spots."""

    def of(y: NDArray[np.integer]) -> NDArray[np.float64]:
        rise = gammaln(y + 1 / a) - gammaln(1 / a) + y * np.log(a)
        return np.asarray(np.where(poisson, 0.0, rise) - gammaln(y + 1.0), dtype=np.float64)

    top = int(counts.max(initial=0)) + 1
    if top >= len(counts):
        return of(counts)
    return np.take_along_axis(of(np.arange(top)[:, None]), counts.astype(np.intp, copy=False), axis=0)
