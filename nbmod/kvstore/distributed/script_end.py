"""The end of the script of a rank that has a distributed store.

MPI waits at the end of a process for all others.  So an exception that ends a script would leave
its rank waiting for ranks that wait for it: it ends all of them.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from types import TracebackType

from ...launcher import position
from .watchdog import Watchdog

__all__ = ["install"]


@cache
def install(watchdog: Watchdog, name: str) -> None:
    """Let an exception end all ranks, and the end of the script wait for that of the others.

    `watchdog` is that of the first store; further ones change nothing.  `name` is this rank, in
    words.
    """
    process = os.getpid()

    def end() -> None:
        if os.getpid() == process:    # and not in a forked one
            watchdog.end_script()

    atexit.register(end)
    if position.is_supervised():
        return    # `launcher.script` does it, also before there is a store
    before = sys.excepthook

    def end_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None
                ) -> None:
        before(kind, error, trace)
        if os.getpid() != process:
            return
        step = f" at {position.current()}" if str(position.current()) else ""
        watchdog.end_all(f"{name} ended with {kind.__name__}: "
                         f"{' '.join(str(error).split())[:300]}{step}")

    sys.excepthook = end_all
