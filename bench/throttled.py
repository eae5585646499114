"""A network that is slower than memory, for ranks on one host: exchanges that sleep.

`Link` says how long an exchange takes between hosts, and `ThrottledCommunicator` makes those of
another communicator take as long.  What a rank has to send and receive passes one after the other
over its own link, which has the bandwidth in each direction; the network between the links is
taken to be fast enough for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import ceil, inf, log2
from typing import NamedTuple

from nbmod.base import Array
from nbmod.kvstore.distributed.communicator import Communicator

__all__ = ["Link", "ThrottledCommunicator", "UNLIMITED"]


class Link(NamedTuple):
    """What connects a host to all others: bits per second, and seconds of a message."""

    bandwidth: float
    latency: float

    def _seconds(self, rounds: int, nbytes: float) -> float:
        return rounds * self.latency + 8 * nbytes / self.bandwidth

    def alltoallv(self, ranks: int, sent: int, received: int) -> float:
        """Seconds in which a rank sends and receives so many bytes, one message for each other
        rank after the other (pairwise exchange)."""
        return self._seconds(ranks - 1, max(sent, received))

    def allgatherv(self, ranks: int, largest: int) -> float:
        """Seconds in which parts of up to so many bytes go around a ring of all ranks."""
        return self._seconds(ranks - 1, (ranks - 1) * largest)

    def allgather(self, ranks: int, nbytes: int) -> float:
        """Seconds in which each rank gets so many bytes of every other, in a tree."""
        return self._seconds(ceil(log2(ranks)), (ranks - 1) * nbytes)


UNLIMITED = Link(inf, 0.0)


class ThrottledCommunicator:
    """A communicator whose exchanges take as long as over links between hosts.

    An exchange begins when all ranks have called it, is performed by `communicator`, and then
    sleeps until the link's time has passed.  Duplicates share `seconds` and `link`.

    Parameters
    ----------
    communicator : Communicator
        Performs the exchanges.
    link : Link
        May be replaced between exchanges, on all ranks.
    sleep : callable
        Waits for some seconds.

    Attributes
    ----------
    seconds : float
        How long all exchanges have taken, after all ranks had called them.
    """

    def __init__(self, communicator: Communicator, link: Link = UNLIMITED,
                 sleep: Callable[[float], None] = time.sleep,
                 original: ThrottledCommunicator | None = None):
        self._communicator, self._sleep = communicator, sleep
        self._original = original or self
        self.link, self.seconds = link, 0.0

    @property
    def operation(self) -> str:
        return self._communicator.operation

    @operation.setter
    def operation(self, text: str) -> None:
        self._communicator.operation = text

    @property
    def rank(self) -> int:
        return self._communicator.rank

    @property
    def size(self) -> int:
        return self._communicator.size

    @property
    def hosts(self) -> Sequence[str]:
        return self._communicator.hosts

    def _last(self, exchange: Callable[[], Array | None], seconds: Callable[[Link], float]
              ) -> Array | None:
        """Perform an exchange in at least the link's time."""
        self._communicator.barrier()
        began = time.perf_counter()
        found = exchange()
        left = seconds(self._original.link) - (time.perf_counter() - began)
        if left > 0:
            self._sleep(left)
        self._original.seconds += time.perf_counter() - began
        return found

    def barrier(self) -> None:
        self._communicator.barrier()

    def quiet_barrier(self) -> None:
        self._communicator.quiet_barrier()

    def broadcast(self, array: Array) -> None:
        self._communicator.broadcast(array)

    def allgather(self, array: Array) -> Array:
        found = self._last(lambda: self._communicator.allgather(array),
                           lambda link: link.allgather(self.size, array.nbytes))
        assert found is not None
        return found

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        self._last(lambda: self._communicator.allgatherv(array, counts),
                   lambda link: link.allgatherv(self.size, max(counts) * array.itemsize))

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        own = self.rank
        leaving = (sum(counts) - counts[own]) * sent.itemsize
        coming = (sum(received_counts) - received_counts[own]) * sent.itemsize
        self._last(lambda: self._communicator.alltoallv(sent, counts, received, received_counts,
                                                        starts),
                   lambda link: link.alltoallv(self.size, leaving, coming))

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        return self._communicator.waiting_for(rank, what)

    def duplicate(self) -> ThrottledCommunicator:
        return ThrottledCommunicator(self._communicator.duplicate(), sleep=self._sleep,
                                     original=self._original)

    def abort(self, status: int) -> None:
        self._communicator.abort(status)
