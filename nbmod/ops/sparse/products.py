"""Products of CSR matrices, and sums of the rows of a matrix that belong to the same index.

Sums are in the order of the stored elements, whatever the number of threads: a thread computes
whole rows of a result.  The rows of a row_sparse result are grouped by a counting sort, for which
indices are replaced by their positions among the distinct ones (`row_numbers`).
"""

from __future__ import annotations

import numpy as np

from ...base import DType
from ..jit import inlined, kernel, prange
from .formats import CSR, RowSparse, require_inside
from .row_numbers import distinct, positions

__all__ = ["multiply", "multiply_rows", "multiply_transposed", "sum_equal"]

PARALLEL_FROM = 1 << 16
"""Products from which on all cores are used: these take 20 us, as waking the threads may."""


@inlined(fastmath=True)
def _weighted_sum(starts, which, data, dense, out, i):
    """out[i] = the sum of data[e] dense[which[e]] for e from starts[i] to starts[i + 1]."""
    for k in range(out.shape[1]):
        out[i, k] = 0
    for e in range(starts[i], starts[i + 1]):
        r = which[e]
        if r >= 0:
            for k in range(out.shape[1]):
                out[i, k] += data[e] * dense[r, k]


@kernel(parallel=True)
def _weighted_sums(starts, which, data, dense, out):
    for i in prange(len(out)):
        _weighted_sum(starts, which, data, dense, out, i)


@kernel
def _few_weighted_sums(starts, which, data, dense, out):
    """The same on the calling thread."""
    for i in range(len(out)):
        _weighted_sum(starts, which, data, dense, out, i)


@kernel
def _group(which, owner, data, starts, owners, sorted_data):
    """Counting sort of `owner` and `data` by `which`: those of position p are stored from
    starts[p] to starts[p + 1], in their order; there are two starts more than positions."""
    starts[:] = 0
    for e in range(len(which)):
        starts[which[e] + 2] += 1
    for p in range(2, len(starts)):
        starts[p] += starts[p - 1]
    for e in range(len(which)):     # starts[p + 1] goes from the beginning of group p to its end
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
    sums = _weighted_sums if len(which) * out.shape[1] >= PARALLEL_FROM else _few_weighted_sums
    sums(starts, which.astype(np.int64, copy=False), data.astype(wide, copy=False),
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
    which = positions(lhs.indices, rhs.indices, len(rhs))
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
    rows, which = distinct(ids, size)
    starts, owners = np.empty(len(rows) + 2, np.int64), np.empty(len(ids), np.int64)
    ordered = np.empty(len(ids), _wide(data.dtype))
    _group(which, owner, data.astype(ordered.dtype, copy=False), starts, owners, ordered)
    sums = _sums(starts, owners, ordered, dense, len(rows)).astype(dense.dtype, copy=False)
    return RowSparse(rows, sums, (size, dense.shape[1]))
