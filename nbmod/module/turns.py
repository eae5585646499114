"""Calls of one module from several threads: they take turns, and each thread has its own outputs.

`forward` runs under a lock that all modules which share memory have in common.  When another thread
calls it than the last time, the executors leave their arrays of outputs to that thread, which goes
on reading them, and get new ones; so a program of one thread pays for a comparison.  Arrays that
exist once, such as gradients, are an error for all threads but the last one.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from ..base import MXNetError
from ..core.fork import fresh

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .arguments import Outputs
    from .executor_group import DataParallelExecutorGroup

__all__ = ["Turns"]


class _Thread(threading.local):
    """An object for every thread, which ends with it."""

    def __init__(self) -> None:
        self.identity = _Identity()


class _Identity:
    """Stands for a thread; identities of threads themselves are used again."""


_thread = _Thread()


class Turns:
    """The turns of the threads that use modules of one memory; `lock` is held for a turn."""

    def __init__(self) -> None:
        self.lock = fresh(threading.RLock())
        self._last: _Identity | None = None
        self._group: DataParallelExecutorGroup | None = None
        self._kept: weakref.WeakKeyDictionary[_Identity, tuple[
            DataParallelExecutorGroup, list[list[NDArray]]]] = weakref.WeakKeyDictionary()

    def begin_forward(self, group: DataParallelExecutorGroup) -> None:
        """Under the lock: this thread is about to run a group."""
        if self._last is not _thread.identity:
            self._change_threads()
        self._group = group

    def _change_threads(self) -> None:
        """Leave the outputs to the thread that ran before."""
        if self._last is not None and self._group is not None:
            executors = self._group.execs
            self._kept[self._last] = self._group, [executor.outputs for executor in executors]
            for executor in executors:
                executor.renew_outputs()
        self._last = _thread.identity
        self._kept.pop(self._last, None)

    def get_outputs(self, group: DataParallelExecutorGroup, merge: bool) -> Outputs:
        """The outputs of this thread's last `forward`; those of `group`, if it has had none."""
        with self.lock:
            own = self._kept.get(_thread.identity)
            if own is None:
                return group.get_outputs(merge)
            return own[0].get_outputs(merge, outputs=own[1])

    def require_last(self, call: str) -> None:
        """MXNetError if another thread has called `forward` after this one did."""
        if self._last is not _thread.identity and _thread.identity in self._kept:
            raise MXNetError(
                f"{call}: another thread has called forward of this module, or of one that shares "
                "its memory, since this thread did, and only outputs are kept for each thread. "
                "Hold a lock of your own around the calls that belong together, or give each "
                "thread a module of its own: bind another one, and "
                "set_params(*module.get_params())")
