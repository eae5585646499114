"""Files that one process at a time has locked.

A lock ends with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import IO

__all__ = ["locked"]

PAUSE = 0.02
"""Seconds between two looks at a lock that another process has."""


@contextlib.contextmanager
def locked(path: pathlib.Path, patience: float) -> Iterator[bool]:
    """A block for one process at a time, whose others wait before it for `patience` seconds.

    Gives whether the lock was free at last.  The block is entered in any case, also where the
    system has no such locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(path, "ab"))
        except OSError:
            yield True
            return
        yield _wait(file, time.monotonic() + patience)


def _wait(file: IO[bytes], until: float) -> bool:
    while not _taken(file):
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE)
    return True


if sys.platform == "win32":
    import msvcrt

    def _taken(file: IO[bytes]) -> bool:
        """Whether the lock is ours now, until the file is closed; the byte need not exist."""
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _taken(file: IO[bytes]) -> bool:
        """Whether the lock is ours now, until the file is closed, or locks are of no use here."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without them
            pass
        return True
