"""Ranks that are threads of this process: a communicator for tests of what stores compute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import TypeVar

import numpy as np

from nbmod.kvstore.distributed.async_store import AsynchronousStore
from nbmod.kvstore.distributed.communicator import Array, offsets_of
from nbmod.kvstore.distributed.distributed_store import DistributedStore

Result = TypeVar("Result")


class Meeting:
    """Where the threads of all ranks leave arrays for each other."""

    def __init__(self, size: int):
        self.barrier = threading.Barrier(size, timeout=60)
        self.left: list[object] = [None] * size


class ThreadCommunicator:
    """A rank that is a thread."""

    operation = ""

    def __init__(self, rank: int, size: int, meeting: Meeting):
        self.rank, self.size, self._meeting = rank, size, meeting
        self.hosts = ["here"] * size

    def _exchange(self, own: object) -> list:
        """What all ranks give, which none of them changes before all have taken it."""
        self._meeting.left[self.rank] = own
        self._meeting.barrier.wait()
        found = [*self._meeting.left]
        self._meeting.barrier.wait()
        return found

    def barrier(self) -> None:
        self._exchange(None)

    quiet_barrier = barrier

    def broadcast(self, array: Array) -> None:
        array[...] = self._exchange(array.copy())[0]

    def allgather(self, array: Array) -> Array:
        return np.stack(self._exchange(array.copy()))

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        bounds = offsets_of(counts)
        own = array[bounds[self.rank]:bounds[self.rank + 1]].copy()
        array[:] = np.concatenate(self._exchange(own))

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        parts = [sent[start:start + count].copy()
                 for start, count in zip(starts or offsets_of(counts), counts, strict=False)]
        taken = [each[self.rank] for each in self._exchange(parts)]
        assert [len(part) for part in taken] == list(received_counts)
        received[:] = np.concatenate(taken)

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def duplicate(self) -> ThreadCommunicator:
        meetings = self._exchange(Meeting(self.size))
        return ThreadCommunicator(self.rank, self.size, meetings[0])

    def abort(self, status: int) -> None:
        self._meeting.barrier.abort()


class ThreadMessages:
    """Messages between ranks that are threads."""

    def __init__(self, rank: int, boxes: list[SimpleQueue]):
        self.rank, self.size, self._boxes = rank, len(boxes), boxes

    def send(self, rank: int, text: bytes) -> None:
        self._boxes[rank].put((self.rank, bytes(text)))

    def receive(self) -> tuple[int, bytes] | None:
        try:
            return self._boxes[self.rank].get_nowait()
        except Empty:
            return None

    def abort(self) -> None:
        raise AssertionError("aborted")


def asynchronous(rank: int, communicator: ThreadCommunicator) -> AsynchronousStore:
    """The asynchronous store of a rank that is a thread."""
    boxes = communicator._exchange([[SimpleQueue() for _ in range(communicator.size)]
                                    for _ in range(2)])[0]
    return AsynchronousStore("dist_async", communicator,
                             *(ThreadMessages(rank, each) for each in boxes))


def on_ranks(size: int, function: Callable[[DistributedStore], Result], kind: str = "dist_sync"
             ) -> list[Result]:
    """Call a function with the store of every rank; raise the first error of a rank."""
    meeting = Meeting(size)

    def run(rank: int) -> Result:
        try:
            communicator = ThreadCommunicator(rank, size, meeting)
            if kind != "dist_async":
                return function(DistributedStore(kind, communicator))
            store = asynchronous(rank, communicator)
            try:
                result = function(store)
                store.close()
            finally:
                store.end()
            return result
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    errors = [future.exception() for future in futures if future.exception()]
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [future.result() for future in futures]
