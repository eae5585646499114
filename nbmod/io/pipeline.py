"""Work done ahead of its consumer: jobs in order, their parts by threads.

A job is a list of parts, functions without arguments that threads call in any order, and a
`finish` that makes the result of them.  `Pipeline.next` gives the results in the order of the jobs.
While one is waited for, the next `ahead` are worked on, and never more: a consumer that is slow
holds the threads back.  Whatever the number of threads, the results are the same, as long as the
parts of a job write to places of their own.

A part that fails raises in `next`, when its job's turn comes, with the traceback of the thread; the
other parts of the job are not waited for.  Threads that belong to a dropped pipeline end by
themselves; after a fork the child makes its own.  An error, Ctrl-C and the end of the process wait
for what is at work half a second at most: a part may hang in what its user wrote.
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
from concurrent.futures import TimeoutError as NotYet
from typing import Any, NamedTuple

from ..base import MXNetError

__all__ = ["Job", "Pipeline"]

_POLL = 0.2  # seconds; where waiting cannot be interrupted, Ctrl-C is noticed this late
_PATIENCE = 0.5  # seconds


class Job(NamedTuple):
    """A result that is made in parts."""

    parts: Sequence[Callable[[], Any]]
    finish: Callable[[], Any]


class Pipeline:
    """Does jobs with `threads` threads, up to `ahead` jobs before they are asked for."""

    def __init__(self, threads: int, ahead: int):
        for name, value in (("threads", threads), ("ahead", ahead)):
            if value < 1:
                raise MXNetError(f"Pipeline: {name} is {value}, expected at least 1")
        self.threads, self.ahead = threads, ahead
        self._jobs: Iterator[Job] = iter(())
        self._begun: deque[tuple[list[Future], Job]] = deque()
        self._left: list[Future] = []
        self._workers: _Workers | None = None
        self._pid = os.getpid()
        _PIPELINES.add(self)

    def start(self, jobs: Iterator[Job]) -> None:
        """Leave what is not finished and go on with `jobs`; the first begin now."""
        self._drop()
        self._jobs = jobs
        self._fill()

    def call(self, function: Callable[[], Any]) -> Any:
        """What the function returns, called by a thread in the place of the jobs there were."""
        results: list[Any] = []
        self.start(iter([Job([lambda: results.append(function())], results.pop)]))
        return self.next()

    def next(self) -> Any:
        """The result of the next job.  Raises StopIteration behind the last one.

        What a part raised is raised here; the jobs behind it are dropped then.
        """
        if self._pid != os.getpid():
            raise MXNetError("Pipeline: threads do not follow a fork; reset the iterator in the "
                             "new process")
        if not self._begun:
            raise StopIteration
        futures, job = self._begun[0]
        try:
            _wait_for_all(futures)
            result = job.finish()
            self._begun.popleft()
            self._fill()
        except BaseException:
            self._drop(_PATIENCE)
            raise
        return result

    def close(self) -> None:
        """Drop all jobs and end the threads; those at work finish their part first."""
        self._drop()
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()

    def _fill(self) -> None:
        while len(self._begun) < self.ahead:
            job = next(self._jobs, None)
            if job is None:
                return
            futures: list[Future] = []
            self._begun.append((futures, job))
            for part in job.parts:
                futures.append(self._threads().submit(part))

    def _drop(self, patience: float = float("inf")) -> None:
        """Nothing of the old jobs is at work when this returns, or `patience` seconds are over."""
        self._jobs = iter(())
        begun, self._begun = self._begun, deque()
        if self._pid != os.getpid():
            self._workers, self._left, self._pid = None, [], os.getpid()
            return
        self._left += [future for futures, _ in begun for future in futures if not future.cancel()]
        end = time.monotonic() + patience
        while self._left and time.monotonic() < end:
            self._left = list(wait(self._left, timeout=_POLL).not_done)

    def _threads(self) -> _Workers:
        if self._workers is None:
            self._workers = _Workers(self.threads)
        return self._workers


class _Workers:
    """Threads that end with this object, and that the end of the process does not wait for.

    Those of an executor would be: it has no others.
    """

    def __init__(self, count: int):
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [threading.Thread(target=_work, args=(self._tasks,), daemon=True,
                                          name=f"nbmod-io-{number}") for number in range(count)]
        self._end = weakref.finalize(self, _end, self._tasks, count)
        self._end.atexit = False
        for thread in self._threads:
            thread.start()

    def submit(self, part: Callable[[], Any]) -> Future:
        """Let one of the threads call `part`."""
        future: Future = Future()
        self._tasks.put((future, part))
        return future

    def close(self) -> None:
        """End the threads when all is done that was submitted."""
        self._end()
        for thread in self._threads:
            thread.join()


def _work(tasks: queue.SimpleQueue) -> None:
    """Do tasks until there is a None; this must not refer to the one who submits them."""
    while (task := tasks.get()) is not None:
        future, part = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(part())
            except BaseException as error:
                future.set_exception(error)
        del task, future, part


def _end(tasks: queue.SimpleQueue, count: int) -> None:
    for _ in range(count):
        tasks.put(None)


def _wait_for_all(futures: Sequence[Future]) -> None:
    """Until all parts of a job are done; raises what one of them has raised, soon."""
    for future in futures:
        while not future.done():
            try:
                future.exception(_POLL)
            except NotYet:
                for other in futures:
                    if other.done():
                        other.result()
        future.result()


_PIPELINES: weakref.WeakSet[Pipeline] = weakref.WeakSet()


@atexit.register
def _drop_all() -> None:
    end = time.monotonic() + _PATIENCE
    for pipeline in list(_PIPELINES):
        pipeline._drop(max(end - time.monotonic(), 0))
