"""The kernel bench's statistics: coverage of intervals, false alarms and power, on simulated
rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbmod.bench.rounds import Rounds
from nbmod.bench.statistics import (
    ERROR,
    Interval,
    Verdict,
    batches,
    error_of_look,
    is_look,
    judge,
    median_interval,
    outlier_share,
)

LOOKS = [10 * 2 ** k for k in range(10)]


def simulated(generator, count, ratio=1.0, interrupted=0.1):
    """Rounds of two arms: noise of 2% that is normal, and blocks that another process interrupts,
    by a share of all; a drift slower than a round acts on both arms."""
    noise = generator.normal(0, 0.02, (count, 4))
    stopped = generator.random((count, 4)) < interrupted
    noise += stopped * generator.exponential(0.7, (count, 4))
    noise += np.cumsum(generator.normal(0, 0.01, count))[:, None]
    noise[:, [0, 2]] += math.log(ratio)
    rounds = Rounds(["a", "b"] * 2, [1] * 4)
    for row in np.exp(noise).tolist():
        rounds.add(row, [0, 1, 2, 3])
    return rounds


def answer(rounds):
    """The judgement at the first look that has one."""
    ratios, nulls = rounds.ratios, rounds.null_ratios
    for look in LOOKS:
        judgement = judge(ratios[:look], nulls[:look])
        if judgement.verdict is not Verdict.UNDECIDED or look >= len(rounds):
            return judgement
    raise AssertionError


@pytest.mark.parametrize("count, error", [(10, 0.05), (31, 0.05), (100, 0.01)])
def test_an_interval_misses_the_median_as_rarely_as_it_says(count, error):
    generator = np.random.default_rng(count)
    intervals = [median_interval(generator.exponential(size=count), error) for _ in range(2000)]
    missed = np.mean([not each.low <= math.log(2) <= each.high for each in intervals])
    # Three standard deviations of a share of 2,000.
    assert missed <= error + 3 * math.sqrt(error / 2000)
    assert all(each.low <= each.median <= each.high for each in intervals)


def test_few_values_have_no_bounds():
    assert median_interval([1.0, 2.0], 0.01) == Interval(-math.inf, 1.5, math.inf)
    assert math.isnan(median_interval([], 0.01).median)


@given(st.integers(1, 300), st.floats(1e-6, 0.5))
def test_a_smaller_error_needs_a_wider_interval(count, error):
    values = np.random.default_rng(count).integers(0, 50, count)   # with ties
    wide, narrow = median_interval(values, error / 2), median_interval(values, error)
    assert wide.low <= narrow.low <= narrow.median <= narrow.high <= wide.high


def test_all_looks_together_spend_the_error():
    assert [n for n in range(200) if is_look(n)] == [10, 20, 40, 80, 160]
    assert sum(error_of_look(10 * 2 ** k) for k in range(60)) <= ERROR
    assert error_of_look(79) == error_of_look(80)   # a run that the clock ended before its look


@given(st.integers(1, 1000))
def test_batches_are_between_64_and_128(count):
    kept = batches(np.arange(count))
    assert len(kept) == count if count < 128 else 64 <= len(kept) < 128
    assert kept[-1] > count - 1 - max(1, count // 64)   # the newest values count


def test_equal_functions_are_not_called_different():
    """1% of 200 may be; a run that compares with the mean of two baselines has 30% here."""
    generator = np.random.default_rng(5)
    verdicts = [answer(simulated(generator, 640)).verdict for _ in range(200)]
    assert sum(each in (Verdict.FASTER, Verdict.SLOWER) for each in verdicts) <= 2
    assert verdicts.count(Verdict.SAME) > 150


@pytest.mark.parametrize("ratio, verdict, power", [
    (1.05, Verdict.SLOWER, 0.95), (1 / 1.05, Verdict.FASTER, 0.95), (1.03, Verdict.SLOWER, 0.8)])
def test_slowdowns_are_noticed(ratio, verdict, power):
    generator = np.random.default_rng(6)
    answers = [answer(simulated(generator, 2560, ratio)) for _ in range(60)]
    assert np.mean([each.verdict is verdict for each in answers]) >= power
    assert np.median([each.ratio.median for each in answers]) == pytest.approx(ratio, rel=0.01)


def test_no_verdict_is_finer_than_the_noise_of_the_null_run():
    """Arms of one function that differ by 4%, as memory at other addresses can make them, cannot
    tell 3%."""
    generator = np.random.default_rng(7)
    rounds = simulated(generator, 640, 1.03)
    biased = rounds.null_ratios * 1.04
    judgement = judge(rounds.ratios, biased)
    assert judgement.verdict is Verdict.UNDECIDED and judgement.noise > 0.03
    assert judgement.more_rounds >= 640


def test_interrupted_blocks_are_counted():
    assert outlier_share([1, 1, 1, 1.6]) == 0.25 and outlier_share([]) == 0
