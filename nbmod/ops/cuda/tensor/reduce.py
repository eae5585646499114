"""Reductions along axes, and repetition, which is the gradient of a sum.

Sums and means are programs.  Other reductions are the work of a block for each result: its threads
take every so-manieth element and fold what they have by the tree that sums have.  Few results of
many elements are folded in pieces, by as many blocks as a card has work for, and what comes of the
pieces is folded again.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...elementwise.program import Program, Step
from ...elementwise.reduction_programs import MOMENTS_BACK, ROOT, SPREAD
from ...op import Spec
from ...tensor.reduce import (
    ArgMax,
    ArgMaxChannel,
    ArgMin,
    Max,
    Mean,
    Min,
    Moments,
    NanProd,
    NanSum,
    Norm,
    Prod,
    Reduction,
    Sum,
    keep,
    reduced_axes,
)
from ...tensor.repetition import Broadcast
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import LANES, each_block, pieces_of, tree_function
from ..lib.fill import fill_zero
from ..lib.kernel_math import minimum, real_of
from ..lib.strided_copy import offset_function
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, cuda, device_function, kernel, on_gpu

# -- sums, means, repetition --------------------------------------------------------------------

DIVIDED = Program("divided", (Step("y", "x / share"),), ("x",), ("y",), ("share",))
NUMBERS = Program("numbers", (Step("y", "where(x == x, x, 0)"),), ("x",), ("y",))


def _sum(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x = ins[0]
    program = NUMBERS if isinstance(op, NanSum) else COPY
    return run_program(program, [x], [keep(x.shape, op.axes(x.ndim), outs[0])])


def _spread(op: Reduction, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(*op.spread(ins, outs))


def _mean(op: Mean, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, y = ins[0], keep(ins[0].shape, op.axes(ins[0].ndim), outs[0])
    share = [x.size // y.size]
    if x.dtype.kind == "f":
        return run_program(DIVIDED, [x], [y], share)
    return run_program(COPY, [x], [y]) + run_program(DIVIDED, [y], [y], share)


def _broadcast(op: Broadcast, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(COPY, ins[:1], outs)


def _broadcast_backward(op: Broadcast, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(COPY, ins[:1], outs[:1]) + fill_zero(outs[1:])


on_gpu(Reduction, None, _spread)
on_gpu(Sum, _sum)
on_gpu(NanSum, _sum)
on_gpu(Mean, _mean)
on_gpu(Broadcast, _broadcast, _broadcast_backward)

# -- other folds --------------------------------------------------------------------------------

def _kind(dtype: np.dtype) -> Any:
    """The type in which elements are folded."""
    return real_of(dtype) if dtype.kind == "f" else np.int64


@device_function
def _larger(a, b):
    return b if b > a or b != b else a


@device_function
def _smaller(a, b):
    return b if b < a or b != b else a


@device_function
def _times(a, b):
    return a * b


@device_function
def _times_number(a, b):
    return a * b if b == b else a


@device_function
def _plus_magnitude(a, b):
    return a + b if b >= 0 else a - b


@device_function
def _plus_square(a, b):
    return a + b * b


@device_function
def _plus(a, b):
    return a + b


FOLDS: dict[Any, tuple[Any, Any, int | None]] = {
    Max: (_larger, _larger, None), Min: (_smaller, _smaller, None), Prod: (_times, _times, 1),
    NanProd: (_times_number, _times, 1), 1: (_plus_magnitude, _plus, 0),
    2: (_plus_square, _plus, 0)}
"""How an element joins what a thread has, how threads join, and what they begin with: a number, or
the first element."""


@cache
def _places(shape: tuple[int, ...], axes: Collection[int]) -> tuple[Any, Any]:
    """(base(cell), offset(term)) of elements whose `axes` are reduced."""
    steps = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return tuple(offset_function(tuple(shape[axis] for axis in group),
                                 tuple(steps[axis] for axis in group))
                 for group in (kept, sorted(axes)))


def _pieces(cells: int, terms: int) -> tuple[int, int]:
    """In how many pieces so many terms are folded, none of them empty, and how long they are."""
    length = max(-(-terms // pieces_of(cells, terms)), 1)
    return max(-(-terms // length), 1), length


@cache
def _fold_kernel(rule: Any, again: bool, shape: tuple[int, ...], axes: tuple[int, ...], kind: Any
                 ) -> Any:
    """Folds of pieces of cells; `again` of what has been folded."""
    lanes, (base, offset) = LANES, _places(shape, axes)
    take, join, start = FOLDS[rule]
    take, first = join if again else take, start is None
    begin, fold_all = kind(0 if first else start), tree_function(1, fold=join)

    @kernel
    def fold(x, y, terms, length, cells, tasks):
        part = cuda.shared.array((1, lanes), kind)
        me = cuda.threadIdx.x
        for task in range(cuda.blockIdx.x, tasks, cuda.gridDim.x):
            cell, piece = task % cells, task // cells * length
            total = kind(x[base(cell) + offset(piece)]) if first else begin
            for term in range(piece + me, minimum(piece + length, terms), lanes):
                total = take(total, kind(x[base(cell) + offset(term)]))
            part[0, me] = total
            fold_all(part)
            if me == 0:
                y[task] = part[0, 0]
            cuda.syncthreads()
    return fold


def _fold(rule: Any, x: Array, axes: tuple[int, ...], y: Array, kind: Any) -> list[Launch]:
    """Launches that fold `x` over `axes` into `y`; where results are few, pieces first."""
    cells, terms = y.size, x.size // max(y.size, 1)
    pieces, length = _pieces(cells, terms)
    make = _fold_kernel(rule, False, x.shape, axes, kind)
    if pieces == 1:
        return each_block(make, cells, x, y, terms, length, cells)
    parts = x.device.empty((pieces, cells), np.dtype(kind))
    join = _fold_kernel(rule, True, parts.shape, (0,), kind)
    return [launch._replace(own=(parts,)) for launch in (
        *each_block(make, parts.size, x, parts, terms, length, cells),
        *each_block(join, cells, parts, y, pieces, pieces, cells))]


def _reduced(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x = ins[0]
    rule = next(rule for rule in type(op).__mro__ if rule in FOLDS)
    return _fold(rule, x, op.axes(x.ndim), outs[0], _kind(x.dtype))


on_gpu(Max, _reduced)
on_gpu(Min, _reduced)
on_gpu(Prod, _reduced)
on_gpu(NanProd, _reduced)

# -- norms and moments --------------------------------------------------------------------------

def _norm(op: Norm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, axes, total = ins[0], reduced_axes(op.axis, ins[0].ndim), call.scratch[0]
    launches = _fold(op.ord, x, axes, total, total.dtype.type)
    return launches + run_program(COPY if op.ord == 1 else ROOT, [total],
                                  [outs[0].reshape(total.shape)])


def _norm_scratch(op: Norm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Sums of magnitudes, or of squares in double precision: those neither overflow nor lose
    digits."""
    kind = np.float64 if op.ord == 2 else _kind(ins[0].dtype)
    return [Spec((outs[0].size,), np.dtype(kind))]


def _norm_backward(op: Norm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return run_program(*op.spread(ins, outs))


def _mean_of(op: Moments, x: Array, mean: Array) -> list[Launch]:
    if x.dtype.kind == "f":
        return run_program(DIVIDED, [x], [mean], [x.size // mean.size])
    return run_program(COPY, [x], [mean]) + run_program(DIVIDED, [mean], [mean],
                                                         [x.size // mean.size])


def _moments(op: Moments, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, mean = ins[0], call.scratch[0]
    launches = _mean_of(op, x, mean)
    if outs[0] is not None:
        launches += run_program(COPY, [mean], [outs[0].reshape(mean.shape)])
    if outs[1] is not None:
        launches += run_program(SPREAD, [x, mean], [outs[1].reshape(mean.shape)],
                                [x.size // mean.size])
    return launches


def _moments_backward(op: Moments, ins: Any, outs: Any, call: Any) -> list[Launch]:
    *grads, x = ins
    mean = call.scratch[0]
    g, v = (array.reshape(mean.shape) for array in grads)
    return _mean_of(op, x, mean) + run_program(MOMENTS_BACK, [g, v, x, mean], outs,
                                               [x.size // mean.size])


on_gpu(Norm, _norm, _norm_backward, _norm_scratch)
on_gpu(Moments, _moments, _moments_backward, Moments.scratch, Moments.backward_scratch)

# -- places of extremes -------------------------------------------------------------------------


def _winner_function(largest: bool) -> Any:
    """better(a, i, b, j): whether element b at j goes before a at i; NaN goes before all."""
    @device_function
    def better(a, i, b, j):
        if a != a or b != b:
            return b != b and (a == a or j < i)
        return (b > a if largest else b < a) or (a == b and j < i)
    return better


@cache
def _first_function(largest: bool, kind: Any) -> Any:
    """first(a, i): of what the threads of a block have, the element that goes before all others,
    and its place; the answer of thread 0 counts."""
    lanes, better = LANES, _winner_function(largest)

    @device_function
    def first(a, i):
        values = cuda.shared.array(lanes, kind)
        places = cuda.shared.array(lanes, np.int32)
        me, width = cuda.threadIdx.x, lanes // 2
        values[me], places[me] = a, i
        cuda.syncthreads()
        while width > 0:
            if me < width and better(values[me], places[me], values[me + width],
                                     places[me + width]):
                values[me], places[me] = values[me + width], places[me + width]
            cuda.syncthreads()
            width //= 2
        return values[me], places[me]
    return first


@cache
def _search_kernel(largest: bool, shape: tuple[int, ...], axes: tuple[int, ...], kind: Any,
                   keeps: bool) -> Any:
    """Places of extremes of pieces; `keeps` the extremes, too."""
    lanes, (base, offset) = LANES, _places(shape, axes)
    better, first = _winner_function(largest), _first_function(largest, kind)

    @kernel
    def search(x, extremes, y, terms, length, cells, tasks):
        me = cuda.threadIdx.x
        for task in range(cuda.blockIdx.x, tasks, cuda.gridDim.x):
            cell, piece = task % cells, task // cells * length
            best, place = kind(x[base(cell) + offset(piece)]), np.int32(piece)
            for term in range(piece + me, minimum(piece + length, terms), lanes):
                value = kind(x[base(cell) + offset(term)])
                if better(best, place, value, term):
                    best, place = value, np.int32(term)
            best, place = first(best, place)
            if me == 0:
                y[task] = place
                if keeps:
                    extremes[task] = best
            cuda.syncthreads()
    return search


@cache
def _choice_kernel(largest: bool, kind: Any) -> Any:
    """Places of extremes from those of pieces."""
    lanes, better, first = LANES, _winner_function(largest), _first_function(largest, kind)

    @kernel
    def choose(extremes, places, y, pieces, cells):
        me = cuda.threadIdx.x
        for cell in range(cuda.blockIdx.x, cells, cuda.gridDim.x):
            best, place = extremes[cell], places[cell]
            for piece in range(me, pieces, lanes):
                at = piece * cells + cell
                if better(best, place, extremes[at], places[at]):
                    best, place = extremes[at], places[at]
            best, place = first(best, place)
            if me == 0:
                y[cell] = place
            cuda.syncthreads()
    return choose


def _search(largest: bool, axis: int | None, x: Array, y: Array) -> list[Launch]:
    axes, kind = reduced_axes(None if axis is None else (axis,), x.ndim), _kind(x.dtype)
    cells, terms = y.size, x.size // max(y.size, 1)
    pieces, length = _pieces(cells, terms)
    make = _search_kernel(largest, x.shape, axes, kind, pieces > 1)
    if pieces == 1:
        return each_block(make, cells, x, x, y, terms, length, cells)
    own = (x.device.empty((pieces, cells), np.dtype(kind)),
           x.device.empty((pieces, cells), np.dtype(np.int32)))
    return [launch._replace(own=own) for launch in (
        *each_block(make, pieces * cells, x, *own, terms, length, cells),
        *each_block(_choice_kernel(largest, kind), cells, *own, y, pieces))]


def _argmax(op: ArgMax, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _search(not isinstance(op, ArgMin), op.axis, ins[0], outs[0])


def _argmax_channel(op: ArgMaxChannel, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _search(True, 1, ins[0], outs[0])


on_gpu(ArgMax, _argmax)
on_gpu(ArgMin, _argmax)
on_gpu(ArgMaxChannel, _argmax_channel)
