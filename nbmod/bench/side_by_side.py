"""Times of any number of arms beside each other, with the error that each may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .rounds import Rounds
from .statistics import ERROR, Interval, batches, median_interval

__all__ = ["ArmTime", "arm_times"]

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
    noise : float
        The ratio that two runs of this arm may show: 0.01 where they may differ by 1%; infinite
        where there were too few rounds to know it.
    ratio : Interval
        Time over that of the first arm, with bounds that hold with a probability of 99%.
    """

    name: str
    seconds: float
    noise: float
    ratio: Interval


def arm_times(rounds: Rounds) -> list[ArmTime]:
    """The times of all arms of some rounds."""
    count = len(rounds.names) // 2
    blocks = np.maximum(rounds.seconds, LEAST).reshape(len(rounds), 2, count)
    medians, logs, shorter = np.median(blocks, axis=(0, 1)), np.log(blocks), np.log(
        blocks.min(axis=1))
    return [ArmTime(rounds.names[arm], float(medians[arm]),
                    float(np.expm1(_interval(logs[:, 0, arm] - logs[:, 1, arm]).reach)),
                    _interval(shorter[:, arm] - shorter[:, 0]).exp()) for arm in range(count)]


def _interval(values: np.ndarray) -> Interval:
    return median_interval(batches(values), ERROR)
