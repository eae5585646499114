"""Jobs that workers take one by one: who is done with its own helps the others.

numba gives every thread as many turns of a `prange` as the others, beforehand.  So all wait for a
core that is slower for a while, as one that shares its caches with another program.  With

    for worker in prange(workers):
        for turn in range(workers):
            other = (worker + turn) % workers
            begin, behind = other * jobs // workers, (other + 1) * jobs // workers
            job = begin + take(queue, other * SPACE)
            while job < behind:
                ...
                job = begin + take(queue, other * SPACE)

every worker has its part of the jobs, neighbours as before, and then those that others have left.
Who has done a job must not matter to what it finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import Micro

__all__ = ["SPACE", "queue_of", "take"]

SPACE = 8
"""Integers from the count of one worker to that of another: a cache line."""


def queue_of(workers: int) -> np.ndarray:
    """How many jobs of each worker have been taken: none."""
    return np.zeros(workers * SPACE, np.int64)


def _twin(queue: Any, at: int) -> Any:
    queue[at] += 1
    return queue[at] - 1


take = Micro(("queue", "at"), lambda v: v.counted(v.at(v.args.queue, v.args.at)), _twin, True)
"""The number at a place, which is one more for whoever takes the next one."""
