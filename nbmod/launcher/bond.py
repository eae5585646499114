"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

__all__ = ["die_with", "dying_with_parent"]

PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`: a signal to get when the parent has died."""


def dying_with_parent() -> Callable[[], None] | None:
    """What a child of any program runs before it, so that SIGTERM ends it when this process dies.

    Returns
    -------
    callable or None
        For `preexec_fn` of `subprocess`; None except on Linux.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return bind


def die_with(parent: int) -> None:
    """Let this process die when its parent does, whichever way, even while it is stopped.

    Except on Linux, its standard input has to be a pipe from the parent, and it does not die while
    it is stopped.

    Parameters
    ----------
    parent : int
        The number of the parent.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    else:
        lifeline = os.dup(0)    # in which nothing ever comes
        threading.Thread(target=_die_at_end_of, args=[lifeline], daemon=True).start()


def _die_at_end_of(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)
