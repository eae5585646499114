"""Gather and scatter of rows by index, their gradients, and one-hot encoding.

Lookups gather: each element of the result finds its row.  Scattered rows, added or assigned, are
sorted by index first (`merge_sort`): equal indices then form a run, which is reduced in order, so
results do not depend on scheduling.  Long runs are cut into chunks, whose partial sums are added
afterwards (a segmented reduction).

Where an index out of range is an error, the host reads the indices in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...dispatch import implements
from ...op import Call, Op, Spec
from ...rules import to_type
from ...tensor import indexing
from ..elementwise.formula_op import COPY, run_program
from ..lib.fill import fill, fill_zero, first_gradient
from ..lib.kernel_math import (
    SIMULATED,
    kernel,
    maximum,
    minimum,
    real_of,
    sum_type,
    thread,
    threads,
    value_type,
)
from ..lib.merge_sort import Sorted, sort_rows, sort_scratch
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["INT32", "RowIndices", "copied_rows", "gather_rows", "lookup_rows", "put_rows",
           "put_scratch", "whole_function"]

CHUNK = 4 if SIMULATED else 32
"""Sorted neighbours that one thread accumulates."""

INT32 = np.dtype(np.int32)


# -- rows ---------------------------------------------------------------------------------------


@cache
def whole_function(dtype: np.dtype) -> Callable:
    """A device function that converts an index to int64: truncated, 0 for NaN, very large for
    infinities."""
    real, limit = real_of(dtype), real_of(dtype)(2.0 ** 62)

    @device_function
    def whole_real(value):
        x = real(value)
        return np.int64(0) if x != x else np.int64(minimum(maximum(x, -limit), limit))

    @device_function
    def whole_integer(value):
        return np.int64(value)

    return whole_real if dtype.kind == "f" else whole_integer


@cache
def _clipped_function(dtype: np.dtype, wrap: bool) -> Callable:
    """clipped(value, size): the index, clamped or wrapped to [0, size)."""
    whole = whole_function(dtype)

    @device_function
    def clipped(value, size):
        return np.int32(minimum(maximum(whole(value), np.int64(0)), np.int64(size - 1)))

    @device_function
    def wrapped(value, size):
        return np.int32(whole(value) % np.int64(size))

    return wrapped if wrap else clipped


class RowIndices(NamedTuple):
    """`number` row indices into a table, computed from `indices`.

    The device function `find(index, row, k, size, span)` returns row index k; `row` is always 0.
    """

    find: Callable
    indices: Array
    size: int
    span: int
    number: int


@cache
def _lookup_function(dtype: np.dtype, wrap: bool) -> Callable:
    """`span` indices into each of several consecutive tables of `size` rows."""
    clipped = _clipped_function(dtype, wrap)

    @device_function
    def lookup(index, row, k, size, span):
        return k // span * size + clipped(index[k % span], size)
    return lookup


@cache
def _pick_function(dtype: np.dtype, wrap: bool) -> Callable:
    """Index k selects along the axis of `size` in (K / span, size, span)."""
    clipped = _clipped_function(dtype, wrap)

    @device_function
    def pick(index, row, k, size, span):
        return (k // span * size + clipped(index[k], size)) * span + k % span
    return pick


@cache
def _position_function(dtype: np.dtype, sizes: tuple[int, ...], whole: bool) -> Callable:
    """Each of `span` columns of indices is a position in a tensor of shape `sizes`; negative
    indices count from the end of their axis, `whole` ones without their fractions."""
    clipped, depth = _clipped_function(dtype, False), len(sizes)
    wide = np.float64 if dtype.kind == "f" and not whole else np.int64

    @device_function
    def position(index, row, k, size, span):
        offset = np.int32(0)
        for d in range(depth):
            value = wide(index[d * span + k])
            if value < wide(0):
                value += wide(sizes[d])
            offset = offset * np.int32(sizes[d]) + clipped(value, sizes[d])
        return offset
    return position


def _positions(index: Array, shape: tuple[int, ...], whole: bool = False) -> RowIndices:
    sizes = shape[:len(index)]
    span = index.size // max(len(index), 1)
    return RowIndices(_position_function(index.dtype, sizes, whole), index, prod(sizes), span, span)


def lookup_rows(index: Array, size: int, tables: int = 1, wrap: bool = False) -> RowIndices:
    """Lookups in each of `tables` consecutive tables of `size` rows."""
    return RowIndices(_lookup_function(index.dtype, wrap), index, size, index.size,
                      tables * index.size)


# -- gathering ----------------------------------------------------------------------------------


@cache
def _gather_kernel(find: Callable) -> CudaKernel:
    @grid_stride
    def gather(i, x, index, y, width, size, span):
        y[i] = x[find(index, 0, i // width, size, span) * width + i % width]
    return gather


def gather_rows(x: Array, rows: RowIndices, y: Array, width: int) -> list[Launch]:
    """y[k] = x[r], where r is row index k."""
    return each(_gather_kernel(rows.find), rows.number * width, x, rows.indices, y, width,
                rows.size, rows.span)


# -- scatter-add --------------------------------------------------------------------------------


@cache
def _chunk_kernel(total: type[np.number]) -> CudaKernel:
    """Sum the rows of each run in a chunk, in type `total`.

    The sum of a run that began in an earlier chunk goes to heads[chunk], of one that begins here
    and continues to tails[chunk]; all other runs are complete.
    """

    @grid_stride
    def add_chunks(i, g, keys, where, gx, heads, tails, terms, width):
        chunk, j = i // width, i % width
        first, stop = chunk * CHUNK, minimum(chunk * CHUNK + CHUNK, terms)
        begun = first > 0 and keys[first - 1] == keys[first]
        run_sum = total(0)
        for place in range(first, stop):
            key = keys[place]
            run_sum += total(g[where[place] * width + j])
            last = place + 1 == terms
            if last or keys[place + 1] != key:
                if begun:
                    heads[i] = run_sum
                else:
                    gx[key * width + j] = run_sum
                begun, run_sum = False, total(0)
        if stop < terms and keys[stop - 1] == keys[stop]:
            if begun:
                heads[i] = run_sum
            else:
                tails[i] = run_sum
    return add_chunks


@cache
def _join_kernel(total: type[np.number]) -> CudaKernel:
    """Add the partial sums of a run that spans chunks, from the chunk where it begins."""

    @grid_stride
    def join_chunks(i, keys, gx, heads, tails, terms, width):
        chunk = i // width
        last = chunk * CHUNK + CHUNK - 1
        if last + 1 < terms and keys[last] == keys[last + 1]:
            key = keys[last]
            if chunk == 0 or keys[chunk * CHUNK - 1] != key:
                run_sum, at = tails[i], i
                while last + 1 < terms and keys[last + 1] == key:
                    at += width
                    run_sum += heads[at]
                    last += CHUNK
                    if last >= terms or keys[last] != key:
                        last = terms
                gx[key * width + i % width] = run_sum
    return join_chunks


def _add_scratch(dtype: np.dtype, count: int, width: int) -> list[Spec]:
    """The scratch of `_add_rows`."""
    chunks = (-(-count // CHUNK) * width,)
    return [*sort_scratch(1, count, INT32), *[Spec(chunks, np.dtype(sum_type(dtype)))] * 2]


def _sort(rows: RowIndices, scratch: Sequence[Array]) -> tuple[list[Launch], Sorted]:
    return sort_rows(rows.find, rows.indices, (1, rows.number), (rows.size, rows.span), scratch)


def _add_rows(g: Array, rows: RowIndices, gx: Array, width: int, scratch: Sequence[Array]
              ) -> list[Launch]:
    """gx[r] = sum of the g[k] whose row is r."""
    launches, (keys, where) = _sort(rows, scratch)
    kind, (heads, tails) = sum_type(g.dtype), scratch[-2:]
    return [*fill(gx, 0), *launches,
            *each(_chunk_kernel(kind), heads.size, g, keys, where, gx, heads, tails, rows.number,
                  width),
            *each(_join_kernel(kind), heads.size, keys, gx, heads, tails, rows.number, width)]


@cache
def _put_kernel(find: Callable) -> CudaKernel:
    @grid_stride
    def put_each(i, x, index, y, width, size, span):
        y[find(index, 0, i // width, size, span) * width + i % width] = x[i]
    return put_each


def copied_rows(x: Array, rows: RowIndices, y: Array, width: int) -> list[Launch]:
    """y[r] = x[k], for distinct rows."""
    return each(_put_kernel(rows.find), rows.number * width, x, rows.indices, y, width, rows.size,
                rows.span)


@grid_stride
def _put_last(i, x, keys, where, y, terms, width):
    place = i // width
    if place + 1 == terms or keys[place] != keys[place + 1]:
        y[keys[place] * width + i % width] = x[where[place] * width + i % width]


def put_scratch(count: int) -> list[Spec]:
    """The scratch of `put_rows` for `count` rows."""
    return sort_scratch(1, count, INT32)


def put_rows(x: Array, rows: RowIndices, y: Array, width: int, scratch: Sequence[Array]
             ) -> list[Launch]:
    """y[r] = x[k], for the last k whose row is r."""
    launches, (keys, where) = _sort(rows, scratch)
    return launches + each(_put_last, x.size, x, keys, where, y, rows.number, width)


# -- ops that gather ----------------------------------------------------------------------------


def _rows_of(op: indexing.Gather, shape: tuple[int, ...], index: Array) -> RowIndices:
    """The rows that an op gathers from a table of this shape."""
    wrap = getattr(op, "mode", "") == "wrap"
    if isinstance(op, indexing.GatherND):
        return _positions(index, shape)
    if isinstance(op, (indexing.Pick, indexing.BatchTake)):
        axis = getattr(op, "axis", -1) % len(shape)
        return RowIndices(_pick_function(index.dtype, wrap), index, shape[axis],
                          prod(shape[axis + 1:]), index.size)
    axis = getattr(op, "axis", 0) % len(shape)
    return lookup_rows(index, shape[axis], prod(shape[:axis]), wrap)


def _checked(op: indexing.Gather, shape: tuple[int, ...], index: Array) -> list[Any]:
    """The check on the host for ops that reject indices out of range."""
    if not (isinstance(op, indexing.GatherND) or getattr(op, "mode", "") == "raise"):
        return []

    def check() -> None:
        op.rows(shape, index.device.to_numpy(index))

    return [check]


def _gather(op: indexing.Gather, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    x, index = ins[op.table], ins[1 - op.table]
    return [*_checked(op, x.shape, index),
            *gather_rows(x, _rows_of(op, x.shape, index), outs[0],
                          op.width(x.shape, index.shape))]


def _gather_backward(op: indexing.Gather, ins: Arrays, outs: Outputs, call: Call) -> list[Any]:
    (g, index), gx = ins, outs[op.table]
    launches = fill_zero([outs[1 - op.table]])
    if gx is None:
        return launches
    width, rows = op.width(gx.shape, index.shape), _rows_of(op, gx.shape, index)
    if op.distinct:
        return launches + fill(gx, 0) + copied_rows(g, rows, gx, width)
    return launches + _add_rows(g, rows, gx, width, call.scratch)


def _gather_scratch(op: indexing.Gather, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    (g, index), gx = ins, outs[op.table]
    if op.distinct:
        return []
    width = op.width(gx.shape, index.shape)
    return _add_scratch(g.dtype, g.size // width, width)


implements((indexing.Take, indexing.Embedding, indexing.BatchTake, indexing.Pick,
            indexing.GatherND), "cuda", _gather, _gather_backward, backward_scratch=_gather_scratch)


# -- ops that scatter ---------------------------------------------------------------------------


def _put(x: Array, index: Array, y: Array, scratch: Sequence[Array]) -> list[Any]:
    return [*_checked(indexing.GatherND(), y.shape, index),
            *put_rows(x, _positions(index, y.shape, True), y, prod(y.shape[len(index):]), scratch)]


def _put_backward(op: Op, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    (g, index), width = ins, prod(ins[0].shape[len(ins[1]):])
    return [*_checked(indexing.GatherND(), g.shape, index),
            *gather_rows(g, _positions(index, g.shape, True), outs[0], width)]


def _put_nd_scratch(op: Op, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return put_scratch(prod(ins[-1].shape[1:]))


def _scatter_set(op: indexing.ScatterSetND, ins: Arrays, outs: Arrays, call: Call) -> list[Any]:
    return run_program(COPY, [ins[0]], outs) + _put(ins[1], ins[2], outs[0], call.scratch)


implements(indexing.ScatterND, "cuda",
           lambda op, ins, outs, call: (
               fill(outs[0], 0) + _put(ins[0], ins[1], outs[0], call.scratch)),
           first_gradient(_put_backward), _put_nd_scratch)
implements(indexing.ScatterSetND, "cuda", _scatter_set, scratch=_put_nd_scratch)


# -- one-hot encoding and index arithmetic ------------------------------------------------------


@cache
def _mark_kernel(dtype: np.dtype, many: bool) -> CudaKernel:
    """y[i, index[i]] = on, or on[i]; other elements are off, or unchanged."""
    whole, real = whole_function(dtype), real_of(dtype)

    @device_function
    def is_at(index, column):   # NaN is nowhere
        return real(index) == real(index) and whole(index) == np.int64(column)

    @grid_stride
    def mark_one(i, index, y, on, off, depth):
        y[i] = on if is_at(index[i // depth], i % depth) else off

    @grid_stride
    def mark_many(i, index, y, on, x, depth):
        y[i] = on[i // depth] if is_at(index[i // depth], i % depth) else x[i]

    return mark_many if many else mark_one


def _one_hot(op: indexing.OneHot, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    y = outs[0]
    on, off = (to_type(value, y.dtype) for value in (op.on_value, op.off_value))
    return each(_mark_kernel(ins[0].dtype, False), y.size, ins[0], y, on, off, op.depth)


def _one_hot_encode(op: indexing.OneHotEncode, ins: Arrays, outs: Arrays, call: Call
                    ) -> list[Launch]:
    y = outs[0]
    on, off = y.dtype.type(1), y.dtype.type(0)
    return each(_mark_kernel(ins[0].dtype, False), y.size, ins[0], y, on, off, y.shape[-1])


def _fill_element(op: indexing.FillElement, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    y = outs[0]
    return each(_mark_kernel(ins[2].dtype, True), y.size, ins[2], y, ins[1], ins[0], y.shape[-1])


@cache
def _ravel_kernel(dtype: np.dtype, kind: type[np.generic], sizes: tuple[int, ...]) -> CudaKernel:
    whole, depth = whole_function(dtype), len(sizes)

    @kernel
    def ravel(x, y, count):
        for i in range(thread(), count, threads()):
            flat = np.int64(0)
            for d in range(depth):
                flat = flat * np.int64(sizes[d]) + whole(x[d * count + i])
            y[i] = kind(flat)
    return ravel


def _ravel(op: indexing.RavelMultiIndex, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    y = outs[0]
    return each(_ravel_kernel(ins[0].dtype, value_type(y.dtype), op.shape), y.size, ins[0], y)


@cache
def _unravel_kernel(dtype: np.dtype, kind: type[np.generic], sizes: tuple[int, ...]) -> CudaKernel:
    whole, depth = whole_function(dtype), len(sizes)

    @kernel
    def unravel(x, y, count):
        for i in range(thread(), count, threads()):
            rest = whole(x[i])
            for back in range(1, depth):
                size = np.int64(sizes[depth - back])
                quotient = rest // size if rest >= np.int64(0) else -(-rest // size)
                y[(depth - back) * count + i] = kind(rest - quotient * size)
                rest = quotient
            y[i] = kind(rest)
    return unravel


def _unravel(op: indexing.UnravelIndex, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    kernel_ = _unravel_kernel(ins[0].dtype, value_type(outs[0].dtype), op.shape)
    return each(kernel_, ins[0].size, ins[0], outs[0])


implements(indexing.OneHot, "cuda", _one_hot)
implements(indexing.OneHotEncode, "cuda", _one_hot_encode)
implements(indexing.FillElement, "cuda", _fill_element)
implements(indexing.RavelMultiIndex, "cuda", _ravel)
implements(indexing.UnravelIndex, "cuda", _unravel)
