"""Signals at moments where an exception would be lost, or would leave the compiler unusable.

Python runs the handler of a signal between two bytecodes of the main thread, also those of a
callback that LLVM calls.  An exception in a callback cannot pass through LLVM's code: ctypes prints
and drops it, so that the program goes on, or ends with an error of numba's.  A module of numba's
that was imported in part cannot be imported any more, and a registry that was filled in part stays
so: nothing compiles after that.  Hence handlers wait while a kernel is compiled and while numba is
imported (`deferred`), which is as long as an interrupt of any kind may take.

Elsewhere a handler may raise at any bytecode.  Errors of operators are translated to MXNetError,
but those of handlers are not errors of operators (`from_handler`).
"""

from __future__ import annotations

# Of `signal`, which looks up results in enumerations, a block of `deferred` takes 90 us, not 10.
import _signal  # type: ignore[import-not-found]
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from .fork import in_child

__all__ = ["deferred", "from_handler", "is_waiting"]

_current: _Deferral | None = None


class _Deferral:
    """Recorders in place of all handlers written in Python, and the signals that have come.

    An exception may come between any two bytecodes outside of the block, also of the code that
    restores handlers.  A recorder that is called after the end therefore restores what is left.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._is_open = True
        self.waiting: dict[int, FrameType | None] = {}
        """The frame that each signal interrupted, in the order of their first arrival."""

    def open(self) -> None:
        """Replace the handlers."""
        global _current
        _current = self
        for number in range(1, _signal.NSIG):
            handler = _signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                _signal.signal(number, self._record)

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self._is_open:
            self.waiting.setdefault(number, frame)
        else:
            self.restore()
            self._handlers[number](number, frame)

    def restore(self) -> None:
        """Put the handlers back, except where the block has set others."""
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) == self._record:
                _signal.signal(number, handler)

    def close(self) -> None:
        """Restore the handlers, and call those of the signals that have come, each once.

        If several raise, the last exception is raised, with the others as its context.
        """
        global _current
        try:
            self._is_open, _current = False, None
            self.restore()
            while self.waiting:
                number, frame = next(iter(self.waiting.items()))
                try:
                    self._handlers[number](number, frame)
                finally:
                    del self.waiting[number]
        except BaseException:
            self.close()    # what is left
            raise


@contextmanager
def deferred() -> Iterator[None]:
    """A block during which signals wait: their handlers are called at its end.

    Of a signal that comes several times, the handler is called once, as the operating system does
    with signals that wait.  Handlers run in the main thread only, so that in others, and within
    such a block, nothing changes.
    """
    if _current is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    block = _Deferral()
    try:
        block.open()
        yield
    finally:
        block.close()


def is_waiting() -> bool:
    """Whether a signal waits for the end of a block: what the block only waits for may end, too."""
    return _current is not None and bool(_current.waiting)


@in_child
def _restore() -> None:
    """In a child that another thread forked during a block: signals are those of the parent."""
    global _current
    if _current is not None:
        _current.restore()
        _current = None


def from_handler(error: BaseException) -> bool:
    """Whether a signal handler raised an exception, or the trace function of a debugger.

    Python calls these with the frame that they interrupt as an argument, as no other function is
    called: its traceback tells.
    """
    entry, outer = error.__traceback__, None
    while entry is not None:
        frame = entry.tb_frame
        if frame.f_code is _Deferral.close.__code__ or _was_given(frame, outer):
            return True
        entry, outer = entry.tb_next, frame
    return False


def _was_given(frame: FrameType, outer: FrameType | None) -> bool:
    """Whether `outer` is among the arguments of the function of `frame`."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = [values.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & inspect.CO_VARARGS:
        rest = values.get(code.co_varnames[count])
        arguments += rest if isinstance(rest, tuple) else ()
    return outer is not None and any(value is outer for value in arguments)
