"""File locks between processes.

The operating system releases a lock when its process ends, however it ends.

filelock does not replace this: nbmod needs NumPy and numba alone, a child of `os.fork` has to close
the locks of its parent, and some locks are on folders, or on the file that is being written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

from .fork import in_child
from .interrupts import is_waiting

__all__ = ["folder_locked", "lock_for_process", "locked", "try_lock"]

PAUSE = 0.02
"""Seconds between two attempts to acquire a lock."""
PATIENCE = 60.0
"""Seconds to wait for a folder whose files another process renames, which takes milliseconds."""


_files: set[IO[bytes]] = set()


@in_child
def _let_go() -> None:
    """Close the files of other threads of the parent: a child would keep them locked."""
    for file in _files:
        file.close()
    _files.clear()


@contextlib.contextmanager
def locked(path: pathlib.Path, timeout: float) -> Iterator[bool]:
    """A block that holds the lock of a file, after waiting at most `timeout` seconds for it.

    It waits no longer once a signal waits for the end of this (`interrupts.deferred`).  Yields
    whether the lock was acquired; the block runs in any case, also on file systems without locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(path, "ab"))
        except OSError:
            yield True
            return
        stack.callback(_files.discard, file)
        _files.add(file)
        yield _wait(file, timeout, is_waiting)


def _wait(file: IO[bytes] | int, timeout: float, gives_up: Callable[[], bool]) -> bool:
    """Try to lock a file, again and again until the time is over."""
    deadline = time.monotonic() + timeout
    while not try_lock(file):
        if time.monotonic() >= deadline or gives_up():
            return False
        time.sleep(PAUSE)
    return True


if sys.platform == "win32":
    import msvcrt

    def try_lock(file: IO[bytes] | IO[str] | int, unknown: bool = True) -> bool:
        """Try to lock until the file is closed; the byte need not exist."""
        try:
            msvcrt.locking(file if isinstance(file, int) else file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def lock_for_process(file: IO[bytes]) -> bool:
        """Whether this process may write the file; Windows' locks would keep readers out."""
        return True

    @contextlib.contextmanager
    def folder_locked(folder: str) -> Iterator[None]:
        """A block; Windows locks no folders."""
        yield

else:
    import fcntl

    def try_lock(file: IO[bytes] | IO[str] | int, unknown: bool = True) -> bool:
        """Try to lock until the file is closed; `unknown` on file systems without locks."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # not supported by the file system
            return unknown
        return True

    def lock_for_process(file: IO[bytes]) -> bool:
        """Try to lock for all threads of this process, until it closes any handle of the file."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # not supported by the file system
            pass
        return True

    @contextlib.contextmanager
    def folder_locked(folder: str) -> Iterator[None]:
        """A block that one thread of one process runs at a time, where folders can be locked.

        Raises TimeoutError if another one does not leave such a block.
        """
        try:
            handle = os.open(folder, os.O_RDONLY)
        except OSError:
            yield
            return
        try:
            if not _wait(handle, PATIENCE, lambda: False):
                raise TimeoutError(errno.ETIMEDOUT, f"another process has been replacing files "
                                   f"for {PATIENCE:.0f} s", folder)
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)    # for children, too, which have the handle
            os.close(handle)
