"""Statistics of paired rounds: an interval of a ratio, and the verdict it allows.

A round times each arm once, so that the ratio of two arms in one round is free of every influence
that lasts longer than a round.  All functions here are pure functions of such ratios, and can be
tested on simulated ones.

*The interval* is that of order statistics (Thompson 1936): between the k-th smallest and the k-th
largest of n values lies their median with a probability that the binomial distribution gives, for
every continuous distribution of the values.  A bootstrap of the median cannot resolve the small
probabilities that repeated looks need (see below), and is wrong for few rounds.

*Batches*: rounds may be correlated with their neighbours (a frequency step, a busy neighbour), and
then carry less than as many independent ones.  From `BATCHES` rounds on, the values that count are
medians of consecutive batches, as in the analysis of simulations (Law and Carson 1979).

*Looks*: a measurement is judged after 10, 20, 40, ... rounds and stops at the first clear answer.
Each look has a chance to err, so the k-th look has 6 / (pi k)^2 of the error that is allowed in
all: however many looks there are, their sum is at most that error.

*Verdicts*: the null run, two arms of one function, gives the noise floor, the ratio that equal code
may show here.  FASTER and SLOWER need an interval that lies outside of the floor, and outside of
the smallest effect of interest; SAME needs both intervals inside of the smallest effect.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BATCHES", "ERROR", "SMALLEST_EFFECT", "Interval", "Judgement", "Verdict", "batches",
           "error_of_look", "is_look", "judge", "median_interval", "outlier_share"]

ERROR = 0.01
"""Probability that an interval misses the true ratio at any of the looks."""
SMALLEST_EFFECT = 0.02
"""Ratios closer to 1 are of no interest, unless the caller says otherwise."""
FIRST_LOOK = 10
BATCHES = 64
"""Fewest batches that a longer run is divided into; there are less than twice as many."""
OUTLIER = 1.5
"""Blocks that take this many medians were probably interrupted by another process."""


class Verdict(str, enum.Enum):
    """How the time of a function compares with that of its baseline."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Interval:
    """The median of some values, and the bounds between which the true median lies."""

    low: float
    median: float
    high: float

    @property
    def reach(self) -> float:
        """The largest distance of a bound from 0."""
        return max(abs(self.low), abs(self.high))

    def is_outside(self, radius: float) -> bool:
        """Whether all of it lies farther than `radius` from 0, on one side."""
        return self.low > radius or self.high < -radius

    def inverse(self) -> Interval:
        """The interval of the inverse ratio."""
        return Interval(*(1 / each if each else math.inf
                          for each in (self.high, self.median, self.low)))

    def exp(self) -> Interval:
        """The interval of ratios whose logarithms this one is about."""
        return Interval(math.exp(self.low), math.exp(self.median), math.exp(self.high))


@dataclass(frozen=True)
class Judgement:
    """The verdict that the rounds so far allow.

    Attributes
    ----------
    verdict
        FASTER, SLOWER, SAME or UNDECIDED.
    ratio : Interval
        Time of the function over that of the baseline.
    noise : float
        The noise floor: 0.01 where two arms of equal code may differ by 1%.
    more_rounds : int
        About how many more rounds an answer takes; 0 once there is one.
    """

    verdict: Verdict
    ratio: Interval
    noise: float
    more_rounds: int


def is_look(rounds: int) -> bool:
    """Whether a run is judged after so many rounds: 10, 20, 40, ..."""
    return rounds >= FIRST_LOOK and rounds % FIRST_LOOK == 0 and (
        (rounds // FIRST_LOOK).bit_count() == 1)


def error_of_look(rounds: int, error: float = ERROR) -> float:
    """The share of `error` that may be spent at this look; their sum over all looks is `error`."""
    look = max(1, math.ceil(math.log2(max(rounds, 1) / FIRST_LOOK)) + 1)
    return error * 6 / (math.pi * look) ** 2


def batches(values: ArrayLike) -> NDArray[np.float64]:
    """Medians of at least `BATCHES` consecutive batches of equal size; few values as they are.

    The oldest values that do not fill a batch are left out: fewer than one batch.
    """
    values = np.asarray(values, np.float64)
    size = max(1, len(values) // BATCHES)
    return np.median(values[len(values) % size:].reshape(-1, size), axis=1)


def median_interval(values: ArrayLike, error: float) -> Interval:
    """The distribution-free interval of the median of independent values.

    Parameters
    ----------
    values : array_like
        Shape (n,).
    error : float
        Probability that the true median lies outside of the bounds.

    Returns
    -------
    Interval
        Its bounds are infinite where `n` is too small for that probability.

    Examples
    --------
    >>> from nbmod.bench.statistics import median_interval
    >>> median_interval([3, 1, 2, 5, 4, 6, 7, 8, 9, 10], error=0.05)
    Interval(low=2.0, median=5.5, high=9.0)
    """
    ordered = np.sort(np.asarray(values, np.float64))
    rank = _rank(len(ordered), error)
    if not rank:
        return Interval(-math.inf, float(np.median(ordered)) if len(ordered) else math.nan,
                        math.inf)
    return Interval(float(ordered[rank - 1]), float(np.median(ordered)), float(ordered[-rank]))


def _rank(count: int, error: float) -> int:
    """The largest k that an interval may have; 0 if there is none.

    At most k - 1 of `count` fair coins show heads with a probability of error / 2 or less.
    """
    logs = (math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1)
            - count * math.log(2) for heads in range(count // 2 + 1))
    total = 0.0
    for heads, log in enumerate(logs):
        total += math.exp(log)
        if total > error / 2:
            return heads
    return (count + 1) // 2


def judge(ratios: ArrayLike, null_ratios: ArrayLike, smallest: float = SMALLEST_EFFECT,
          error: float = ERROR) -> Judgement:
    """Judge the rounds of a run so far.

    Parameters
    ----------
    ratios : array_like
        Shape (rounds,): time of the function over that of the baseline, in each round.
    null_ratios : array_like
        Shape (rounds,): that of one arm of the baseline over another.
    smallest : float
        The smallest effect of interest.
    error : float
        See `ERROR`.
    """
    logs, nulls = np.log(np.asarray(ratios)), np.log(np.asarray(null_ratios))
    spent = error_of_look(len(logs), error)
    interval, null = (median_interval(batches(each), spent) for each in (logs, nulls))
    effect = math.log1p(smallest)
    floor = max(effect, null.reach)
    if interval.is_outside(floor):
        verdict = Verdict.SLOWER if interval.low > 0 else Verdict.FASTER
    elif max(interval.reach, null.reach) < effect:
        verdict = Verdict.SAME
    else:
        verdict = Verdict.UNDECIDED
    more = _more_rounds(interval, null, effect, len(logs)) if verdict is Verdict.UNDECIDED else 0
    return Judgement(verdict, interval.exp(), math.expm1(null.reach), more)


def _more_rounds(interval: Interval, null: Interval, effect: float, rounds: int) -> int:
    """Rounds until the bounds leave the border of `effect`: they shrink as 1 / sqrt(rounds)."""
    width = max(interval.high - interval.low, null.high - null.low) / 2
    distance = abs(abs(interval.median) - effect)
    if not math.isfinite(width):
        return rounds
    shortfall = width / max(distance, width / 10)
    return max(rounds, math.ceil(rounds * (shortfall ** 2 - 1)))


def outlier_share(seconds: ArrayLike) -> float:
    """The share of blocks that took much longer than their median."""
    seconds = np.asarray(seconds, np.float64)
    return float(np.mean(seconds > OUTLIER * np.median(seconds))) if seconds.size else 0.0
