"""Functions that stop in the middle and go on later: the threads of a simulated block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    import greenlet
except ImportError:     # an extra of the tests
    greenlet = None

__all__ = ["Strand"]


class _Abandoned(BaseException):
    """Ends a strand that nobody will resume."""


class _Greenlet:
    """A call of a function, run in turns: the master resumes it, it waits, it ends."""

    def __init__(self, function: Callable[..., None], args: Sequence[Any]):
        self.function, self.args = function, args
        self.ended = False
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
        self.ended = True

    def resume(self) -> None:
        """Run to the next wait, or to the end."""
        self.own.switch()

    def wait(self) -> None:
        """Let the master go on."""
        self.own.parent.switch()

    def abandon(self) -> None:
        """End it."""
        if not self.ended and self.own:
            self.own.throw()


class _Thread(threading.Thread):
    """The same with a thread of Python's."""

    def __init__(self, function: Callable[..., None], args: Sequence[Any]):
        super().__init__(daemon=True)
        self.function, self.args = function, args
        self.ended = self.abandoned = False
        self.error: Exception | None = None
        self.mine, self.masters = threading.Lock(), threading.Lock()
        self.mine.acquire()
        self.masters.acquire()
        self.start()

    def run(self) -> None:
        self.mine.acquire()
        try:
            if not self.abandoned:
                with np.errstate(all="ignore"):
                    self.function(*self.args)
        except _Abandoned:
            pass
        except Exception as error:
            self.error = error
        self.ended = True
        self.masters.release()

    def resume(self) -> None:
        self.mine.release()
        self.masters.acquire()

    def wait(self) -> None:
        self.masters.release()
        self.mine.acquire()
        if self.abandoned:
            raise _Abandoned

    def abandon(self) -> None:
        self.abandoned = True
        if not self.ended:
            self.resume()
        self.join()


Strand: Any = _Thread if greenlet is None else _Greenlet
