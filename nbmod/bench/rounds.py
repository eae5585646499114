"""Rounds: two blocks of every arm in random order, again and again until there is an answer.

    round 1:  B  A  B' A'       A is the function and B its baseline; A' and B' are the same
    round 2:  B' B  A' A        functions once more
    round 3:  A  B' B  A'

The shorter block of A and A' over the shorter one of B and B' is the ratio of the round.  The
shorter of A and B over the shorter of A' and B' is that of the *null run*: whatever the functions
are, it differs from 1 by noise alone.  The shorter of two blocks, because an interruption makes a
block longer and never shorter; two of each, because equal functions must have equal chances (A over
the mean of B and B' is too small by 1% where one block in ten is interrupted).

A *block* is a number of calls in a row that together take at least `BLOCK` seconds, so that the
clock's resolution does not show.  Blocks of one round follow each other within milliseconds:
whatever changes more slowly (frequency, temperature, a neighbour) acts on all arms alike and
cancels in their ratio, and whatever the order of the arms does is spread over all of them, because
the order is drawn anew for each round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "Arm", "Pace", "Rounds", "calls_of_block", "run_rounds", "warm_up"]

BLOCK = 2e-4
"""Least seconds of a block; the clock must resolve a twentieth of it."""
RESOLUTIONS = 20
TRIES, LONG = 5, 0.02
"""An interruption takes less than LONG seconds: a longer block needs no further tries."""
SIMILAR = 1.5
"""Arms whose blocks would have about as many calls get equal ones, and are interrupted as often."""
WARM_UP = 0.1
"""Seconds of untimed calls before the first round: the threads of a pool are woken on one core
after a pause, and move apart within some 60 ms."""


@dataclass(frozen=True)
class Pace:
    """How the arms take turns.

    Attributes
    ----------
    block : float
        Least seconds of a block.
    settle : float
        Seconds of a pause before each block, after which the arm is warmed up again: for libraries
        whose threads spin for a while after work, and would slow down those of the next arm.
    """

    block: float = BLOCK
    settle: float = 0.0


class Arm(Protocol):
    """One of the things that are compared, in this process or in another."""

    name: str

    def time(self, calls: int, turn: int) -> float:
        """Seconds of one call: the mean of `calls` in a row.

        Arms with several sets of inputs take that of `turn`, the number of the round.
        """


@dataclass
class Rounds:
    """The times of all blocks so far.

    Attributes
    ----------
    names : list of str
        One for each column of `seconds`.
    calls : list of int
        Calls in a block of each column.
    seconds : ndarray
        Shape (rounds, 2 arms): seconds of one call; the second half are those of A' and B'.
    order : ndarray
        Shape (rounds, 2 arms): the columns of `seconds` in the order in which they ran.
    """

    names: list[str]
    calls: list[int]
    _seconds: list[list[float]] = field(default_factory=list)
    _order: list[list[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._seconds)

    @property
    def seconds(self) -> NDArray[np.float64]:
        return np.array(self._seconds).reshape(-1, len(self.names))

    @property
    def order(self) -> NDArray[np.int64]:
        return np.array(self._order, np.int64).reshape(-1, len(self.names))

    @property
    def ratios(self) -> NDArray[np.float64]:
        """Shape (rounds,): time of the first arm over that of the last."""
        pairs = self.seconds.reshape(len(self), 2, -1)
        least = pairs.min(axis=1)
        return least[:, 0] / least[:, -1]

    @property
    def null_ratios(self) -> NDArray[np.float64]:
        """Shape (rounds,): what equal functions would show."""
        least = self.seconds.reshape(len(self), 2, -1).min(axis=2)
        return least[:, 0] / least[:, 1]

    def add(self, seconds: list[float], order: list[int]) -> None:
        """Add a round."""
        self._seconds.append(seconds)
        self._order.append(order)


def warm_up(arm: Arm) -> None:
    """Call an arm for some time, not a number of times: see `WARM_UP`."""
    until = time.perf_counter() + WARM_UP
    while time.perf_counter() < until:
        arm.time(1, 0)


def calls_of_block(arm: Arm, block: float = BLOCK) -> int:
    """The calls that fill a block of so many seconds.

    The least of some times decides: an interruption would make the blocks of one arm shorter.
    """
    least = max(block, RESOLUTIONS * time.get_clock_info("perf_counter").resolution)
    calls = 1
    while (taken := calls * _shortest(arm, calls)) < least:
        calls = max(calls + 1, min(10 * calls, round(1.1 * calls * least / max(taken, 1e-9))))
    return calls


def _shortest(arm: Arm, calls: int) -> float:
    """The least of some times, or the first one of a long block."""
    first = arm.time(calls, 0)
    if calls * first >= LONG:
        return first
    return min(first, *(arm.time(calls, 0) for _ in range(TRIES - 1)))


def run_rounds(arms: Sequence[Arm], seconds: float, is_done: Callable[[Rounds], bool],
               seed: int = 0, pace: Pace | None = None) -> Rounds:
    """Run rounds until `is_done` says so, or for as long as `seconds` allow; one round at least.

    Parameters
    ----------
    arms : sequence of Arm
        The function and its baseline.
    seconds : float
        For all blocks together, without compilation and warm-up.
    is_done : callable
        Asked after each round.
    seed : int
        Of the order of the arms.
    pace : Pace, optional
        Length of blocks, and pauses between them; default: the `pace` of an arm that has one, or
        short blocks without pauses.
    """
    paces = (getattr(arm, "pace", None) for arm in arms)
    pace = pace or next(filter(None, paces), Pace())
    calls: list[int] = []
    for arm in arms:
        time.sleep(pace.settle)
        warm_up(arm)
        calls.append(calls_of_block(arm, pace.block))
    if max(calls) <= SIMILAR * min(calls):
        calls = [max(calls)] * len(arms)
    rounds = Rounds([arm.name for arm in (*arms, *arms)], calls * 2)
    generator = np.random.default_rng(seed)
    until = time.perf_counter() + seconds
    while not len(rounds) or (time.perf_counter() < until and not is_done(rounds)):
        order = generator.permutation(2 * len(arms)).tolist()
        times = [0.0] * len(order)
        for index in order:
            if pace.settle:
                time.sleep(pace.settle)
                if rounds.calls[index] > 1:
                    warm_up(arms[index % len(arms)])
            times[index] = arms[index % len(arms)].time(rounds.calls[index], len(rounds))
        rounds.add(times, order)
    return rounds
