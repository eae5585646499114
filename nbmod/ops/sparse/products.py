"""Products of CSR matrices, and sums of the rows of a matrix that belong to the same index.

Sums are in the order of the stored elements, whatever the number of threads: a thread computes
whole rows of a result.  The rows of a row_sparse result are grouped by a counting sort, for which
indices are replaced by their positions among the distinct ones.  A table of all possible indices
gives positions without a search, and is kept for the next call; only for very many rows, for which
it would take too much memory, indices are sorted.
"""

from __future__ import annotations

import threading

import numpy as np

from ...base import DType
from ..jit import kernel, prange
from .formats import CSR, RowSparse, require_inside

__all__ = ["multiply", "multiply_rows", "multiply_transposed", "sum_equal"]

TABLE_UP_TO = 2 ** 25
"""Rows up to which positions are looked up in a table, which takes 5 bytes for each."""


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
def _number(ids, marks, words, positions, rows, which, count):
    """rows[:count[0]] are the distinct ids, ascending; rows[which[e]] is ids[e].

    `words` are `marks`, eight at a time; `rows` has an element more than there are ids.
    """
    for e in range(len(ids)):
        marks[ids[e]] = 1
    n = 0
    for w in range(len(words)):
        if words[w] != 0:
            for r in range(8 * w, 8 * w + 8):   # without branches: what is not marked is replaced
                rows[n] = r
                positions[r] = n
                n += marks[r]
            words[w] = 0
    for e in range(len(ids)):
        which[e] = positions[ids[e]]
    count[0] = n


@kernel
def _look_up(ids, marks, positions, rows, which):
    """rows[which[e]] is ids[e]; which[e] is -1 where it is not among them."""
    for p in range(len(rows)):
        marks[rows[p]] = 1
        positions[rows[p]] = p
    for e in range(len(ids)):
        which[e] = positions[ids[e]] if marks[ids[e]] else -1
    for p in range(len(rows)):
        marks[rows[p]] = 0


def _distinct(ids: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of `ids`, which are below `size`, in ascending order; and for each of `ids`
    its position among them."""
    if size > TABLE_UP_TO:
        rows, which = np.unique(ids, return_inverse=True)
        return rows, which.reshape(-1)
    marks, positions = _tables.of(size)
    rows, which = np.empty(len(ids) + 1, np.int64), np.empty(len(ids), np.int64)
    count = np.empty(1, np.int64)
    _number(ids, marks, marks.view(np.uint64)[:-(-size // 8)], positions, rows, which, count)
    return rows[:count[0]], which


def _positions(ids: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """The position of each of `ids` among `rows`, which ascend; -1 for those that are absent."""
    if size > TABLE_UP_TO:
        found = np.searchsorted(rows, ids)
        found[found == len(rows)] = 0
        return np.where(rows[found] == ids, found, -1) if len(rows) else np.full(len(ids), -1)
    which = np.empty(len(ids), np.int64)
    _look_up(ids, *_tables.of(size), rows, which)
    return which


@kernel(parallel=True, fastmath=True)
def _weighted_sums(starts, which, data, dense, out):
    """out[i] = the sum of data[e] dense[which[e]] for e from starts[i] to starts[i + 1]."""
    for i in prange(len(out)):
        for k in range(out.shape[1]):
            out[i, k] = 0
        for e in range(starts[i], starts[i + 1]):
            r = which[e]
            if r >= 0:
                for k in range(out.shape[1]):
                    out[i, k] += data[e] * dense[r, k]


@kernel
def _group(which, owner, data, starts, owners, sorted_data):
    """Counting sort of `owner` and `data` by `which`: those of position p come to lie from
    starts[p] to starts[p + 1], in their order; there are two starts more than positions."""
    starts[:] = 0
    for e in range(len(which)):
        starts[which[e] + 2] += 1
    for p in range(2, len(starts)):
        starts[p] += starts[p - 1]
    for e in range(len(which)):     # starts[p + 1] goes from the begin of group p to its end
        p = which[e] + 1
        owners[starts[p]] = owner[e]
        sorted_data[starts[p]] = data[e]
        starts[p] += 1


def _wide(dtype: DType) -> DType:
    """The type to form sums of another in."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _sums(starts: np.ndarray, which: np.ndarray, data: np.ndarray, dense: np.ndarray, rows: int
          ) -> np.ndarray:
    """`_weighted_sums` in a new array; those of float16 are formed in float32."""
    kind = np.result_type(data, dense)
    wide = _wide(kind)
    out = np.empty((rows, dense.shape[1]), wide)
    _weighted_sums(starts, which.astype(np.int64, copy=False), data.astype(wide, copy=False),
                   np.ascontiguousarray(dense, wide), out)
    return out.astype(kind, copy=False)


def multiply(lhs: CSR, rhs: np.ndarray) -> np.ndarray:
    """csr . dense, (B, D) . (D, K)."""
    require_inside(lhs)
    return _sums(lhs.indptr, lhs.indices, lhs.data, rhs, len(lhs))


def multiply_rows(lhs: CSR, rhs: RowSparse) -> np.ndarray:
    """csr . row_sparse: a product with those rows that are stored."""
    require_inside(lhs)
    require_inside(rhs)
    which = _positions(lhs.indices, rhs.indices, len(rhs))
    return _sums(lhs.indptr, which, lhs.data, rhs.data, len(lhs))


def multiply_transposed(lhs: CSR, rhs: np.ndarray) -> RowSparse:
    """csr^T . dense, (B, D)^T . (B, K): a row for every column of lhs that stores elements."""
    require_inside(lhs)
    return _sum_groups(lhs.indices, lhs.shape[1], lhs.row_of_each, lhs.data, rhs)


def sum_equal(ids: np.ndarray, values: np.ndarray, size: int) -> RowSparse:
    """The gradient of a lookup: row r is the sum of values[e] over the e with ids[e] == r.

    Parameters
    ----------
    ids
        (N,), from 0 to `size` - 1.
    values
        (N, K).
    size
        Rows of the result.
    """
    return _sum_groups(ids, size, np.arange(len(ids)), np.ones(len(ids), values.dtype), values)


def _sum_groups(ids: np.ndarray, size: int, owner: np.ndarray, data: np.ndarray, dense: np.ndarray
                ) -> RowSparse:
    """Row r = the sum of data[e] dense[owner[e]] over the e with ids[e] == r."""
    rows, which = _distinct(ids, size)
    starts, owners = np.empty(len(rows) + 2, np.int64), np.empty(len(ids), np.int64)
    ordered = np.empty(len(ids), _wide(data.dtype))
    _group(which, owner, data.astype(ordered.dtype, copy=False), starts, owners, ordered)
    sums = _sums(starts, owners, ordered, dense, len(rows)).astype(dense.dtype, copy=False)
    return RowSparse(rows, sums, (size, dense.shape[1]))
