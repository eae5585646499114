"""Worker processes of `DataLoader`: a pool of them makes batches, in any order.

The parent sends tasks through one pipe for each worker and waits for replies and for the ends of
processes, so that a worker that dies is an error at once.  A thread of the worker reads its pipe,
which never fills, and ends the worker when the parent is gone.  Workers ignore Ctrl-C: the parent
ends them.

Random numbers of a batch follow from the state of the parent's generators at the beginning of its
epoch and from the number of the batch, whichever worker makes it.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, reduction
from typing import Any, NamedTuple

import numpy as np

from ... import autograd
from ... import random as mx_random
from ...base import MXNetError
from ...core.fork import prepare
from ...ops.jit import set_num_threads
from .batches import make_batch
from .shared_batches import Parcel, Ring, SharedBlock, attached, pack, unpack

__all__ = ["Epoch", "LoaderTimeoutError", "WorkerPool", "epoch_seeds"]

Seeds = list[int]
"""Seeds of the generators of Python, NumPy and MXNet."""
_SECONDS_TO_END = 5


class LoaderTimeoutError(MXNetError, multiprocessing.TimeoutError):
    """A batch took longer than the loader's timeout."""

    def __init__(self, timeout: float):
        super().__init__(f"DataLoader: a batch took longer than timeout={timeout} seconds; the "
                         "data set or batchify_fn may hang, or the timeout is too short")


class Task(NamedTuple):
    """A batch to make."""

    epoch: int
    number: int
    indices: Any
    seeds: Seeds
    freed: list[int]
    """Blocks that the worker may write to again."""
    dropped: set[int]
    """Epochs whose batches nobody reads any more."""


class Reply(NamedTuple):
    """A batch, an error, or neither if its epoch was dropped."""

    epoch: int
    number: int
    parcel: Parcel | None = None
    error: tuple[bytes, str] | None = None


class NewBlock(NamedTuple):
    """Announces the descriptor of a block, which follows."""

    number: int
    dropped: int | None


class RemoteTraceback(Exception):
    """The traceback of a worker, as the cause of its error."""


def epoch_seeds(epoch: int) -> Seeds:
    """Seeds from the states of the generators, which stay as they are."""
    states: tuple[Any, ...] = random.getstate(), np.random.get_state(), mx_random.get_state()
    return [int.from_bytes(hashlib.blake2b(pickle.dumps(state) + b"%d" % epoch, digest_size=4
                                           ).digest(), "little") for state in states]


# -- in the worker --------------------------------------------------------------------------------


class _BatchMaker:
    """Makes batches in a worker."""

    def __init__(self, results: Any, dataset: Any, batchify_fn: Callable[[list[Any]], Any]):
        self._results, self._dataset, self._batchify_fn = results, dataset, batchify_fn
        self._ring = Ring(self._send_block)

    def _send_block(self, number: int, dropped: int | None, descriptor: int) -> None:
        self._results.send(NewBlock(number, dropped))
        reduction.send_handle(self._results, descriptor, os.getppid())

    def make(self, task: Task) -> None:
        """Make a batch and send it."""
        self._ring.give_back(task.freed)
        try:
            for generator, seed in zip((random, np.random, mx_random), task.seeds, strict=True):
                generator.seed(seed)
            batch = make_batch(self._dataset, self._batchify_fn, task.indices)
            reply = Reply(task.epoch, task.number, pack(batch, self._ring))
        except Exception as error:
            reply = Reply(task.epoch, task.number, error=_packed(error))
        self._results.send(reply)

    def skip(self, task: Task) -> None:
        """Answer a task whose epoch was dropped."""
        self._ring.give_back(task.freed)
        self._results.send(Reply(task.epoch, task.number))


def _packed(error: Exception) -> tuple[bytes, str]:
    """An exception and its traceback; an MXNetError for one that cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        pickled = pickle.dumps(MXNetError(f"{type(error).__name__}: {error}"))
    return pickled, text


def _serve(tasks: Any, results: Any, source: Any, parents: list[Any]) -> None:
    """Run a worker; `source` is the data set and the function, or their pickle.

    parents: the parent's ends of its pipes, which a fork copies: open here, they would hide the
    parent's end.  Those of older workers are open until this one ends, which it does first.
    """
    for end in parents:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_num_threads(1)
    autograd.set_recording(False)
    autograd.set_training(False)
    maker = _BatchMaker(results, *(pickle.loads(source) if isinstance(source, bytes) else source))
    dropped: set[int] = set()
    inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, inbox, dropped), daemon=True).start()
    while (task := inbox.get()) is not None:
        (maker.skip if task.epoch in dropped else maker.make)(task)


def _read(tasks: Any, inbox: queue.SimpleQueue[Task | None], dropped: set[int]) -> None:
    """Read tasks until None arrives or the parent is gone."""
    try:
        while (task := tasks.recv()) is not None:
            dropped |= task.dropped
            inbox.put(task)
        inbox.put(None)
    except (EOFError, OSError):
        os._exit(0)


# -- in the parent --------------------------------------------------------------------------------


class _LoaderWorker:
    """A worker, as its parent sees it."""

    def __init__(self, number: int, context: Any, source: Any):
        reads, self.tasks = context.Pipe(duplex=False)
        self.results, writes = context.Pipe()
        parents = [self.tasks, self.results] if context.get_start_method() == "fork" else []
        self.process = context.Process(target=_serve, daemon=True, name=f"nbmod-loader-{number}",
                                       args=(reads, writes, source, parents))
        with warnings.catch_warnings():    # kernels and pools are made for forks
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        reads.close()
        writes.close()
        self.number = number
        self.is_forked, self.has_replied = context.get_start_method() == "fork", False
        self.pending: deque[tuple[int, int]] = deque()
        self.blocks: dict[int, SharedBlock] = {}
        self.freed: deque[int] = deque()
        self.dropped: set[int] = set()

    def send(self, epoch: int, number: int, indices: Any, seeds: Seeds) -> None:
        """Send a task."""
        freed = [self.freed.popleft() for _ in range(len(self.freed))]
        dropped, self.dropped = self.dropped, set()
        self.pending.append((epoch, number))
        try:
            self.tasks.send(Task(epoch, number, indices, seeds, freed, dropped))
        except OSError as error:
            raise self.death() from error

    def receive(self) -> Reply | None:
        """Receive a reply; None for a new block."""
        try:
            message = self.results.recv()
            if isinstance(message, NewBlock):
                descriptor = reduction.recv_handle(self.results)
                self.blocks[message.number] = attached(message.number, descriptor)
                if message.dropped is not None:
                    del self.blocks[message.dropped]
                return None
        except (EOFError, OSError, RuntimeError) as error:
            raise self.death() from error
        self.pending.popleft()
        self.has_replied = True
        return message

    def end(self) -> None:
        """Ask the process to end; one that is at work is stopped."""
        try:
            if not self.pending:
                self.tasks.send(None)
                return
        except OSError:
            pass
        self.process.terminate()

    def death(self) -> MXNetError:
        """Describe the end of the process."""
        self.process.join(_SECONDS_TO_END)
        code = self.process.exitcode
        name = f", {signal.Signals(-code).name}" if code and -code in {*signal.Signals} else ""
        what = f"batch {self.pending[0][1]}" if self.pending else "no batch"
        hint = ("num_workers=0 would show where" if self.is_forked or self.has_replied else
                "processes that are not forked import the main program: put its work under "
                "if __name__ == '__main__':, and classes of an interactive session into a file")
        return MXNetError(f"DataLoader: worker {self.number} died with exit code {code}{name}, "
                          f"while it made {what}; {hint}")


def _start_method() -> str:
    chosen = multiprocessing.get_start_method(allow_none=True)
    if sys.platform != "linux":
        return chosen or "spawn"
    # Python 3.14 sets "forkserver" itself, as soon as a program makes a lock or a queue.
    is_default = chosen == "forkserver" and sys.version_info >= (3, 14)
    return "fork" if chosen is None or is_default else chosen


class WorkerPool:
    """Processes that make batches of a data set.

    Parameters
    ----------
    dataset : Dataset
        The samples.
    batchify_fn : callable
        Function that makes a batch of a list of samples.
    count : int
        Number of processes.

    Raises
    ------
    MXNetError
        If the data set or the function cannot be pickled, where processes are not forked.
    """

    def __init__(self, dataset: Any, batchify_fn: Callable[[list[Any]], Any], count: int):
        prepare()
        method = _start_method()
        source = (dataset, batchify_fn)
        packed = source if method == "fork" else _pickled(source)
        context = multiprocessing.get_context(method)
        self._workers: list[_LoaderWorker] = []
        self._pid = os.getpid()
        self._stop = weakref.finalize(self, _stop, self._workers, self._pid)
        for number in range(count):
            self._workers.append(_LoaderWorker(number, context, packed))
        self._replies: dict[int, dict[int, tuple[_LoaderWorker, Reply]]] = {}

    @property
    def is_open(self) -> bool:
        """Whether there are workers, of this process."""
        return self._stop.alive and self._pid == os.getpid()

    def close(self) -> None:
        """End the workers."""
        self._stop()

    def begin(self, epoch: int) -> None:
        """Expect batches of an epoch."""
        self._replies[epoch] = {}

    def drop(self, epoch: int) -> None:
        """Make no further batches of an epoch."""
        self._replies.pop(epoch, None)
        for worker in self._workers:
            worker.dropped.add(epoch)

    def submit(self, epoch: int, number: int, indices: Any, seeds: Seeds) -> None:
        """Let the worker with the fewest tasks make a batch."""
        worker = min(self._workers, key=lambda each: len(each.pending))
        with self._ending():
            worker.send(epoch, number, indices, seeds)

    def result(self, epoch: int, number: int, timeout: float) -> Any:
        """Return a batch, or raise the error that its worker had."""
        end, replies = time.monotonic() + timeout, self._replies[epoch]
        with self._ending():
            while number not in replies:
                if not self._receive(end - time.monotonic()):
                    raise LoaderTimeoutError(timeout)
        worker, reply = replies.pop(number)
        if reply.error is not None:
            error = pickle.loads(reply.error[0])
            raise error from RemoteTraceback(f"\n{reply.error[1]}")
        assert reply.parcel is not None
        block = None if reply.parcel.block is None else worker.blocks[reply.parcel.block]
        return unpack(reply.parcel, block, worker.freed.append)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the workers if the block raises, also by Ctrl-C: what they are at is unknown then."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _receive(self, timeout: float) -> bool:
        """Receive from the workers that have something; False after the time."""
        by_end = {worker.results: worker for worker in self._workers}
        by_end |= {worker.process.sentinel: worker for worker in self._workers}
        ready = connection.wait(list(by_end), max(timeout, 0))
        for worker in {by_end[each].number: by_end[each] for each in ready}.values():
            if not worker.results.poll():
                raise worker.death()
            if (reply := worker.receive()) is None:
                continue
            if (replies := self._replies.get(reply.epoch)) is not None:
                replies[reply.number] = worker, reply
            elif reply.parcel is not None and reply.parcel.block is not None:
                worker.freed.append(reply.parcel.block)
        return bool(ready)


def _pickled(source: Any) -> bytes:
    try:
        return pickle.dumps(source)
    except Exception as error:
        raise MXNetError("DataLoader: the data set or batchify_fn cannot be sent to worker "
                         f"processes ({type(error).__name__}: {error}); functions must be defined "
                         "in a module, not lambda; or give thread_pool=True") from error


def _stop(workers: list[_LoaderWorker], pid: int) -> None:
    """End workers, in the process that started them."""
    if pid != os.getpid():
        return
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.process.join(_SECONDS_TO_END)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.tasks.close()
        worker.results.close()


class Epoch:
    """Iterator over the batches of an epoch, up to `ahead` of which are made ahead."""

    def __init__(self, pool: WorkerPool, number: int, batches: Iterator[Any], ahead: int,
                 timeout: float):
        self._pool, self._number, self._batches = pool, number, batches
        self._timeout, self._seeds = timeout, epoch_seeds(number)
        self._sent = self._read = 0
        pool.begin(number)
        weakref.finalize(self, pool.drop, number).atexit = False
        for _ in range(ahead):
            self._submit()

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        self._submit()
        if self._read == self._sent:
            raise StopIteration
        self._read += 1
        return self._pool.result(self._number, self._read - 1, self._timeout)

    def _submit(self) -> None:
        for indices in itertools.islice(self._batches, 1):
            seeds = [(seed + 0x9E3779B9 * self._sent) % 2**32 for seed in self._seeds]
            self._pool.submit(self._number, self._sent, indices, seeds)
            self._sent += 1
