"""Indices in range; rows gathered at indices, and the scatter-add that is their gradient; elements
picked along an axis, and put in their places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ...base import OutOfRange
from ..jit import inlined, kernel, prange
from ..op import Run

__all__ = ["add_rows", "in_range", "prepare_gather", "prepare_pick", "put_rows", "row_adder",
           "to_integers"]

COMPILED_FROM = 1 << 11
"""Elements from which kernels are compiled: for that many, the sort of a scatter-add takes 60 us,
and the conversion and clipping of indices 10 us."""

PARALLEL_FROM = 1 << 15
"""Elements that are gathered in 3 us, the time to enter a parallel loop."""

PICKED_FROM = 64
"""Elements, as for softmax, of which some are picked by kernels, one for all shapes: to find their
places takes NumPy 5 us."""

RANGES = 4
"""Ranges of rows: each scans all indices, so not more than pays off on few cores."""


def to_integers(index: np.ndarray) -> np.ndarray:
    """Indices as int64: fractions truncated, NaN is 0, infinities very large."""
    if index.dtype.kind != "f":
        return index.astype(np.int64)
    limit = 2.0 ** 62
    if index.size and np.abs(index).max() < limit:  # which NaN is not
        return index.astype(np.int64)
    return np.clip(np.nan_to_num(index.astype(np.float64)), -limit, limit).astype(np.int64)


def in_range(index: np.ndarray, size: int, mode: str = "clip") -> np.ndarray:
    """Indices as int64 in [0, size): clipped, wrapped around, or an error (mode 'raise')."""
    # Python numbers, as 65504 is the largest of float16; NaN is not in between.
    if (index.size and np.minimum.reduce(index, axis=None).item() >= 0
            and np.maximum.reduce(index, axis=None).item() <= size - 1):
        return index.astype(np.int64)
    whole = to_integers(index)
    if mode == "wrap":
        return np.remainder(whole, size, out=whole)
    if mode == "raise":
        _refuse_outside(whole, size)
        return whole
    np.maximum(whole, 0, out=whole)     # np.clip takes three times as long for a few
    return np.minimum(whole, size - 1, out=whole)


def _refuse_outside(index: np.ndarray, size: int) -> None:
    wrong = (index < 0) | (index >= size)
    if wrong.any():
        raise OutOfRange(f"indices contain {index[wrong][0]}, expected values in [0, {size})")


@inlined
def _clipped(index, last):
    """An index truncated, then clipped; NaN is 0."""
    if index >= last:
        return last
    return int(index) if index > 0 else 0


@inlined
def _gather_row(index, table, out, i):
    """out[i] = the row of `table` at index[i]."""
    row = _clipped(index[i], len(table) - 1)
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


@kernel
def _pick(x, index, out):
    """out[i, j] = x[i, index[i, j], j]."""
    for i in range(index.shape[0]):
        for j in range(index.shape[1]):
            out[i, j] = x[i, _clipped(index[i, j], x.shape[1] - 1), j]


@kernel
def _put(x, index, out):
    """x[i, index[i, j], j] = out[i, j], and 0 elsewhere."""
    for i in range(index.shape[0]):
        for k in range(x.shape[1]):
            for j in range(index.shape[1]):
                x[i, k, j] = 0
        for j in range(index.shape[1]):
            x[i, _clipped(index[i, j], x.shape[1] - 1), j] = out[i, j]


def prepare_pick(x: np.ndarray, index: np.ndarray, out: np.ndarray, axis: int, puts: bool = False
                 ) -> Run | None:
    """A kernel that picks elements of `x` at clipped indices along an axis, or puts those of `out`
    in their places; None where NumPy is as fast, or no kernel supports the types."""
    if x.size < PICKED_FROM or np.float16 in (x.dtype, index.dtype):
        return None
    before, size, after = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1:])
    return partial(_put if puts else _pick, x.reshape(before, size, after),
                   *[array.reshape(before, after) for array in (index, out)])


def add_rows(index: np.ndarray, g: np.ndarray, gx: np.ndarray) -> None:
    """gx[r] = sum of the g[k] with index[k] == r, 2-D: a segmented sum of sorted rows."""
    gx.fill(0)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    wide = np.float32 if g.dtype == np.float16 else g.dtype
    gx[ordered[starts]] = np.add.reduceat(g[order], starts, axis=0, dtype=wide)


def put_rows(index: np.ndarray, g: np.ndarray, gx: np.ndarray) -> None:
    """`add_rows` of indices that differ."""
    gx.fill(0)
    gx[index] = g


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
