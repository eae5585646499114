"""What is being compiled, and how much is left: a live line at a terminal, log lines elsewhere.

numba reports start and end of every compilation; those of helpers are nested in that of the kernel,
and only the outermost counts.  The kernels of a network that are left are those whose files
(`expect`) do not exist yet, whichever process compiles them.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["CompileListener", "expect"]

LONG = 1.0
"""Total seconds of compilation before the message that explains it."""
CLEAR = "\r\x1b[K"
"""Deletes a terminal's line."""
MESSAGE = ("nbmod: compiling kernels, once on this machine (python -m nbmod warmup does so "
           "ahead) ...")

_expected: list[Path] = []


def expect(files: Iterable[Path]) -> None:
    """The files of all kernels of the network that is being compiled."""
    _expected[:] = files


class CompileListener:
    """A listener to numba's compilation events.

    Parameters
    ----------
    live : bool
        Show a line on stderr, a terminal, while something is compiled.
    explains : bool
        Print a message once compilation has taken LONG.
    """

    def __init__(self, live: bool, explains: bool) -> None:
        self.live, self.explains = live, explains
        self.depth, self.done, self.seconds, self.began = 0, 0, 0.0, 0.0

    def notify(self, event: Any) -> None:
        """Handle an event; events are serialized, and come from the thread that compiles."""
        self.depth += 1 if event.is_start else -1
        if event.is_start and self.depth == 1:
            self.begin(event.data["dispatcher"].py_func.__name__)
        elif not event.is_start and self.depth == 0:
            self.end()

    def begin(self, name: str) -> None:
        """Show the kernel that is compiled now."""
        self.began = time.perf_counter()
        left = sum(not path.exists() for path in _expected)
        text = f"compiling kernel {name}, {self.done} done" + (f", {left} left" if left else "")
        logging.getLogger("nbmod").info(text)
        if self.live:
            print(f"{CLEAR}nbmod: {text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Delete the line, so that the program's own output is not appended to it."""
        self.done += 1
        self.seconds += time.perf_counter() - self.began
        if self.live:
            print(CLEAR, end="", file=sys.stderr, flush=True)
        if self.explains and self.seconds > LONG:
            self.explains = False
            print(MESSAGE, file=sys.stderr, flush=True)
