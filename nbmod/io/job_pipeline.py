"""Prefetching: jobs run ahead of their consumer, in order, by a pool of threads.

A job is a list of tasks, functions without arguments that threads run in any order, and a `finish`
that returns its result.  `Pipeline.next` yields results in the order of the jobs.  At most `ahead`
jobs are in flight, so a slow consumer throttles the threads.  Results do not depend on the number
of threads, as long as the tasks of a job write to disjoint memory.

An exception in a task is raised by `next`, at the turn of its job, with the thread's traceback,
without waiting for the other tasks.  The threads of an unreferenced pipeline stop by themselves;
after a fork the child starts its own.  An exception, Ctrl-C and the end of the process wait at most
half a second for running tasks, because a task may hang in user code.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from ..base import MXNetError
from ..core.fork import prepare

__all__ = ["Job", "LateJob", "Pipeline"]

_POLL = 0.2  # seconds; the latency of Ctrl-C where waiting cannot be interrupted
_GRACE = 0.5  # seconds to wait for running tasks
MOST_THREADS, MOST_AHEAD = 1 << 10, 1 << 20
"""Larger numbers are mistakes, which would take the machine's threads and memory."""


TaskQueue = queue.SimpleQueue["tuple[Future[Any], Callable[[], Any]] | None"]


class LateJob(Exception):
    """A job is not done in time."""


class Job(NamedTuple):
    """A result that several tasks compute."""

    tasks: Sequence[Callable[[], Any]]
    finish: Callable[[], Any]


class Pipeline:
    """Runs jobs on `threads` threads, with up to `ahead` jobs in flight."""

    def __init__(self, threads: int, ahead: int):
        for name, value, most in (
                ("threads", threads, MOST_THREADS), ("ahead", ahead, MOST_AHEAD)):
            if not 1 <= value <= most:
                raise MXNetError(f"Pipeline: {name} is {value}, expected 1 to {most:,}")
        self.threads, self.ahead = threads, ahead
        self._jobs: Iterator[Job] = iter(())
        self._pending: deque[tuple[list[Future[Any]], Job]] = deque()
        self._abandoned: list[Future[Any]] = []
        self._pool: _ThreadPool | None = None
        self._pid = os.getpid()
        _PIPELINES.add(self)

    def start(self, jobs: Iterator[Job]) -> None:
        """Cancel unfinished jobs and continue with `jobs`; the first ones start now."""
        self._cancel()
        self._jobs = jobs
        self._fill()

    def call(self, function: Callable[[], Any]) -> Any:
        """Cancel all jobs, run the function in a thread and return its result."""
        results: list[Any] = []
        self.start(iter([Job([lambda: results.append(function())], results.pop)]))
        return self.next()

    def next(self, timeout: float = float("inf")) -> Any:
        """The result of the next job; StopIteration after the last one.

        Raises the exception of a task, RuntimeError for its StopIteration, or LateJob after
        `timeout` seconds; later jobs are cancelled then.
        """
        if self._pid != os.getpid():
            raise MXNetError("Pipeline: threads do not follow a fork; reset the iterator in the "
                             "new process")
        if not self._pending:
            raise StopIteration
        futures, job = self._pending[0]
        try:
            _wait_for_all(futures, time.monotonic() + timeout)
            result = job.finish()
            self._pending.popleft()
            self._fill()
        except StopIteration as error:     # would end the epoch of whoever calls
            self._cancel(_GRACE)
            raise RuntimeError("data raised StopIteration in the middle of an epoch: does it call "
                               "next() of an iterator that ended?") from error
        except BaseException:
            self._cancel(_GRACE)
            raise
        return result

    def abandon(self) -> None:
        """Cancel all jobs, and do not wait for tasks that run."""
        self._cancel(0)

    def close(self) -> None:
        """Cancel all jobs and stop the threads after their current tasks."""
        self._cancel()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _fill(self) -> None:
        while len(self._pending) < self.ahead:
            job = next(self._jobs, None)
            if job is None:
                return
            futures: list[Future[Any]] = []
            self._pending.append((futures, job))
            for task in job.tasks:
                futures.append(self._threads().submit(task))

    def _cancel(self, grace: float = float("inf")) -> None:
        """Cancel all jobs; wait up to `grace` seconds for running tasks."""
        self._jobs = iter(())
        pending, self._pending = self._pending, deque()
        if self._pid != os.getpid():
            self._pool, self._abandoned, self._pid = None, [], os.getpid()
            return
        self._abandoned += [future for futures, _ in pending for future in futures
                            if not future.cancel()]
        end = time.monotonic() + grace
        while self._abandoned and time.monotonic() < end:
            self._abandoned = list(wait(self._abandoned, timeout=_POLL).not_done)

    def _threads(self) -> _ThreadPool:
        if self._pool is None:
            self._pool = _ThreadPool(self.threads)
        return self._pool


class _ThreadPool:
    """Threads that stop with this object, and that the end of the process does not wait for.

    It would wait for those of `concurrent.futures.ThreadPoolExecutor`.
    """

    def __init__(self, count: int):
        prepare()
        self._tasks: TaskQueue = queue.SimpleQueue()
        self._threads = [threading.Thread(target=_run_tasks, args=(self._tasks,), daemon=True,
                                          name=f"nbmod-io-{number}") for number in range(count)]
        self._stop = weakref.finalize(self, _stop, self._tasks, count)
        self._stop.atexit = False
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Run `task` in one of the threads."""
        future: Future[Any] = Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """Stop the threads after all submitted tasks."""
        self._stop()
        for thread in self._threads:
            thread.join()


def _run_tasks(tasks: TaskQueue) -> None:
    """Run tasks until a None arrives; holds no reference to the pool, so that it can be freed."""
    while (entry := tasks.get()) is not None:
        future, task = entry
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)
        del entry, future, task


def _stop(tasks: TaskQueue, count: int) -> None:
    for _ in range(count):
        tasks.put(None)


def _wait_for_all(futures: Sequence[Future[Any]], end: float) -> None:
    """Wait for all tasks of a job; raises the first exception without waiting for the others."""
    for future in futures:
        while not future.done():
            if time.monotonic() >= end:
                raise LateJob
            try:
                future.exception(_POLL)
            except FutureTimeout:
                for other in futures:
                    if other.done():
                        other.result()
        future.result()


_PIPELINES: weakref.WeakSet[Pipeline] = weakref.WeakSet()


@atexit.register
def _cancel_all() -> None:
    end = time.monotonic() + _GRACE
    for pipeline in list(_PIPELINES):
        pipeline._cancel(max(end - time.monotonic(), 0))
