"""Reductions along axes, and repetition, which is the gradient of a sum.

Sums and means are programs.  Other reductions are the work of a block for each result: its threads
take every so-manieth element and fold what they have by the tree that sums have.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..half import accumulator
from ..op import Spec
from ..program import Program, Step
from ..reduce import (
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
    reduced_shape,
)
from ..repetition import Broadcast
from .blocks import LANES, each_block
from .fill import fill_zero
from .formula_op import COPY, run_program
from .kernel_math import real_of
from .launch import Launch, cuda, device_function, kernel, on_gpu
from .memory import Array
from .strided import offset_function

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


@cache
def _fold_kernel(rule: Any, shape: tuple[int, ...], axes: tuple[int, ...], kind: Any) -> Any:
    lanes, (base, offset) = LANES, _places(shape, axes)
    take, join, start = FOLDS[rule]
    first = start is None
    begin = kind(0 if first else start)

    @kernel
    def fold(x, y, terms, cells):
        part = cuda.shared.array(lanes, kind)
        me = cuda.threadIdx.x
        for cell in range(cuda.blockIdx.x, cells, cuda.gridDim.x):
            total = kind(x[base(cell)]) if first else begin
            for term in range(me, terms, lanes):
                total = take(total, kind(x[base(cell) + offset(term)]))
            part[me] = total
            cuda.syncthreads()
            width = lanes // 2
            while width > 0:
                if me < width:
                    part[me] = join(part[me], part[me + width])
                cuda.syncthreads()
                width //= 2
            if me == 0:
                y[cell] = part[0]
            cuda.syncthreads()
    return fold


def _fold(rule: Any, x: Array, axes: tuple[int, ...], y: Array, kind: Any) -> list[Launch]:
    """Launches that fold `x` over `axes` into `y`."""
    return each_block(_fold_kernel(rule, x.shape, axes, kind), y.size, x, y, x.size // y.size)


def _reduced(op: Any, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x = ins[0]
    rule = next(rule for rule in type(op).__mro__ if rule in FOLDS)
    return _fold(rule, x, op.axes(x.ndim), outs[0], _kind(x.dtype))


on_gpu(Max, _reduced)
on_gpu(Min, _reduced)
on_gpu(Prod, _reduced)
on_gpu(NanProd, _reduced)

# -- norms and moments --------------------------------------------------------------------------

ROOT = Program("root", (Step("y", "sqrt(s)"),), ("s",), ("y",))
SIGN = Program("norm1_back", (Step("gx", "where(x > 0, g, where(x < 0, -g, x * g))"),),
               ("g", "x"), ("gx",))
DIRECTION = Program("norm2_back", (Step("gx", "x * (g / y)"),), ("g", "x", "y"), ("gx",))
SPREAD = Program("variance", (Step("v", "(x - m) * (x - m) / n"),), ("x", "m"), ("v",), ("n",))
MOMENTS_BACK = Program("moments_back", (Step("gx", "(2 * (x - m) * v + g) / n"),),
                       ("g", "v", "x", "m"), ("gx",), ("n",))


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
    gx = outs[0]
    axes = reduced_axes(op.axis, gx.ndim)
    g, *rest = (keep(gx.shape, axes, array) for array in (ins[0], *ins[2:]))
    return run_program(DIRECTION if rest else SIGN, [g, ins[1], *rest], [gx])


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


def _means(op: Moments, x: Spec) -> Spec:
    """Scratch for means."""
    axes = reduced_axes(op.axes, len(x.shape))
    return Spec(reduced_shape(x.shape, axes, True), accumulator(x.dtype))


on_gpu(Norm, _norm, _norm_backward, _norm_scratch)
on_gpu(Moments, _moments, _moments_backward, lambda op, ins, outs: [_means(op, ins[0])],
       lambda op, ins, outs: [_means(op, ins[2])])

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
def _search_kernel(largest: bool, shape: tuple[int, ...], axes: tuple[int, ...], kind: Any) -> Any:
    lanes, (base, offset) = LANES, _places(shape, axes)
    better = _winner_function(largest)

    @kernel
    def search(x, y, terms, cells):
        values = cuda.shared.array(lanes, kind)
        places = cuda.shared.array(lanes, np.int32)
        me = cuda.threadIdx.x
        for cell in range(cuda.blockIdx.x, cells, cuda.gridDim.x):
            best, place = kind(x[base(cell)]), np.int32(0)
            for term in range(me, terms, lanes):
                value = kind(x[base(cell) + offset(term)])
                if better(best, place, value, term):
                    best, place = value, np.int32(term)
            values[me], places[me] = best, place
            cuda.syncthreads()
            width = lanes // 2
            while width > 0:
                if me < width and better(values[me], places[me], values[me + width],
                                         places[me + width]):
                    values[me], places[me] = values[me + width], places[me + width]
                cuda.syncthreads()
                width //= 2
            if me == 0:
                y[cell] = places[0]
            cuda.syncthreads()
    return search


def _search(largest: bool, axis: int | None, x: Array, y: Array) -> list[Launch]:
    axes = reduced_axes(None if axis is None else (axis,), x.ndim)
    kernel = _search_kernel(largest, x.shape, axes, _kind(x.dtype))
    return each_block(kernel, y.size, x, y, x.size // y.size)


def _argmax(op: ArgMax, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _search(not isinstance(op, ArgMin), op.axis, ins[0], outs[0])


def _argmax_channel(op: ArgMaxChannel, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _search(True, 1, ins[0], outs[0])


on_gpu(ArgMax, _argmax)
on_gpu(ArgMin, _argmax)
on_gpu(ArgMaxChannel, _argmax_channel)
