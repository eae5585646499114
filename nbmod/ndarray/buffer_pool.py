"""A pool of buffers for the batches of iterators, so that a steady loop allocates nothing.

A buffer returns to its pool when the last reference to it, or to a view of it, is gone, so a
batch that is kept keeps its values.
"""

from __future__ import annotations

import threading
import weakref
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from ..base import OutOfMemory
from ..core.fork import fresh

__all__ = ["BufferPool", "PooledBuffer"]


class PooledBuffer(np.ndarray):
    """The array that is the base of all views of a buffer.

    NumPy sets the base of a view to the last array of the same class in its chain of bases.  So a
    buffer has a class of its own, and its memory is not an array.
    """


class _Ticket(weakref.ref[PooledBuffer]):
    """Weak reference to a buffer in use, with its memory; it is queued when the buffer is freed."""

    __slots__ = ("memory",)
    memory: tuple[bytearray, int]


class BufferPool:
    """Arrays of one shape and type, reused when nothing refers to them any more.

    The callback of a freed buffer is `list.append`: a KeyboardInterrupt in a callback in Python
    would be lost.
    """

    _ALIGNMENT = 64

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._used: dict[int, _Ticket] = {}
        self._free: list[_Ticket] = []
        self._lock = fresh(threading.Lock())

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
        size = prod(self.shape) * self.dtype.itemsize
        try:
            memory = bytearray(size + self._ALIGNMENT)
        except (MemoryError, OverflowError):
            raise OutOfMemory(f"no memory for a buffer of shape {self.shape}, type {self.dtype}, "
                              f"{size:,} bytes") from None
        return memory, -np.frombuffer(memory, np.uint8).ctypes.data % self._ALIGNMENT
