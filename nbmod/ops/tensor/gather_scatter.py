"""Rows of tables: gathered at indices, and the scatter-add that is its gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Run

__all__ = ["add_rows", "prepare_gather", "row_adder"]

COMPILED_FROM = 1 << 11
"""Elements from which kernels are compiled: for that many, the sort of a scatter-add takes 60 us,
and the conversion and clipping of indices 10 us."""

PARALLEL_FROM = 1 << 15
"""Elements that are gathered in 3 us, the time to enter a parallel loop."""

RANGES = 4
"""Ranges of rows: each scans all indices, so not more than pays off on few cores."""


@inlined
def _gather_row(index, table, out, i):
    """out[i] = the row of `table` at index[i]: truncated, then clipped; NaN is 0."""
    row, last = 0, len(table) - 1
    if index[i] >= last:
        row = last
    elif index[i] > 0:
        row = int(index[i])
    for j in range(out.shape[1]):
        out[i, j] = table[row, j]


@kernel
def _gather_few(index, table, out):
    for i in range(len(index)):
        _gather_row(index, table, out, i)


@kernel(parallel=True)
def _gather_many(index, table, out):
    for i in prange(len(index)):
        _gather_row(index, table, out, i)


def prepare_gather(index: np.ndarray, table: np.ndarray, out: np.ndarray) -> Run | None:
    """A kernel that gathers rows of `table` (rows, width) at clipped indices; None where NumPy is
    as fast, or no kernel supports the types."""
    if out.size < COMPILED_FROM or not len(table) or np.float16 in (index.dtype, table.dtype):
        return None
    gather = _gather_few if out.size < PARALLEL_FROM else _gather_many
    return partial(gather, index.reshape(-1), table, out.reshape(-1, table.shape[1]))


def add_rows(index: np.ndarray, g: np.ndarray, gx: np.ndarray) -> None:
    """gx[r] = sum of the g[k] with index[k] == r, 2-D: a segmented sum of sorted rows."""
    gx.fill(0)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    wide = np.float32 if g.dtype == np.float16 else g.dtype
    gx[ordered[starts]] = np.add.reduceat(g[order], starts, axis=0, dtype=wide)


@kernel(parallel=True)
def _add_rows_by_ranges(ranges, index, g, gx):
    """`add_rows` without a sort: every thread owns a range of the rows of `gx`."""
    each = (gx.shape[0] + ranges - 1) // ranges
    for part in prange(ranges):
        first = part * each
        last = min(first + each, gx.shape[0])
        for r in range(first, last):
            for j in range(gx.shape[1]):
                gx[r, j] = 0
        for k in range(index.size):
            r = index[k]
            if first <= r < last:
                for j in range(gx.shape[1]):
                    gx[r, j] += g[k, j]


def row_adder(g: np.ndarray) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """`add_rows` for rows like `g`, or a kernel where that is faster."""
    if g.size < COMPILED_FROM or g.dtype == np.float16:
        return add_rows
    return partial(_add_rows_by_ranges, RANGES)
