"""Times of any number of arms beside each other, with the error that each may have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .measure import none_compiled
from .rounds import Arm, Pace, Rounds, run_rounds
from .statistics import ERROR, Interval, batches, median_interval
from .subjects import CallableArm, InputSets

__all__ = ["ArmTime", "arm_times", "side_by_side"]

LEAST = 1e-9
"""Seconds of what a clock cannot resolve, such as a step that has nothing to do."""


@dataclass(frozen=True)
class ArmTime:
    """The time of one of several arms.

    Attributes
    ----------
    name : str
        Of the arm.
    seconds : float
        Median of all blocks, for one call.
    least : float
        The shortest block, for one call: what shares of a peak are about.
    noise : float
        The ratio that two runs of this arm may show: 0.01 where they may differ by 1%; infinite
        where there were too few rounds to know it.
    ratio : Interval
        Time of the first arm over this one's, with bounds that hold with a probability of 99%.
    """

    name: str
    seconds: float
    least: float
    noise: float
    ratio: Interval


def side_by_side(functions: Mapping[str, Callable[..., object] | Arm], *args: Any,
                 seconds: float = 2.0, rounds: float = math.inf, seed: int = 0,
                 pace: Pace | None = None) -> dict[str, ArmTime]:
    """Time several functions in turns.

    Parameters
    ----------
    functions : dict of str to callable or Arm
        The functions by the names of their rows, the one that the others are compared with first;
        arms may be in other processes (`other_python`).
    *args
        Of the functions, as for `measure`; arms have inputs of their own.
    seconds : float
        For all rounds together; there is one at least.
    rounds : float
        The most rounds.
    seed : int
        Of the order in which the blocks of a round run.
    pace : Pace, optional
        See `run_rounds`.

    Returns
    -------
    dict of str to ArmTime
        By the names of `functions`.

    Raises
    ------
    MXNetError
        If something was compiled in the timed rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from nbmod import bench
    >>> x = np.ones(1000)
    >>> times = bench.side_by_side({"sum": np.sum, "max": np.max, "min": np.min}, x, seconds=0.1)
    >>> list(times), times["sum"].ratio.median
    (['sum', 'max', 'min'], 1.0)
    """
    inputs = InputSets(args)
    arms = [CallableArm(name, each, inputs) if callable(each) else each
            for name, each in functions.items()]
    for arm in arms:
        if isinstance(arm, CallableArm):
            arm.first_call()
    with none_compiled(arms[0].name):
        timed = run_rounds(arms, seconds, lambda so_far: len(so_far) >= rounds, seed, pace)
    return dict(zip(functions, arm_times(timed), strict=True))


def arm_times(rounds: Rounds) -> list[ArmTime]:
    """The times of all arms of some rounds."""
    count = len(rounds.names) // 2
    blocks = np.maximum(rounds.seconds, LEAST).reshape(len(rounds), 2, count)
    medians, logs, shorter = np.median(blocks, axis=(0, 1)), np.log(blocks), np.log(
        blocks.min(axis=1))
    return [ArmTime(rounds.names[arm], float(medians[arm]), float(blocks[:, :, arm].min()),
                    float(np.expm1(_interval(logs[:, 0, arm] - logs[:, 1, arm]).reach)),
                    _interval(shorter[:, 0] - shorter[:, arm]).exp()) for arm in range(count)]


def _interval(values: np.ndarray) -> Interval:
    return median_interval(batches(values), ERROR)
