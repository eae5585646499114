"""Blocks in which a variable has another value, and scopes: `AttrScope`, `NameManager`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

__all__ = ["Scope", "scoped"]

S = TypeVar("S", bound="Scope")
_Value = TypeVar("_Value")


@contextmanager
def scoped(variable: ContextVar[_Value], value: _Value) -> Iterator[None]:
    """A block in which a variable has a value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


class _ScopeType(type):
    """Metaclass that gives each direct subclass of `Scope` the attribute `current`.

    `current` is the innermost scope of the calling thread, initially a new one; further subclasses
    share it.
    """

    _root: type
    _thread: threading.local

    @property
    def current(cls) -> object:
        if not hasattr(cls._thread, "value"):
            cls._thread.value = cls._root()
        return cls._thread.value

    @current.setter
    def current(cls, scope: object) -> None:
        cls._thread.value = scope


class Scope(metaclass=_ScopeType):
    """Base class of context managers that are `current` for the duration of a `with` statement."""

    def __init__(self) -> None:
        self._outer: list[object] = []

    def __init_subclass__(cls) -> None:
        if Scope in cls.__bases__:
            cls._root, cls._thread = cls, threading.local()

    def __enter__(self: S) -> S:
        self._outer.append(type(self).current)
        type(self).current = self
        return self

    def __exit__(self, *exc: object) -> None:
        type(self).current = self._outer.pop()
