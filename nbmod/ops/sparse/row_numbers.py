"""Distinct row indices, and positions among them, by a bit vector with rank.

A bit of every possible row says whether it is there, and a count of each word how many are in the
words before it: the position of a row is this count and that of the bits before its own in its word
(Jacobson, "Space-efficient static trees and graphs", 1989).  So nothing is sorted or searched.
Vectors are kept for the next call of the thread.  Few indices, or those of very many rows, whose
words would nearly all be empty, are sorted instead.
"""

from __future__ import annotations

import threading

import numpy as np

from ...base import MXNetError
from ..jit import inlined, kernel, pays_off

__all__ = ["distinct", "distinct_rows", "look_up", "positions"]

VECTOR_UP_TO = 2 ** 25
"""Rows up to which there is a bit vector, which takes a third of a byte for each."""
COMPILED_FROM = 2 ** 11
"""Indices from which a kernel is compiled; NumPy takes 0.1 ms for them."""
WORD = 64
ONE, SHIFT, BITS = np.uint64(1), np.uint64(6), np.uint64(WORD - 1)
"""A row's word is row >> SHIFT, its bit in there row & BITS."""
PAIRS, FOURS, EIGHTS, SUM = (np.uint64(each * (2 ** WORD // 255)) for each in
                             (0x55, 0x33, 0x0f, 0x01))


class _Vectors(threading.local):
    """The bit vectors of kernels, those of each thread."""

    def __init__(self) -> None:
        self.held = self.used = np.empty(0, np.uint64)
        self.ranks = np.empty(0, np.uint32)

    def of(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two vectors of bits, all of which are 0 between kernels, and the ranks of their words,
        which may be anything."""
        words = -(-size // WORD)
        if len(self.held) < words:
            self.held, self.used = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
            self.ranks = np.empty(words, np.uint32)
        return self.held[:words], self.used[:words], self.ranks[:words]


_vectors = _Vectors()


@inlined
def _population_count(word):
    """How many bits are 1.  LLVM replaces these sums by one instruction (popcnt)."""
    word = word - ((word >> ONE) & PAIRS)
    word = (word & FOURS) + ((word >> np.uint64(2)) & FOURS)
    return (((word + (word >> np.uint64(4))) & EIGHTS) * SUM) >> np.uint64(56)


@inlined
def _insert(rows, held):
    for e in range(len(rows)):
        row = np.uint64(rows[e])
        held[row >> SHIFT] |= ONE << (row & BITS)


@inlined
def _rank(row, held, ranks):
    """How many rows before `row` are held."""
    word = row >> SHIFT
    return ranks[word] + _population_count(held[word] & ((ONE << (row & BITS)) - ONE))


@kernel
def _number(ids, held, ranks, rows, which, count):
    """rows[:count[0]] are the distinct ids, ascending; rows[which[e]] is ids[e], for as many e as
    `which` has elements."""
    _insert(ids, held)
    n = np.uint64(0)
    for w in range(len(held)):
        ranks[w] = n
        rest, first = held[w], np.uint64(w) << SHIFT
        while rest:
            rows[n] = first + _population_count((rest & -rest) - ONE)  # of trailing zeros
            rest &= rest - ONE
            n += ONE
    for e in range(len(which)):
        which[e] = _rank(np.uint64(ids[e]), held, ranks)
    held[:] = 0
    count[0] = n


@kernel
def _look_up(ids, held, used, ranks, rows, which, counts):
    """rows[which[e]] is ids[e]; which[e] is -1 where it is not among them.

    counts[0] is how many rows are among the ids, counts[1] how many ids are among the rows.
    """
    _insert(rows, held)
    n = np.uint64(0)
    for w in range(len(held)):
        ranks[w] = n
        n += _population_count(held[w])
    hits = 0
    for e in range(len(ids)):
        row = np.uint64(ids[e])
        bit = ONE << (row & BITS)
        if held[row >> SHIFT] & bit:
            which[e] = _rank(row, held, ranks)
            used[row >> SHIFT] |= bit
            hits += 1
        else:
            which[e] = -1
    n = np.uint64(0)
    for w in range(len(held)):
        n += _population_count(used[w])
    held[:] = 0
    used[:] = 0
    counts[0], counts[1] = n, hits


def distinct_rows(ids: np.ndarray, size: int) -> np.ndarray:
    """The distinct ones of `ids`, which are from 0 to `size` - 1, in ascending order.

    MXNetError if an index is beyond.
    """
    return _distinct(ids, size, np.empty(0, np.int64))


def distinct(ids: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of `ids`, as `distinct_rows`, and the position of each of `ids` in them."""
    which = np.empty(len(ids), np.int64)
    return _distinct(ids, size, which), which


def _distinct(ids: np.ndarray, size: int, which: np.ndarray) -> np.ndarray:
    """The distinct ids, and their positions in `which` if it has any elements."""
    if ids.size and not 0 <= ids.min() <= ids.max() < size:
        raise MXNetError(f"row indices are from {ids.min()} to {ids.max()}, expected 0 to "
                         f"{size - 1}")
    if size > VECTOR_UP_TO or not pays_off(len(ids), COMPILED_FROM):
        rows = np.unique(ids)
        which[:] = np.searchsorted(rows, ids[:len(which)])
        return rows
    held, _, ranks = _vectors.of(size)
    rows, count = np.empty(len(ids), np.int64), np.empty(1, np.int64)
    _number(ids, held, ranks, rows, which, count)
    return rows[:count[0]]


def positions(ids: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """The position of each of `ids` among `rows`; -1 for those that are absent.

    Raises
    ------
    MXNetError
        Unless `rows` ascend from 0 to `size` - 1 at most: users may have given others.
    """
    return look_up(ids, rows, size)[0]


def look_up(ids: np.ndarray, rows: np.ndarray, size: int) -> tuple[np.ndarray, bool]:
    """The positions, and whether `rows` are known to be exactly the distinct ones of `ids`."""
    inside = not ids.size or (ids.min() >= 0 and ids.max() < size)
    if len(rows) and not (0 <= rows[0] and rows[-1] < size):
        raise MXNetError(f"row indices are from {rows[0]} to {rows[-1]}, expected 0 to {size - 1}")
    if inside and len(rows) == size:
        return ids, False       # all rows
    if not (rows[1:] > rows[:-1]).all():
        raise MXNetError("row indices are not in ascending order, as row_sparse arrays need them; "
                         "check_format() tells what is wrong with an array")
    if size > VECTOR_UP_TO or not (inside and pays_off(len(ids), COMPILED_FROM)):
        places = np.searchsorted(rows, ids)
        places[places == len(rows)] = 0
        absent = np.full(len(ids), -1)
        return np.where(rows[places] == ids, places, absent) if len(rows) else absent, False
    which, counts = np.empty(len(ids), np.int64), np.empty(2, np.int64)
    _look_up(ids, *_vectors.of(size), rows, which, counts)
    return which, bool(counts[0] == len(rows) and counts[1] == len(ids))
