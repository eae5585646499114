"""Coroutines, on greenlets or threads: the threads of a block in the simulator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import greenlet
except ImportError:     # an extra of the tests
    greenlet = None

__all__ = ["Coroutine"]


class _Cancelled(BaseException):
    """Unwinds a coroutine that will not be resumed."""


class _GreenletCoroutine:
    """A call of a function that the scheduler resumes and that yields by `wait`."""

    def __init__(self, function: Callable[..., None], args: Sequence[Any]):
        self.function, self.args = function, args
        self.finished = False
        self.error: Exception | None = None
        self.own: Any = greenlet.greenlet(self._run)

    def _run(self) -> None:
        try:
            with np.errstate(all="ignore"):  # a greenlet has a context of its own
                self.function(*self.args)
        except Exception as error:
            self.error = error
        except greenlet.GreenletExit:
            pass
        self.finished = True

    def resume(self) -> None:
        """Run until it waits or returns."""
        self.own.switch()

    def wait(self) -> None:
        """Yield to the scheduler."""
        self.own.parent.switch()

    def cancel(self) -> None:
        """Unwind it, if it has not finished."""
        if not self.finished and self.own:
            self.own.throw()


class _ThreadCoroutine(threading.Thread):
    """A coroutine on a Python thread; a pair of locks passes control."""

    def __init__(self, function: Callable[..., None], args: Sequence[Any]):
        super().__init__(daemon=True)
        self.function, self.args = function, args
        self.finished = self.cancelled = False
        self.error: Exception | None = None
        self.resumed, self.yielded = threading.Lock(), threading.Lock()
        self.resumed.acquire()
        self.yielded.acquire()
        self.start()

    def run(self) -> None:
        self.resumed.acquire()
        try:
            if not self.cancelled:
                with np.errstate(all="ignore"):
                    self.function(*self.args)
        except _Cancelled:
            pass
        except Exception as error:
            self.error = error
        self.finished = True
        self.yielded.release()

    def resume(self) -> None:
        self.resumed.release()
        self.yielded.acquire()

    def wait(self) -> None:
        self.yielded.release()
        self.resumed.acquire()
        if self.cancelled:
            raise _Cancelled

    def cancel(self) -> None:
        self.cancelled = True
        if not self.finished:
            self.resume()
        self.join()


Coroutine: Any = _ThreadCoroutine if greenlet is None else _GreenletCoroutine
