"""Repairs after a fork: the child needs locks that nobody holds, and its own threads.

Only the thread that forks goes on in the child.  A lock that another thread held would stay locked
there, and threads of pools are missing.  Locks are registered where they are made (`fresh`), as are
functions that the child calls first (`in_child`); Python calls them from the first use of kernels
or pools on (`prepare`), not from the import.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, TypeVar

__all__ = ["fresh", "held", "in_child", "prepare"]

_Lock = TypeVar("_Lock")

_fresh: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Any] = []
_functions: list[Callable[[], None]] = []
_PACKAGES = "nbmod", "numba", "llvmlite"


def fresh(lock: _Lock) -> _Lock:
    """A lock of `threading` that is free in a forked child, unless the thread that forks has it."""
    _fresh.add(lock)
    return lock


def held(lock: Any) -> None:
    """Let forks wait for a lock, because what it protects must be whole in the child, too."""
    _held.append(lock)


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Decorator of functions that a forked child calls before anything else."""
    _functions.append(function)
    return function


@cache
def prepare() -> None:
    """From now on forked processes work, where there are any."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_child)


def _before() -> None:
    for lock in _held:
        lock.acquire()


def _after() -> None:
    for lock in reversed(_held):
        lock.release()


def _child() -> None:
    _after()
    _free_locks()
    for function in _functions:
        function()


def _free_locks() -> None:
    for lock in [*_fresh, *_locks_of_properties()]:
        if not getattr(lock, "_is_owned", bool)():
            lock._at_fork_reinit()    # as Python's own modules do


def _locks_of_properties() -> Iterator[Any]:
    """Locks of cached properties, which Python has before 3.12.

    A thread holds one while it computes the value for any object of the class.
    """
    if sys.version_info < (3, 12):
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _PACKAGES:
                classes = [value for value in vars(module).values() if isinstance(value, type)]
                yield from (vars(value)["lock"] for each in classes for value in vars(each).values()
                            if isinstance(value, cached_property))
