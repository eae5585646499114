"""`RecordReader`: records of one file, in sequence and by offset.

Reads are positional (`pread`), so threads and forked processes can share a reader.  Small records
read in sequence come from a window of the file in memory, because a system call for each would cost
more than copying them twice.  The file is not mapped into memory: truncation of a mapped file, or a
disk error, would kill the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from operator import length_hint

from ..base import MXNetError
from ..core.fork import fresh
from ..core.interrupts import from_handler
from .frames import HEAD, MAGIC, MAGIC_WORD, Record, RecordChain

__all__ = ["WINDOW", "RecordReader"]

WINDOW, _SMALL = 1 << 19, 1 << 16
_NONE: Iterator[slice] = iter(())


class _Source:
    """A file for positional reads by any number of threads and forked processes."""

    def __init__(self, path: str):
        try:
            self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            self.fetch(0, 1)  # a folder opens, but does not read
        except OSError as error:
            if from_handler(error):
                raise
            raise MXNetError(f"{path}: cannot be read as a record file: {error.strerror}"
                             ) from error

    _cursor = threading.Lock()

    if hasattr(os, "pread"):
        def fetch(self, offset: int, count: int) -> bytes:
            """Read `count` bytes from `offset`; fewer only at the end of the file."""
            return os.pread(self._fd, count, offset)
    else:  # Windows
        def fetch(self, offset: int, count: int) -> bytes:
            with self._cursor:
                os.lseek(self._fd, offset, os.SEEK_SET)
                return os.read(self._fd, count)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)


class RecordReader:
    """Records of one file, in sequence and by offset.

    `next` returns the remaining records of a window of the file without a lock: `window` is an
    iterator whose step is atomic in the interpreter.  `_state` has the offsets of the window's
    records and of the one after them, an iterator whose length hint is the number of remaining
    records, and the head after the window, if it is known.
    """

    _state: tuple[Sequence[int], Iterator[slice], bytes]
    window: Iterator[bytes]

    def __init__(self, path: str, strict: bool):
        self.source = _Source(path)
        self.chain = RecordChain(path, self.source.fetch, self.source.size)
        self._strict = strict
        self._turn = fresh(threading.Lock())
        self._guess = 1 << 12
        self.go(0)

    @property
    def position(self) -> int:
        """Offset of the record that `next` reads."""
        before, left, _ = self._state
        return before[-1 - length_hint(left)]

    def go(self, position: int) -> None:
        """Set `position`."""
        with self._turn:
            self._state, self.window = ((position,), _NONE, b""), iter(())

    def next(self) -> bytes | None:
        """Read the record at `position` and advance; None at the end."""
        data = next(self.window, None)
        if data is None:
            with self._turn:
                data = next(self.window, None)  # another thread may have opened one meanwhile
                return self._from_file() if data is None else data
        return data

    def at(self, offset: int) -> bytes | None:
        """Read the record at `offset`, and set `position` to the next one.

        The first read has the length of the previous record, if that was small.  No other record
        takes the place of a damaged one, which is an error.
        """
        head = self.source.fetch(offset, self._guess)
        record = self._read_sound(offset, head) if self._strict else self.chain.plausible(offset)
        if record is None:
            return None
        size = record[1] - offset
        self._guess = size + (size >> 2) + 8 if size <= _SMALL else 8
        self.go(record[1])
        return record[0]

    def _from_file(self) -> bytes | None:
        """Read the record after the window.

        A small record starts a new window; after a large one the next head is kept.
        """
        before, _, head = self._state
        at = before[-1]
        head = head or self.source.fetch(at, 8)
        if len(head) == 8 and HEAD.unpack(head)[1] <= _SMALL:
            window = self.source.fetch(at, WINDOW)
            before, cuts = _split(window, at)
            if not self._strict and window.count(MAGIC_WORD, 0, before[-1] - at) > len(cuts):
                before, cuts = [at], []  # perhaps records that a wrong length skips
            left = iter(cuts)
            self._state, self.window = (before, left, b""), map(window.__getitem__, left)
            data = next(self.window, None)
            if data is not None:
                return data
        record = self._read(at, head)
        if record is None:
            return None
        self._state = (record[1],), _NONE, record[2] if len(record) > 2 else b""
        return record[0]

    def _read(self, offset: int, head: bytes) -> tuple[bytes, int, bytes] | Record | None:
        """Read the record at `offset`, where `head` was read."""
        return self._read_sound(offset, head) if self._strict else self.chain.intact(offset)

    def _read_sound(self, offset: int, head: bytes) -> tuple[bytes, int, bytes] | Record | None:
        return self.chain.read_simple(offset, head) or self.chain.read(offset)


def _split(window: bytes, start: int) -> tuple[list[int], list[slice]]:
    """Split a window into records: (their offsets and that of the next one, their slices).

    The window starts at offset `start` of the file, at a record.  Only records of one part that are
    followed by another one are found.
    """
    before, cuts, at, last, head = [start], [], 8, len(window), HEAD.unpack_from
    magic, length = head(window) if last >= 8 else (0, 0)
    while magic == MAGIC:
        after = at + 8 + (length + 3 & ~3)
        if after > last:
            break
        magic, following = head(window, after - 8)
        if magic == MAGIC:
            cuts.append(slice(at, at + length))
            before.append(start + after - 8)
        at, length = after, following
    return before, cuts
