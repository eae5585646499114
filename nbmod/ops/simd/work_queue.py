"""Work stealing (Blumofe and Leiserson 1999): idle workers take the jobs of others.

numba divides a `prange` statically.  So all threads wait for a core that is slower for a while,
such as one that shares its caches with another program.  With

    for worker in prange(workers):
        job, turn = take_job(counters, np.int64(worker), 0, jobs)
        while job >= 0:
            ...
            job, turn = take_job(counters, np.int64(worker), turn, jobs)

every worker processes its own contiguous range of jobs, and then those that others have left.  The
result of a job must not depend on the worker.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined
from .ir import MicroKernel

__all__ = ["COUNTER_STRIDE", "job_counters", "next_job", "take_job"]

COUNTER_STRIDE = 8
"""Elements between the counters of two workers: a cache line, against false sharing."""


def job_counters(workers: int) -> np.ndarray:
    """Counters of the jobs taken from each worker's range, all 0."""
    return np.zeros(workers * COUNTER_STRIDE, np.int64)


def _reference(queue: np.ndarray, at: int) -> int:
    queue[at] += 1
    return queue[at] - 1


next_job = MicroKernel(("queue", "at"), lambda v: v.fetch_add(v.at(v.args.queue, v.args.at)),
                       _reference, True)
"""next_job(counters, at): atomically increments a counter and returns its previous value."""


@inlined
def take_job(counters, worker, turn, jobs):
    """A job of the range of worker `worker + turn`, or of the first one after it with jobs left:
    (job, its turn), job -1 if all are taken."""
    workers = len(counters) // COUNTER_STRIDE
    while turn < workers:
        other = (worker + turn) % workers
        begin, end = other * jobs // workers, (other + 1) * jobs // workers
        job = begin + next_job(counters, other * COUNTER_STRIDE)
        if job < end:
            return job, turn
        turn += 1
    return -1, turn
