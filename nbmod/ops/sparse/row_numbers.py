"""Distinct row indices, and positions among them.

A table of all possible indices gives positions without a search or a sort.  It is kept for the next
call of the thread.  Few indices, or those of very many rows, for which the table would take too
much memory, are sorted instead.
"""

from __future__ import annotations

import threading

import numpy as np

from ...base import MXNetError
from ..jit import kernel

__all__ = ["distinct", "distinct_rows", "look_up", "positions"]

TABLE_UP_TO = 2 ** 25
"""Rows up to which there is a table, which takes 5 bytes for each."""
COMPILED_FROM = 2 ** 11
"""Indices from which a kernel is compiled; NumPy takes 0.1 ms for them."""


class _Tables(threading.local):
    """What the kernels that find positions need for each possible row, one for each thread."""

    def __init__(self) -> None:
        self.marks, self.positions = np.empty(0, np.uint8), np.empty(0, np.int32)

    def of(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Marks, all of which are 0 between kernels, and positions, which may be anything."""
        if len(self.marks) < size:
            words = -(-size // 8)
            self.marks = np.zeros(8 * words, np.uint8)
            self.positions = np.empty(8 * words, np.int32)
        return self.marks, self.positions


_tables = _Tables()


@kernel
def _number(ids, marks, words, table, rows, which, count):
    """rows[:count[0]] are the distinct ids, ascending; rows[which[e]] is ids[e], for as many e as
    `which` has elements.

    `words` are `marks`, eight at a time; `rows` has an element more than there are ids.
    """
    for e in range(len(ids)):
        marks[ids[e]] = 1
    n = 0
    for w in range(len(words)):
        if words[w] != 0:
            for r in range(8 * w, 8 * w + 8):   # without branches: what is not marked is replaced
                rows[n] = r
                table[r] = n
                n += marks[r]
            words[w] = 0
    for e in range(len(which)):
        which[e] = table[ids[e]]
    count[0] = n


@kernel
def _look_up(ids, marks, table, rows, which, counts):
    """rows[which[e]] is ids[e]; which[e] is -1 where it is not among them.

    counts[0] is how many rows are among the ids, counts[1] how many ids are among the rows.
    """
    for p in range(len(rows)):
        marks[rows[p]] = 1
        table[rows[p]] = p
    found = 0
    for e in range(len(ids)):
        if marks[ids[e]]:
            marks[ids[e]] = 2
            which[e] = table[ids[e]]
            found += 1
        else:
            which[e] = -1
    used = 0
    for p in range(len(rows)):
        used += marks[rows[p]] == 2
        marks[rows[p]] = 0
    counts[0], counts[1] = used, found


def distinct_rows(ids: np.ndarray, size: int) -> np.ndarray:
    """The distinct ones of `ids`, which are from 0 to `size` - 1, in ascending order.

    Raises
    ------
    MXNetError
        If an index is beyond.
    """
    return _distinct(ids, size, np.empty(0, np.int64))


def distinct(ids: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of `ids`, which are from 0 to `size` - 1, in ascending order; and for each
    of `ids` its position among them.

    Raises
    ------
    MXNetError
        If an index is beyond.
    """
    which = np.empty(len(ids), np.int64)
    return _distinct(ids, size, which), which


def _distinct(ids: np.ndarray, size: int, which: np.ndarray) -> np.ndarray:
    """The distinct ids, and their positions in `which` if it has any elements."""
    if ids.size and not 0 <= ids.min() <= ids.max() < size:
        raise MXNetError(f"row indices are from {ids.min()} to {ids.max()}, expected 0 to "
                         f"{size - 1}")
    if len(ids) < COMPILED_FROM or size > TABLE_UP_TO:
        rows = np.unique(ids)
        which[:] = np.searchsorted(rows, ids[:len(which)])
        return rows
    marks, table = _tables.of(size)
    rows, count = np.empty(len(ids) + 1, np.int64), np.empty(1, np.int64)
    _number(ids, marks, marks.view(np.uint64)[:-(-size // 8)], table, rows, which, count)
    return rows[:count[0]]


def positions(ids: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """The position of each of `ids` among `rows`, which ascend from 0 to `size` - 1 at most; -1 for
    those that are absent."""
    return look_up(ids, rows, size)[0]


def look_up(ids: np.ndarray, rows: np.ndarray, size: int) -> tuple[np.ndarray, bool]:
    """The positions, and whether `rows` are known to be exactly the distinct ones of `ids`."""
    inside = not ids.size or (ids.min() >= 0 and ids.max() < size)
    if inside and len(rows) == size:
        return ids, False       # all rows
    if len(ids) < COMPILED_FROM or size > TABLE_UP_TO or not inside:
        found = np.searchsorted(rows, ids)
        found[found == len(rows)] = 0
        absent = np.full(len(ids), -1)
        return np.where(rows[found] == ids, found, absent) if len(rows) else absent, False
    which, counts = np.empty(len(ids), np.int64), np.empty(2, np.int64)
    _look_up(ids, *_tables.of(size), rows, which, counts)
    return which, bool(counts[0] == len(rows) and counts[1] == len(ids))
