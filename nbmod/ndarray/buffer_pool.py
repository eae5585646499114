"""A pool of buffers for the batches of iterators, so that a steady loop allocates nothing.

A buffer returns to its pool when the last reference to it, or to a view of it, is gone: whoever
keeps a batch keeps its values.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

__all__ = ["BufferPool", "PooledBuffer"]


class PooledBuffer(np.ndarray):
    """The array that all views of a buffer refer to.

    NumPy lets views refer to the array in which their chain of bases ends, past all of the same
    class.  So the chain must end here: a buffer has a class of its own, and its memory is no array.
    """


class _Ticket(weakref.ref):
    """Says that a buffer is free again, and which memory it had."""

    __slots__ = ("memory",)
    memory: tuple[bytearray, int]


class BufferPool:
    """Arrays of one shape and type, used again once nothing refers to them.

    What happens when a buffer becomes free is one call of `list.append`.  Python code there would
    now and then be the place where Ctrl-C arrives, and an exception is lost in what ends objects.
    """

    _ALIGNMENT = 64

    def __init__(self, shape: tuple[int, ...], dtype: Any):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._used: dict[int, _Ticket] = {}
        self._free: list[_Ticket] = []
        self._lock = threading.Lock()

    def acquire(self) -> np.ndarray:
        """An array with arbitrary contents."""
        with self._lock:
            memory = self._recycled() if self._free else self._allocate()
            buffer = PooledBuffer(self.shape, self.dtype, *memory)
            ticket = _Ticket(buffer, self._free.append)
            ticket.memory = memory
            self._used[id(ticket)] = ticket
        return np.asarray(buffer)

    def _recycled(self) -> tuple[bytearray, int]:
        ticket = self._free.pop()
        del self._used[id(ticket)]
        return ticket.memory

    def _allocate(self) -> tuple[bytearray, int]:
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        memory = bytearray(size + self._ALIGNMENT)
        return memory, -np.frombuffer(memory, np.uint8).ctypes.data % self._ALIGNMENT
