"""The speed of a function by one thread, two, and so on.

The numbers of threads take turns within each round, as functions do in a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ops.jit import num_threads, set_num_threads
from .measure import name_of
from .rounds import run_rounds
from .side_by_side import arm_times
from .statistics import Interval
from .subjects import CallableArm, InputSets

__all__ = ["ThreadCount", "sweep_threads"]


@dataclass(frozen=True)
class ThreadCount:
    """The time of a function by a number of threads.

    Attributes
    ----------
    threads : int
        Threads of parallel kernels.
    seconds : float
        Median of all blocks.
    speedup : Interval
        Time of the first number of threads over this time, with bounds that hold with a
        probability of 99%.
    efficiency : float
        The speedup over that of threads that lose nothing: 1 where twice as many take half the
        time.
    """

    threads: int
    seconds: float
    speedup: Interval
    efficiency: float


def sweep_threads(function: Callable[..., object], *args: Any, counts: Sequence[int] = (),
                  seconds: float = 2.0, seed: int = 0) -> list[ThreadCount]:
    """Time a function by several numbers of threads.

    Parameters
    ----------
    function : callable
        Called as ``function(*args)``; parallel kernels of nbmod and numba in it have the threads.
    *args
        As for `measure`.
    counts : sequence of int, optional
        Numbers of threads; default: 1, 2, 4, ... and as many as are set now.
    seconds : float
        For all of them together.
    seed : int
        Of the order within rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from nbmod import bench
    >>> [each.threads for each in bench.sweep_threads(np.sum, np.ones(100), seconds=0.05)][0]
    1
    """
    before = num_threads()
    numbers = list(counts) or sorted({1, before, *(2 ** k for k in range(before.bit_length()))})
    arm = CallableArm(name_of(function), function, InputSets(args))
    arm.first_call()
    try:
        rounds = run_rounds([_ThreadArm(arm, number) for number in numbers], seconds,
                            lambda rounds: False, seed)
    finally:
        set_num_threads(before)
    return [ThreadCount(number, each.seconds, each.ratio, each.ratio.median * numbers[0] / number)
            for number, each in zip(numbers, arm_times(rounds), strict=True)]


class _ThreadArm:
    """An arm by a number of threads."""

    def __init__(self, arm: CallableArm, threads: int) -> None:
        self.name = f"{arm.name}, {threads} thread(s)"
        self._arm, self._threads = arm, threads

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one of `calls` calls; the untimed call before them wakes the threads."""
        set_num_threads(self._threads)
        return self._arm.time(calls, turn)
