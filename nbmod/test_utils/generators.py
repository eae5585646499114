"""Statistical tests of random generators against a distribution.

A generator is a function that returns a given number of samples.  Buckets are intervals (low, high)
of a continuous distribution, or values of a discrete one; `probs` are their probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ndarray.host_array import host_array

__all__ = ["chi_square_check", "gen_buckets_probs_with_ppf", "mean_check", "var_check",
           "verify_generator"]

Generator = Callable[[int], Any]


def gen_buckets_probs_with_ppf(ppf: Callable[[float], float], nbuckets: int
                               ) -> tuple[list[tuple[float, float]], list[float]]:
    """Make intervals of equal probability; returns (intervals, probabilities).

    Parameters
    ----------
    ppf : callable
        Percent point function: the inverse of the cumulative distribution function.
    nbuckets : int
        Number of intervals.

    Examples
    --------
    >>> mx.test_utils.gen_buckets_probs_with_ppf(lambda share: 10 * share, 2)
    ([(0.0, 5.0), (5.0, 10.0)], [0.5, 0.5])
    """
    edges = [ppf(i / nbuckets) for i in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True)), [1 / nbuckets] * nbuckets


def _samples(generator: Generator, nsamples: int) -> np.ndarray:
    return host_array(generator(nsamples)).astype(np.float64)


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Test whether the mean of samples is within three standard errors of `mu`.

    Parameters
    ----------
    generator : callable
        Function of the number of samples that returns them.
    mu, sigma : float
        Mean and standard deviation of the distribution.
    nsamples : int, default 1000000
        Number of samples.
    """
    return bool(abs(_samples(generator, nsamples).mean() - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Test whether the variance of normal samples is within three of its standard errors.

    Parameters
    ----------
    generator, nsamples
        As for `mean_check`.
    sigma : float
        Standard deviation of the distribution.
    """
    deviation = math.sqrt(2 * sigma ** 4 / (nsamples - 1))
    variance = _samples(generator, nsamples).var(ddof=1)
    return bool(abs(variance - sigma ** 2) < 3 * deviation)


def chi_square_check(generator: Generator, buckets: Sequence, probs: Sequence[float],
                     nsamples: int = 1000000) -> tuple[float, np.ndarray, np.ndarray]:
    """Pearson's chi-square test of counts: (p-value, observed counts, expected counts).

    Parameters
    ----------
    generator, nsamples
        As for `mean_check`.
    buckets : list of tuple of float or list of float
        Intervals (low, high), or values.
    probs : list of float
        Their probabilities.

    Raises
    ------
    ValueError
        If there are no buckets, or not as many probabilities.
    """
    if not buckets or len(buckets) != len(probs):
        raise ValueError(f"chi_square_check: {len(buckets)} buckets and {len(probs)} probabilities")
    samples = _samples(generator, nsamples).reshape(-1)
    if isinstance(buckets[0], (tuple, list)):
        counts = [np.count_nonzero((low <= samples) & (samples < high)) for low, high in buckets]
    else:
        counts = [np.count_nonzero(samples == value) for value in buckets]
    observed, expected = np.array(counts), len(samples) * np.asarray(probs, np.float64)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(buckets) - 1), observed, expected


def verify_generator(generator: Generator, buckets: Sequence, probs: Sequence[float],
                     nsamples: int = 1000000, nrepeat: int = 5, success_rate: float = 0.2,
                     alpha: float = 0.05) -> list[float]:
    """AssertionError unless enough repeated chi-square tests succeed.

    Parameters
    ----------
    generator : callable
        Function of the number of samples that returns them.
    buckets, probs
        As for `chi_square_check`.
    nsamples : int, default 1000000
        Number of samples of a test.
    nrepeat : int, default 5
        Number of tests.
    success_rate : float, default 0.2
        Fraction of the tests that must succeed.
    alpha : float, default 0.05
        Significance level: a test with a larger p-value succeeds.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    tails = [tail for tail, _, _ in results]
    if sum(tail > alpha for tail in tails) < nrepeat * success_rate:
        raise AssertionError(
            f"generator failed: probabilities {tails} in {nrepeat} tests, expected at least "
            f"{success_rate:.0%} above {alpha}.\nCounts: {results[-1][1]}\nExpected: "
            f"{results[-1][2]}")
    return tails


def chi_square_tail(statistic: float, freedom: int) -> float:
    """The survival function of the chi-square distribution: Q(freedom / 2, statistic / 2).

    A series for small arguments and Lentz's continued fraction for large ones (DLMF 8.7.1, 8.9.2).

    Parameters
    ----------
    statistic : float
        Value of the statistic.
    freedom : int
        Degrees of freedom.
    """
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while abs(term) > 1e-16 * total:
            n += 1
            term *= x / n
            total += term
        return 1 - scale * total
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 10000):
        b += 2
        factor = i * (a - i)
        d = 1 / (factor * d + b or tiny)
        c = b + factor / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return scale * fraction
