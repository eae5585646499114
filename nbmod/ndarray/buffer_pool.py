"""Arrays that are lent: their memory is used again, and until then read where it lies.

`Loans` lends memory over and over.  A loan comes back when nothing refers to it any more, no view
either, so that who keeps a batch keeps its numbers.

An iterator hands its loans out as `Sealed` arrays.  While the seal holds, nobody has been given the
memory: nobody has a view of it, nobody writes to it.  So who knows of the seal may read the memory
in place for as long as he likes, instead of a copy, if he takes one when the seal breaks: that is
what its `readers` are told, at the last moment before the memory is handed out.  From then on the
array is an ordinary NDArray.

The same holds for an array that is filled lazily: it is sealed, and its reader fills it when
somebody looks (`nbmod.execution.zero_copy`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import Context, cpu
from .ndarray import NDArray

__all__ = ["Loan", "Loans", "Seal", "Sealed"]


class Loan(np.ndarray):
    """The array that all views of a loan refer to; `lender` is whom it goes back to.

    NumPy lets views refer to the array in which their chain ends, past all of the same class.  So
    the chain must end here: a loan is of a class of its own, and its memory is no array.
    """

    lender: Loans

    @staticmethod
    def behind(array: Any) -> Loan | None:
        """The loan that `array` is a view of."""
        while isinstance(array, np.ndarray) and not isinstance(array, Loan):
            array = array.base
        return array if isinstance(array, Loan) else None

    def bare(self, array: np.ndarray) -> np.ndarray:
        """The same memory as `array`, a contiguous view of the loan, but without a claim to it:
        it may be lent to others meanwhile."""
        memory = self.base
        assert memory is not None
        offset = array.ctypes.data - np.frombuffer(memory, np.uint8).ctypes.data
        return np.ndarray(array.shape, array.dtype, memory, offset)


class _Ticket(weakref.ref):
    """Says that a loan has ended, and which memory it had."""

    __slots__ = ("memory",)
    memory: tuple[bytearray, int]


class Loans:
    """Arrays of one shape and type, used again once nobody refers to them.

    What happens when a loan ends is one call of `list.append`.  Python code there would now and
    then be the place where Ctrl-C arrives, and that is lost in what ends objects.
    """

    _ALIGNED = 64

    def __init__(self, shape: tuple[int, ...], dtype: Any):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._out: dict[int, _Ticket] = {}
        self._ended: list[_Ticket] = []
        self._lock = threading.Lock()

    def rent(self) -> np.ndarray:
        """An array with any numbers in it."""
        with self._lock:
            memory = self._returned() if self._ended else self._allocate()
            loan = Loan(self.shape, self.dtype, *memory)
            loan.lender = self
            ticket = _Ticket(loan, self._ended.append)
            ticket.memory = memory
            self._out[id(ticket)] = ticket
        return np.asarray(loan)

    def _returned(self) -> tuple[bytearray, int]:
        ticket = self._ended.pop()
        del self._out[id(ticket)]
        return ticket.memory

    def _allocate(self) -> tuple[bytearray, int]:
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        memory = bytearray(size + self._ALIGNED)
        return memory, -np.frombuffer(memory, np.uint8).ctypes.data % self._ALIGNED


lock = threading.RLock()
"""Held while a seal breaks, and while readers come and go: any thread may look at an array."""


class Seal:
    """What holds as long as nobody has asked for a memory; `readers` are called when it breaks."""

    __slots__ = ("broken", "readers")

    def __init__(self) -> None:
        self.broken = False
        self.readers: set[Callable[[], None]] = set()

    def open(self) -> None:
        """Call the readers: the memory is about to be handed out.  Who is done leaves."""
        self.broken = True
        for reader in tuple(self.readers):
            reader()


_memory: Any = NDArray.__dict__["_data"]
"""The slot of `_data` itself, which `Sealed` hides."""


class Sealed(NDArray):
    """An array whose memory nobody has asked for.  Whoever does makes an ordinary NDArray of it.

    Several arrays on one memory may be under one `seal`: looking at one of them breaks it.

    Another thread may look at any moment, so methods here rely on nothing but the slots of `self`.
    """

    __slots__ = ()

    def __init__(self, memory: Any, ctx: Context | None = None, seal: Seal | None = None):
        _memory.__set__(self, memory)
        self._ctx, self._entry, self._seal = ctx or cpu(), None, seal or Seal()

    @staticmethod
    def close(array: NDArray) -> Seal:
        """Put a seal on an array whose memory nobody else has."""
        array._seal = Seal()
        array.__class__ = Sealed
        return array._seal

    @property
    def seal(self) -> Seal:
        return self._seal

    @property
    def memory(self) -> Any:
        """What `_data` will be, only to be read, and only as long as the seal holds."""
        return _memory.__get__(self)

    def part(self, rows: slice) -> Sealed:
        """Some of the rows, under the same seal."""
        return Sealed(_memory.__get__(self)[rows], self._ctx, self._seal)

    @property
    def _data(self) -> Any:
        with lock:
            self._seal.open()
            self.__class__ = NDArray
        return _memory.__get__(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return _memory.__get__(self).shape

    @property
    def dtype(self) -> type[np.generic]:
        return _memory.__get__(self).dtype.type

    @property
    def size(self) -> int:
        return _memory.__get__(self).size

    @property
    def ndim(self) -> int:
        return _memory.__get__(self).ndim
