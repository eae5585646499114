"""Processes that do not outlive the one that started them.

`python -m nbmod.launcher.bond PID program args` becomes a program that gets SIGTERM when the
process of number PID, its parent, has died.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

__all__ = ["bound", "die_with"]

PR_SET_PDEATHSIG = 1
"""Option of Linux's `prctl`: the signal to receive when the parent has died."""


def bound(command: Sequence[str]) -> list[str]:
    """The command of a child that ends when this process dies; unchanged except on Linux."""
    if sys.platform != "linux":
        return [*command]
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def _bind(parent: int, number: int) -> None:
    """Get a signal when the parent dies; end if it has died already."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def die_with(parent: int) -> None:
    """Let this process die when its parent does, whichever way, even while it is stopped.

    Except on Linux, its standard input has to be a pipe from the parent, and it does not die while
    it is stopped.
    """
    if sys.platform == "linux":
        _bind(parent, signal.SIGKILL)
    else:
        lifeline = os.dup(0)    # in which nothing ever comes
        threading.Thread(target=_die_at_end_of, args=[lifeline], daemon=True).start()


def _die_at_end_of(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    _bind(int(sys.argv[1]), signal.SIGTERM)
    os.execv(sys.argv[2], sys.argv[2:])
