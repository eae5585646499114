"""Rows of numeric text files, parsed block by block.

A block is a range of bytes of one file.  It owns the lines that begin after its start and up to its
end (the first block also the first line), so blocks are read independently and every line belongs
to exactly one.  `RowStream` parses blocks ahead (`job_pipeline`) and returns any number of rows.

Rows are columns of equal length that can be sliced and concatenated: arrays, and `CSR` rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..base import MXNetError, OutOfMemory
from ..ndarray.buffer_pool import BufferPool
from ..ops.jit import num_threads
from ..ops.sparse.formats import CSR
from . import text_kernels as kernels
from .job_pipeline import Job, Pipeline

__all__ = ["ByteRange", "CSVParser", "LibSVMParser", "RowStream", "Columns", "blocks_of"]

BLOCK_BYTES = 1 << 20
_SEARCH, _COUNT_BYTES = 1 << 12, 1 << 16
_NEWLINE, _COLON = b"\n:"
_MAX_TEXT = BLOCK_BYTES + _COUNT_BYTES
"""Capacity of pooled text buffers: the last line of a block extends beyond the block."""
_MAX_THREADS = 4


@dataclass(frozen=True)
class Columns:
    """Columns of equal length: arrays, whose rows are along axis 0, or `CSR`."""

    columns: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, rows: slice) -> Columns:
        return Columns(tuple(column[rows] for column in self.columns))

    @staticmethod
    def join(parts: Sequence[Columns]) -> Columns:
        """The concatenated rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return Columns(tuple(
            CSR.concatenate(same) if isinstance(same[0], CSR)
            else np.concatenate(same) for same in columns))


class ByteRange(NamedTuple):
    """Bytes `start` to `end` of a file; see the rule above for the lines that belong to it."""

    path: str
    start: int
    end: int

    def read(self, texts: BufferPool) -> tuple[np.ndarray, int]:
        """Its lines in a buffer, padded for the kernels, and their offset in the file.

        Usually one read includes the end of the last line.  Every system call releases the GIL and
        has to acquire it again, so there are few.
        """
        size, more = self.end - self.start, _SEARCH
        with open(self.path, "rb", buffering=0) as file:
            text, count = self._read(file, size + more, texts)
            first = _after_newline(text, 0) if self.start else 0
            while first < (last := _after_newline(text, size)) and last > size + more:
                more *= 16
                text, count = self._read(file, size + more, texts)
        last = min(last, count)
        text = text[min(first, last):last + kernels.PADDING]
        text[-kernels.PADDING:] = _NEWLINE
        if self.start == 0 and text[:3].tobytes() == b"\xef\xbb\xbf":  # byte order mark of UTF-8
            return text[3:], 3
        return text, self.start + first

    def _read(self, file: Any, count: int, texts: BufferPool) -> tuple[np.ndarray, int]:
        """Read at most `count` bytes: a buffer padded with newlines, and their number."""
        text = _buffer_of(texts, count + kernels.PADDING)
        file.seek(self.start)
        done = 0
        while done < count and (size := file.readinto(text[done:count].data)):
            done += size
        if self.start + done < self.end:
            raise MXNetError(f"{self.path}: the file has {self.start + done} bytes, had at least "
                             f"{self.end} when it was opened; do not change files that are read")
        text[done:done + kernels.PADDING] = _NEWLINE
        return text[:done + kernels.PADDING], done


def _after_newline(text: np.ndarray, at: int) -> int:
    """Index after the first newline at or after `at` (which must exist)."""
    while (index := text[at:at + _SEARCH].tobytes().find(_NEWLINE)) < 0:
        at += _SEARCH
    return at + index + 1


def blocks_of(paths: Sequence[str], num_parts: int = 1, part_index: int = 0) -> list[ByteRange]:
    """The blocks of one part of the concatenated files, which are divided into equal ranges."""
    sizes = [os.path.getsize(path) for path in paths]
    step = -(-sum(sizes) // num_parts)
    first, last, base = step * part_index, step * (part_index + 1), 0
    blocks = []
    for path, size in zip(paths, sizes, strict=True):
        start, end = max(first - base, 0), min(last - base, size)
        blocks += [ByteRange(path, at, min(at + BLOCK_BYTES, end))
                   for at in range(start, end, BLOCK_BYTES)]
        base += size
    return blocks


Parser = Callable[[ByteRange], Columns]


class RowStream:
    """The rows of blocks, in order."""

    def __init__(self, blocks: Sequence[ByteRange], parse: Parser, ahead: int):
        self._blocks, self._parse = blocks, parse
        self.bytes = sum(block.end - block.start for block in blocks)
        self._pipeline = Pipeline(min(num_threads(), _MAX_THREADS), ahead)
        self.restart()

    def restart(self, position: int = 0) -> None:
        """Continue at the row `position`, counted from the first block."""
        self._pipeline.start(self._jobs())
        self._block, self._used, self.position = Columns(((),)), 0, 0
        while self.position < position:
            if not len(self.read(min(position - self.position, 1 << 16))):
                raise MXNetError(f"the saved state is at row {position}, and there are only "
                                 f"{self.position}")

    def _jobs(self) -> Iterator[Job]:
        for block in self._blocks:
            done: list[Columns] = []
            yield Job([partial(self._parse_into, block, done)], done.pop)

    def _parse_into(self, block: ByteRange, done: list[Columns]) -> None:
        done.append(self._parse(block))

    def read(self, count: int) -> Columns:
        """The next `count` rows; fewer at the end, none after it."""
        parts: list[Columns] = []
        while count > 0:
            if self._used == len(self._block):
                try:
                    self._block, self._used = self._pipeline.next(), 0
                except StopIteration:
                    break
                continue  # a block may have no rows
            part = self._block[self._used:self._used + count]
            self._used += len(part)
            count -= len(part)
            parts.append(part)
        rows = Columns.join(parts) if parts else self._parse(ByteRange(os.devnull, 0, 0))
        self.position += len(rows)
        return rows

    def close(self) -> None:
        """Stop the threads."""
        self._pipeline.close()


# ------------------------------------------------------------------------------------- parsing

def _buffer_of(pool: BufferPool, count: int) -> np.ndarray:
    """The first `count` rows of a pooled buffer; a new array if that is too small."""
    if count > pool.shape[0]:
        return np.empty((count, *pool.shape[1:]), pool.dtype)
    return pool.acquire()[:count]


def _text_pool() -> BufferPool:
    return BufferPool((_MAX_TEXT,), np.uint8)


def _count(text: np.ndarray, byte: int) -> int:
    """Number of occurrences of a byte, counted in pieces that fit into the cache."""
    return sum(int(np.count_nonzero(text[at:at + _COUNT_BYTES] == byte))
               for at in range(0, text.size, _COUNT_BYTES))


class CSVParser:
    """Parses CSV blocks to rows: one column, of shape (rows, columns)."""

    def __init__(self, columns: int, dtype: Any):
        self._text_pool, self.columns = _text_pool(), columns
        self._values = BufferPool((_MAX_TEXT // (2 * columns) + 1, columns), dtype)

    def __call__(self, block: ByteRange) -> Columns:
        text, offset = block.read(self._text_pool)
        rows = text.size // (2 * self.columns)
        if rows >= self._values.shape[0]:
            rows = min(rows, _count(text, _NEWLINE))
        try:
            values = _buffer_of(self._values, rows + 1)  # and one for an incomplete line
        except (MemoryError, OverflowError, ValueError) as error:
            raise OutOfMemory(f"{block.path}: rows of {self.columns:,} numbers: {error}") from None
        status = np.zeros(3, np.int64)
        kernels.parse_csv(text, values.dtype.kind == "i", values, status)
        if status[1] != kernels.OK:
            number = "a whole number" if values.dtype.kind == "i" else "a number"
            raise _error(block, text, offset, status, {
                kernels.BAD_NUMBER: number,
                kernels.WRONG_COUNT: f"{self.columns} numbers in a line"})
        return Columns((values[:status[0]],))


class LibSVMParser:
    """Parses LibSVM blocks to rows: the pairs of each line, and its label.

    Pooled buffers suffice for typical lines and pairs.  If they turn out too small, lines and pairs
    are counted, and the block is parsed again.
    """

    def __init__(self, columns: int):
        self._text_pool, self.columns = _text_pool(), columns
        rows, pairs = _MAX_TEXT // 16, (_MAX_TEXT // 6,)
        self._labels, self._indptr, self._indices, self._values = (
            BufferPool(shape, dtype) for shape, dtype in (
                ((rows,), np.float32), ((rows + 1,), np.int64), (pairs, np.int64),
                (pairs, np.float32)))

    def __call__(self, block: ByteRange) -> Columns:
        text, offset = block.read(self._text_pool)
        arrays = [pool.acquire() for pool in (self._labels, self._indptr, self._indices,
                                              self._values)]
        status = np.zeros(3, np.int64)
        kernels.parse_libsvm(text, self.columns, *arrays, status)
        if status[1] == kernels.BUFFER_FULL:
            rows, pairs = _count(text, _NEWLINE), _count(text, _COLON)
            arrays = [np.empty(rows, np.float32), np.empty(rows + 1, np.int64),
                      np.empty(pairs, np.int64), np.empty(pairs, np.float32)]
            kernels.parse_libsvm(text, self.columns, *arrays, status)
        if status[1] != kernels.OK:
            raise _error(block, text, offset, status, {
                kernels.BAD_NUMBER: "a number", kernels.BAD_INDEX: "a pair index:value",
                kernels.OUT_OF_RANGE: f"an index below {self.columns}, the columns of data_shape "
                                      "(indices start at 0)"})
        labels, indptr, indices, values = arrays
        count = status[0]
        used = indptr[count]
        matrix = CSR(indptr[:count + 1], indices[:used], values[:used], (int(count), self.columns))
        return Columns((matrix, labels[:count]))


def _error(block: ByteRange, text: np.ndarray, offset: int, status: np.ndarray,
           expected: dict[int, str]) -> MXNetError:
    """The error in a kernel's `status`, with the line number."""
    at = int(status[2])
    raw = text.tobytes()
    line = raw[raw.rfind(b"\n", 0, at) + 1:].split(b"\n", 1)[0]
    with open(block.path, "rb") as file:
        number = 1
        for start in range(0, offset + at, BLOCK_BYTES):
            number += file.read(min(BLOCK_BYTES, offset + at - start)).count(b"\n")
    shown = line[:60].decode("utf-8", "replace")
    excerpt = raw[at:at + 20].split(b"\n", 1)[0].decode("utf-8", "replace")
    return MXNetError(f"{block.path}, line {number}: expected {expected[int(status[1])]}, found "
                      f"{excerpt!r} in {shown!r}")
