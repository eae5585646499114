"""Communicators: what the ranks of a distributed store exchange, as buffers.

A `Communicator` has the few collective operations that stores need.  `MPICommunicator` performs
them by MPI, through `mpi4py`; `SingleRank` is the communicator of a process that was started alone.
Only buffers travel: mpi4py's lower-case methods, which pickle, are not used anywhere.

MPI computes nothing here, it only moves elements, which it is told are unsigned integers of their
size; sums are formed by the receiver, in the order of ranks, so that all ranks have the same bits
whatever algorithm MPI chooses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...base import Array, MXNetError

__all__ = ["Communicator", "MPICommunicator", "SingleRank", "allgather_texts", "back_off",
           "offsets_of"]

Untyped: TypeAlias = Any  # type: ignore[explicit-any]
"""An object of mpi4py."""
SHORTEST_PAUSE, LONGEST_PAUSE = 5e-5, 1e-3
"""Seconds between looks at whether others have come."""


def back_off(longest: float) -> Iterator[None]:
    """Sleep at every step, twice as long as before up to `longest` (exponential backoff)."""
    pause = SHORTEST_PAUSE
    while True:
        time.sleep(pause)
        pause = min(2 * pause, longest)
        yield


class Communicator(Protocol):
    """Collective operations of `size` ranks: each is called by all of them, in the same order.

    Arrays are C-contiguous; counts are numbers of elements, one for each rank.  `operation` says
    what the exchanges that follow are for, such as ``push of 161 keys``.
    """

    operation: str

    @property
    def rank(self) -> int:
        """Index of this rank, from 0."""

    @property
    def size(self) -> int:
        """Number of ranks."""

    @property
    def hosts(self) -> Sequence[str]:
        """Name of the host of every rank."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def quiet_barrier(self) -> None:
        """Return when all ranks have called it, and sleep meanwhile: beside threads that compute.

        MPI itself waits in a loop, which keeps a core busy.
        """

    def broadcast(self, array: Array) -> None:
        """Copy the array of rank 0 into those of all others."""

    def allgather(self, array: Array) -> Array:
        """Return the equally long arrays of all ranks, along a new first axis."""

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        """Complete an array of parts in the order of ranks; this rank's is filled in."""

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        """Send a part of an array to each rank, and receive one from each, in the order of ranks.

        `starts` says where in `sent` each part begins; by default after the one before it.
        """

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        """Return a block that waits for one rank; `what` is a noun, such as ``pull of 'w'``."""

    def duplicate(self) -> Communicator:
        """Return a communicator of the same ranks whose messages do not meet those of this one."""

    def abort(self, status: int) -> None:
        """End the processes of all ranks."""


def offsets_of(counts: Sequence[int]) -> list[int]:
    """The offsets of the parts of all ranks, and the end of the last one.

    Examples
    --------
    >>> offsets_of([2, 0, 3])
    [0, 2, 2, 5]
    """
    return [0, *np.cumsum(counts, dtype=np.int64).tolist()]


def allgather_texts(communicator: Communicator, text: str) -> list[str]:
    """Return the texts of all ranks, from that of this one."""
    data = np.frombuffer(text.encode(), np.uint8)
    counts = communicator.allgather(np.array([len(data)], np.int64))[:, 0].tolist()
    begins = offsets_of(counts)
    start = begins[communicator.rank]
    whole = np.empty(begins[-1], np.uint8)
    whole[start:start + len(data)] = data
    communicator.allgatherv(whole, counts)
    return [whole[begin:begin + count].tobytes().decode()
            for begin, count in zip(begins, counts, strict=False)]


class SingleRank:
    """The communicator of a process that was started alone."""

    rank, size = 0, 1
    operation = ""

    @property
    def hosts(self) -> Sequence[str]:
        import platform

        return (platform.node(),)

    def barrier(self) -> None:
        pass

    def quiet_barrier(self) -> None:
        pass

    def broadcast(self, array: Array) -> None:
        pass

    def allgather(self, array: Array) -> Array:
        return array[None].copy()

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        pass

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        begin = starts[0] if starts else 0
        received[:] = sent[begin:begin + counts[0]]

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def duplicate(self) -> SingleRank:
        return self

    def abort(self, status: int) -> None:
        raise SystemExit(status)


class MPICommunicator:
    """Collective operations by MPI, through an `mpi4py.MPI.Intracomm`."""

    operation = ""

    def __init__(self, comm: Untyped):
        self._comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self._hosts: list[str] | None = None

    @property
    def hosts(self) -> Sequence[str]:
        if self._hosts is None:
            from mpi4py import MPI

            self._hosts = allgather_texts(self, MPI.Get_processor_name())
        return self._hosts

    def barrier(self) -> None:
        self._comm.Barrier()

    def quiet_barrier(self) -> None:
        request, waiting = self._comm.Ibarrier(), back_off(LONGEST_PAUSE)
        while not request.Test():
            next(waiting)

    def broadcast(self, array: Array) -> None:
        self._comm.Bcast(_buffer(array), 0)

    def allgather(self, array: Array) -> Array:
        arrays = np.empty((self.size, *array.shape), array.dtype)
        self._comm.Allgather(_buffer(array), _buffer(arrays))
        return arrays

    def allgatherv(self, array: Array, counts: Sequence[int]) -> None:
        from mpi4py import MPI

        self._comm.Allgatherv(MPI.IN_PLACE, [*_buffer(array)[:1], _layout(counts),
                                             _buffer(array)[1]])

    def alltoallv(self, sent: Array, counts: Sequence[int], received: Array,
                  received_counts: Sequence[int], starts: Sequence[int] | None = None) -> None:
        (out, kind), (into, _) = _buffer(sent), _buffer(received)
        layout = (counts, starts) if starts else _layout(counts)
        self._comm.Alltoallv([out, layout, kind], [into, _layout(received_counts), kind])

    def waiting_for(self, rank: int, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def duplicate(self) -> MPICommunicator:
        return MPICommunicator(self._comm.Dup())

    def abort(self, status: int) -> None:
        self._comm.Abort(status)


def _layout(counts: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Counts and displacements, as MPI takes them."""
    return counts, offsets_of(counts)[:-1]


def _buffer(array: Array) -> tuple[Array, Untyped]:
    """The elements of an array as unsigned integers of their size, and MPI's name of that type.

    Counts are of elements, not bytes, so that they stay below MPI's limit for longer.
    """
    from mpi4py import MPI

    if not array.flags.c_contiguous:
        raise MXNetError(f"communicator: an array of shape {array.shape} is not C-contiguous")
    size = array.dtype.itemsize
    kinds = {1: MPI.UINT8_T, 2: MPI.UINT16_T, 4: MPI.UINT32_T, 8: MPI.UINT64_T}
    return array.reshape(-1).view(f"u{size}"), kinds[size]
