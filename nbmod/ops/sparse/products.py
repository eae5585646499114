"""Products of CSR matrices, and sums of the rows of a matrix that belong to the same index.

Sums are in the order of the stored elements, whatever the number of threads: a thread computes
whole rows of a result.  Elements that belong to the same row of a row_sparse result are neither
sorted nor grouped: their indices are replaced by positions among the distinct ones (`row_numbers`),
and each thread adds those of its rows.
"""

from __future__ import annotations

import numpy as np

from ...base import DType
from ..device import CPU
from ..jit import inlined, kernel, num_threads, prange
from .formats import CSR, RowSparse, require_inside
from .row_numbers import distinct

__all__ = ["multiply", "multiply_rows", "multiply_transposed", "sum_equal"]

PARALLEL_FROM = 1 << 18
"""Products from which on all cores are used.  Sparse operators run one by one, from Python, so
threads sleep between them; waking these takes 0.2 to 0.3 ms, in which one core does so many."""


@inlined(fastmath=True)
def _weighted_sum(starts, which, data, dense, out, i):
    """out[i] = the sum of data[e] dense[which[e]] for e from starts[i] to starts[i + 1]."""
    for k in range(out.shape[1]):
        out[i, k] = 0
    for e in range(starts[i], starts[i + 1]):
        if which[e] >= 0:
            r = np.uint64(which[e])     # unsigned: not an index from the end
            for k in range(out.shape[1]):
                out[i, k] += data[e] * dense[r, k]


def _weighted_sums_by_numpy(starts, which, data, dense, out):
    held = which >= 0
    rows = np.repeat(np.arange(len(out)), np.diff(starts))[held]
    out[...] = 0
    np.add.at(out, rows, data[held, None] * dense[which[held]])


@kernel(parallel=True, plain=_weighted_sums_by_numpy)
def _weighted_sums(starts, which, data, dense, out):
    for i in prange(len(out)):
        _weighted_sum(starts, which, data, dense, out, i)


@kernel(plain=_weighted_sums_by_numpy)
def _few_weighted_sums(starts, which, data, dense, out):
    """`_weighted_sums` on the calling thread."""
    for i in range(len(out)):
        _weighted_sum(starts, which, data, dense, out, i)


@inlined(fastmath=True)
def _add_rows(starts, which, data, dense, out, first, last):
    """out[first:last] = 0; then out[which[e]] += data[e] dense[i] for e from starts[i] to
    starts[i + 1], for all i in order: where that is one of these rows."""
    for r in range(first, last):
        for k in range(out.shape[1]):
            out[r, k] = 0
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            if first <= which[e] < last:
                at = np.uint64(which[e])    # unsigned: not an index from the end
                for k in range(out.shape[1]):
                    out[at, k] += data[e] * dense[i, k]


def _scatter_by_numpy(starts, which, data, dense, out):
    inside = (which >= 0) & (which < len(out))
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[inside]
    out[...] = 0
    np.add.at(out, which[inside], data[inside, None] * dense[rows])


@kernel(parallel=True, plain=lambda parts, *arrays: _scatter_by_numpy(*arrays))
def _scatter(parts, starts, which, data, dense, out):
    """Each thread owns a range of rows of `out`, and looks at all elements."""
    each = (len(out) + parts - 1) // parts
    for part in prange(parts):
        first = min(part * each, len(out))
        _add_rows(starts, which, data, dense, out, first, min(first + each, len(out)))


@kernel(plain=_scatter_by_numpy)
def _scatter_few(starts, which, data, dense, out):
    """`_scatter` on the calling thread."""
    _add_rows(starts, which, data, dense, out, 0, len(out))


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
    return _sums(lhs.indptr, lhs.positions(rhs.indices), lhs.data, rhs.data, len(lhs))


def multiply_transposed(lhs: CSR, rhs: np.ndarray) -> RowSparse:
    """csr^T . dense, (B, D)^T . (B, K): a row for every column of lhs that stores elements."""
    require_inside(lhs)
    rows, which = lhs.columns_read
    sums = _sum_groups(rows, which, lhs.indptr, lhs.data, rhs)
    return RowSparse(rows, sums, (lhs.shape[1], rhs.shape[1]))


def sum_equal(ids: np.ndarray, values: np.ndarray, size: int) -> RowSparse:
    """The gradient of a lookup: row r < `size` is the sum of values[e] over the e with ids[e] == r.
    """
    rows, which = distinct(ids, size)
    count = len(ids)
    sums = _sum_groups(rows, which, np.arange(count + 1), np.ones(count, values.dtype), values)
    return RowSparse(rows, sums, (size, values.shape[1]))


def _sum_groups(rows: np.ndarray, which: np.ndarray, starts: np.ndarray, data: np.ndarray,
                dense: np.ndarray) -> np.ndarray:
    """Row r = the sum of data[e] dense[i] over the e with which[e] == r, from starts[i] to
    starts[i + 1]."""
    wide = _wide(np.result_type(data, dense))
    sums = CPU.empty((len(rows), dense.shape[1]), wide)
    arrays = (starts, which, data.astype(wide, copy=False), np.ascontiguousarray(dense, wide), sums)
    if len(which) * sums.shape[1] >= PARALLEL_FROM:
        _scatter(num_threads(), *arrays)
    else:
        _scatter_few(*arrays)
    return sums.astype(dense.dtype, copy=False)
