"""Files that are written whole or not at all, alone or as a set.

`atomic_write` writes a temporary file beside the file that it replaces.  In a block of
`replacing_together` the replacements wait for its end, so that a process that is killed while it
writes leaves the old set; only between two of the renames could it leave files of both.

A temporary file is locked as long as its process lives.  Whoever writes to the same folder later
removes those without a lock, which a killed process has left.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import BinaryIO

from .base import UnwritableFile
from .ops.build.locks import try_lock

__all__ = ["atomic_write", "latest", "replacing_together"]

Path = str | os.PathLike[str]
_TEMPORARY = re.compile(r".+\.nbmod-[0-9a-f]{12}\.tmp")


class _Replacement:
    """A new content of the file `target`, in a temporary file beside it."""

    def __init__(self, target: str):
        self.target = target
        self.stream = self._create()

    def _create(self) -> BinaryIO:
        """A new file that is locked; `_sweep` may remove one before it is."""
        while True:
            self.temporary = f"{self.target}.nbmod-{secrets.token_hex(6)}.tmp"
            stream = open(self.temporary, "xb")
            if os.name == "nt" or (try_lock(stream) and os.path.exists(self.temporary)):
                return stream    # Windows keeps open files, and locks would keep readers out
            stream.close()

    def store(self) -> None:
        """Let the content reach the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def publish(self) -> None:
        """Replace the target, under the lock where an open file can get another name."""
        if os.name == "nt":
            self.stream.close()
        if os.path.exists(self.target):
            shutil.copymode(self.target, self.temporary)
        os.replace(self.temporary, self.target)
        self.stream.close()

    def discard(self) -> None:
        """Remove the temporary file, if it is there still."""
        with suppress(OSError):
            self.stream.close()
        with suppress(FileNotFoundError):
            os.remove(self.temporary)


_set: ContextVar[dict[str, _Replacement] | None] = ContextVar("_set", default=None)
"""In a `replacing_together` block: replacements by target."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary stream whose content replaces the file `path` if the block succeeds.

    Until then it is a temporary file in the same folder, which is removed if the block raises.
    Symbolic links are followed; a device or pipe is written directly.
    Raises MXNetError where the file system refuses.
    """
    target = os.path.realpath(os.fspath(path))
    with _named_errors(path):
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as stream:
                yield stream
            return
        with _replacing(target) as stream:
            yield stream


@contextmanager
def _named_errors(path: Path | None = None) -> Iterator[None]:
    """Errors of the file system name `path`, or else their own file, once."""
    try:
        yield
    except UnwritableFile:
        raise
    except OSError as error:
        named = error.filename2 or error.filename if path is None else path
        raise UnwritableFile.because(named, error) from error


@contextmanager
def _replacing(target: str) -> Iterator[BinaryIO]:
    _sweep(os.path.dirname(target))
    replacement = _Replacement(target)
    try:
        yield replacement.stream
        replacement.store()
        waiting = _set.get()
        if waiting is None:
            replacement.publish()
            _sync_directories([replacement])
            return
    except BaseException:
        replacement.discard()
        raise
    before = waiting.pop(target, None)
    waiting[target] = replacement
    if before is not None:
        before.discard()


@contextmanager
def replacing_together() -> Iterator[None]:
    """A block whose files replace the old ones at its end; none of them does if it raises.

    The file that is written first is the last one to be replaced: where it is new, the others are
    there, too.
    Raises MXNetError where the file system refuses.
    """
    waiting: dict[str, _Replacement] = {}
    token = _set.set(waiting)
    try:
        with _named_errors():
            yield
            for replacement in reversed(waiting.values()):
                replacement.publish()
            _sync_directories(waiting.values())
    finally:
        _set.reset(token)
        for replacement in waiting.values():
            replacement.discard()


def latest(path: Path) -> str:
    """Where the content of `path` is: within `replacing_together`, that which is to replace it."""
    waiting = _set.get() or {}
    replacement = waiting.get(os.path.realpath(os.fspath(path)))
    return os.fspath(path) if replacement is None else replacement.temporary


def _sweep(folder: str) -> None:
    """Remove temporary files of processes that have ended."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left(entry.path)


def _remove_if_left(temporary: str) -> None:
    if os.name == "nt":    # which removes no open file
        os.remove(temporary)
        return
    with open(temporary, "rb") as stream:
        if try_lock(stream, unknown=False):
            os.remove(temporary)


def _sync_directories(replacements: Iterable[_Replacement]) -> None:
    """Make the renames themselves durable where the system lets a directory be synced."""
    if os.name != "posix":
        return
    for directory in {os.path.dirname(one.target) for one in replacements}:
        with suppress(OSError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
