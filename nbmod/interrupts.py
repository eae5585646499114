"""Ctrl-C during compilation, and while the compiler is imported.

Python runs the handler of a signal between two bytecodes, also those of a callback that LLVM calls.
An exception in a callback cannot pass through LLVM's code: ctypes prints and drops it, so that the
program would go on, or end with an error of numba's.  And a module of numba's that was imported in
part cannot be imported any more: in a notebook that would be the end of compilation.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["deferred", "interruptible"]


def _handler() -> Callable[[int, FrameType | None], object] | None:
    """The function that SIGINT calls in this thread; None if there is none."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    return handler if is_main and callable(handler) else None


@contextmanager
def interruptible() -> Iterator[None]:
    """A block that ends with the exception of a SIGINT handler, wherever that was raised.

    The block's own handler restores the one before as soon as it is called: an exception may come
    between any two instructions, also of the code that would do so after the block.
    """
    handler = _handler()
    if handler is None:
        yield
        return
    raised: list[BaseException] = []

    def note(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, handler)
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, note)

    try:
        signal.signal(signal.SIGINT, note)
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, handler)
        if raised:
            raise raised[-1]


@contextmanager
def deferred() -> Iterator[None]:
    """A block that SIGINT does not interrupt: its handler is called at the end."""
    handler = _handler()
    if handler is None:
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append((number, frame))

    try:
        signal.signal(signal.SIGINT, wait)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[-1])
