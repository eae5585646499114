"""Products of CSR matrices, and sums of the rows of a matrix that belong to the same index.

Sums are in the order of the stored elements, whatever the number of threads: a thread computes
whole rows of a result.  The rows of a row_sparse result are grouped by a counting sort, for which
indices are replaced by their positions among the distinct ones.  A table of all possible indices
gives positions without a search, and is kept for the next call; only for very many rows, which it
would take too much memory for, indices are sorted.
"""

from __future__ import annotations

import threading

import numpy as np

from ..jit import kernel, prange
from .formats import CSR, RowSparse, require_inside

__all__ = ["multiply", "multiply_rows", "multiply_transposed", "sum_equal"]

TABLE_UP_TO = 2 ** 25
"""Rows up to which positions are looked up in a table, which takes 4 bytes for each."""


class _Tables(threading.local):
    """A table for each thread, of -1 between calls; absent while in use, or after an error."""

    kept: np.ndarray | None = None


_tables = _Tables()


class _PositionTable:
    """A context: a table of at least `size` positions, all -1; those of `rows` are set to -1 again
    when it ends."""

    def __init__(self, size: int):
        self.size, self.rows = size, np.empty(0, np.int64)

    def __enter__(self) -> _PositionTable:
        kept, _tables.kept = _tables.kept, None
        if kept is None or kept.size < self.size:
            kept = np.full(self.size, -1, np.int32)
        self.table = kept
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self.table[self.rows] = -1
            _tables.kept = self.table

    def enter(self, rows: np.ndarray) -> None:
        """Number these rows, which are distinct."""
        self.rows = rows
        self.table[rows] = np.arange(len(rows), dtype=np.int32)


def _distinct(ids: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of `ids`, which are below `size`, in ascending order; and for each of `ids`
    its position among them."""
    if size > TABLE_UP_TO:
        rows, which = np.unique(ids, return_inverse=True)
        return rows, which.reshape(-1)
    with _PositionTable(size) as positions:
        # Each id keeps the last of the elements that have it: one for each distinct id.
        numbers = np.arange(len(ids), dtype=np.int32)
        positions.table[ids] = numbers
        rows = np.sort(ids[positions.table[ids] == numbers])
        positions.enter(rows)
        return rows, positions.table[ids]


def _positions(ids: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """The position of each of `ids` among `rows`, which ascend; -1 for those that are absent."""
    if size > TABLE_UP_TO:
        found = np.searchsorted(rows, ids)
        found[found == len(rows)] = 0
        return np.where(rows[found] == ids, found, -1) if len(rows) else np.full(len(ids), -1)
    with _PositionTable(size) as positions:
        positions.enter(rows)
        return positions.table[ids]


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
def _group(which, starts, order):
    """Counting sort: `order` from starts[p] to starts[p + 1] are the e with which[e] == p,
    ascending; there are two starts more than values of p."""
    starts[:] = 0
    for e in range(len(which)):
        starts[which[e] + 2] += 1
    for p in range(2, len(starts)):
        starts[p] += starts[p - 1]
    for e in range(len(which)):     # starts[p + 1] goes from the begin of group p to its end
        p = which[e] + 1
        order[starts[p]] = e
        starts[p] += 1


def _sums(starts: np.ndarray, which: np.ndarray, data: np.ndarray, dense: np.ndarray, rows: int
          ) -> np.ndarray:
    """`_weighted_sums` in a new array; those of float16 are formed in float32."""
    kind = np.result_type(data, dense)
    wide = np.dtype(np.float32) if kind == np.float16 else kind
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
    starts, order = np.empty(len(rows) + 2, np.int64), np.empty(len(ids), np.int64)
    _group(which, starts, order)
    sums = _sums(starts, owner[order], data[order], dense, len(rows))
    return RowSparse(rows, sums, (size, dense.shape[1]))
