"""Ctrl-C during compilation.

Python runs the handler of a signal between two bytecodes, also those of a callback that LLVM calls.
An exception in a callback cannot pass through LLVM's code: ctypes prints and drops it, so that the
program would go on, or end with an error of numba's.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[None]:
    """A block that ends with the exception of a SIGINT handler, even if it was raised where it
    cannot propagate."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    raised: list[BaseException] = []

    def note(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if raised:
            raise raised[-1]
