"""A communicator whose exchanges a watchdog watches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from ...base import Array
from .communicator import Communicator
from .watchdog import Watchdog, WatchedExchange

__all__ = ["WatchedCommunicator"]


class WatchedCommunicator:
    """A communicator whose exchanges a watchdog watches, under the name of the store's operation.

    The watchdog ends all ranks if one of them takes too long.
    """

    operation = ""

    def __init__(self, communicator: Communicator, watchdog: Watchdog):
        self._communicator, self._watchdog = communicator, watchdog
        self._stream = watchdog.stream()

    @property
    def rank(self) -> int:
        return self._communicator.rank

    @property
    def size(self) -> int:
        return self._communicator.size

    @property
    def hosts(self) -> Sequence[str]:
        return self._communicator.hosts

    def _exchange(self) -> WatchedExchange:
        return self._watchdog.exchange(self.operation, self._stream)

    def barrier(self) -> None:
        with self._exchange():
            self._communicator.barrier()

    def quiet_barrier(self) -> None:
        with self._exchange():
            self._communicator.quiet_barrier()

    def broadcast(self, array: Array) -> None:
        with self._exchange():
            self._communicator.broadcast(array)

    def allgather(self, array: Array) -> Array:
        with self._exchange():
            return self._communicator.allgather(array)

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        with self._exchange():
            self._communicator.allgatherv(array, counts)

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        with self._exchange():
            self._communicator.alltoallv(sent, counts, received, received_counts, starts)

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        return self._watchdog.exchange(what, peer=rank)

    def duplicate(self) -> WatchedCommunicator:
        return WatchedCommunicator(self._communicator.duplicate(), self._watchdog)

    def abort(self, status: int) -> None:
        self._communicator.abort(status)
