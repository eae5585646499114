"""A pool of buffers for the batches of iterators, so that a steady loop allocates nothing.

A buffer returns to its pool when the last reference to it, or to a view of it, is gone, so a
batch that is kept keeps its values.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import DTypeLike

from ..base import OutOfMemory
from ..core.loans import Loans

__all__ = ["BufferPool", "PooledBuffer"]


class PooledBuffer(np.ndarray):
    """The array that is the base of all views of a buffer.

    NumPy sets the base of a view to the last array of the same class in its chain of bases.  So a
    buffer has a class of its own, and its memory is not an array.
    """


class BufferPool:
    """Arrays of one shape and type, reused when nothing refers to them any more."""

    _ALIGNMENT = 64

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._memory = Loans[tuple[bytearray, int]]()

    def acquire(self) -> np.ndarray:
        """An array with arbitrary contents."""
        return np.asarray(self._memory.lend(
            self._allocate, lambda memory: PooledBuffer(self.shape, self.dtype, *memory)))

    def _allocate(self) -> tuple[bytearray, int]:
        size = prod(self.shape) * self.dtype.itemsize
        try:
            memory = bytearray(size + self._ALIGNMENT)
        except (MemoryError, OverflowError):
            raise OutOfMemory(f"no memory for a buffer of shape {self.shape}, type {self.dtype}, "
                              f"{size:,} bytes") from None
        return memory, -np.frombuffer(memory, np.uint8).ctypes.data % self._ALIGNMENT
