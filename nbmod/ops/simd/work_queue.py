"""Work stealing (Blumofe and Leiserson 1999): idle workers take the jobs of others.

numba divides a `prange` statically.  So all threads wait for a core that is slower for a while,
such as one that shares its caches with another program.  With

    for worker in prange(workers):
        for turn in range(workers):
            other = (worker + turn) % workers
            begin, end = other * jobs // workers, (other + 1) * jobs // workers
            job = begin + next_job(counters, other * COUNTER_STRIDE)
            while job < end:
                ...
                job = begin + next_job(counters, other * COUNTER_STRIDE)

every worker processes its own contiguous range of jobs, and then those that others have left.  The
result of a job must not depend on the worker.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import MicroKernel

__all__ = ["COUNTER_STRIDE", "job_counters", "next_job"]

COUNTER_STRIDE = 8
"""Elements between the counters of two workers: a cache line, against false sharing."""


def job_counters(workers: int) -> np.ndarray:
    """Counters of the jobs taken from each worker's range, all 0."""
    return np.zeros(workers * COUNTER_STRIDE, np.int64)


def _reference(queue: Any, at: int) -> Any:
    queue[at] += 1
    return queue[at] - 1


next_job = MicroKernel(("queue", "at"), lambda v: v.fetch_add(v.at(v.args.queue, v.args.at)),
                       _reference, True)
"""next_job(counters, at): atomically increments a counter and returns its previous value."""
