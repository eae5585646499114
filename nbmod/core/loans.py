"""Things that are used again when the objects that have them are gone."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .fork import fresh

__all__ = ["Loans"]

Thing = TypeVar("Thing")
Holder = TypeVar("Holder")


class _Ticket(weakref.ref[Any]):
    """Weak reference to a holder, with its thing; it is queued when the holder is gone."""

    __slots__ = ("thing",)
    thing: Any


class Loans(Generic[Thing]):
    """Things, each of which one object has as long as that lives.

    The callback at its end is `list.append`: a KeyboardInterrupt in a callback in Python would be
    lost.
    """

    def __init__(self) -> None:
        self._used: dict[int, _Ticket] = {}
        self._free: list[_Ticket] = []
        self._lock = fresh(threading.Lock())

    def lend(self, make: Callable[[], Thing], hold: Callable[[Thing], Holder],
             order: Callable[[Thing], Any] | None = None) -> Holder:
        """Return the holder of a thing that is free, the least in an order, or of a new one.

        Parameters
        ----------
        make : callable
            Returns a new thing.
        hold : callable
            Returns the holder of a thing.
        order : callable, optional
            Key of free things; that which became free last is taken by default.
        """
        with self._lock:
            thing: Thing = self._returned(order) if self._free else make()
            holder = hold(thing)
            ticket = _Ticket(holder, self._free.append)
            ticket.thing = thing
            self._used[id(ticket)] = ticket
        return holder

    def _returned(self, order: Callable[[Thing], Any] | None) -> Any:
        index = -1 if order is None or len(self._free) == 1 else min(
            range(len(self._free)), key=lambda each: order(self._free[each].thing))
        ticket = self._free.pop(index)
        del self._used[id(ticket)]
        return ticket.thing
