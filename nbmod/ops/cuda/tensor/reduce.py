"""Reductions along axes, and broadcasting, which is the gradient of a sum.

Sums and means are programs.  Other reductions are segmented block reductions: the threads of a
block fold their elements, then combine the results by the tree of `block_reduce`.  Few long
segments are split into chunks that fill the GPU with blocks, and their results are folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

import numpy as np

from ...dispatch import implements
from ...elementwise.program import Assign, Program
from ...elementwise.reduction_programs import MOMENTS_BACK, ROOT, VARIANCE
from ...op import Call, Spec
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
    reduced_axes,
    reduced_shape,
)
from ...tensor.repetition import BroadcastAxes
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import (
    BLOCK_SIZE,
    all_reduce_function,
    arg_reduce_function,
    block_stride,
    chunk_count,
    each_block,
)
from ..lib.fill import fill_zero
from ..lib.kernel_math import minimum, sum_type
from ..lib.strided_copy import offset_function
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function, kernel

# -- sums, means, repetition --------------------------------------------------------------------

DIVIDED = Program("divided", (Assign("y", "x / share"),), ("x",), ("y",), ("share",))
NAN_AS_ZERO = Program("nan_as_zero", (Assign("y", "where(x == x, x, 0)"),), ("x",), ("y",))


def _sum(op: Sum | NanSum, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x = ins[0]
    program = NAN_AS_ZERO if isinstance(op, NanSum) else COPY
    return run_program(program, [x], [outs[0].reshape(
        reduced_shape(x.shape, op.axes(x.ndim), True))])


def _mean_of(x: Array, y: Array) -> list[Launch]:
    share = [x.size // y.size]
    if x.dtype.kind == "f":
        return run_program(DIVIDED, [x], [y], share)
    return run_program(COPY, [x], [y]) + run_program(DIVIDED, [y], [y], share)


def _mean(op: Mean, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x = ins[0]
    return _mean_of(x, outs[0].reshape(reduced_shape(x.shape, op.axes(x.ndim), True)))


implements(Reduction, "cuda", None,
           lambda op, ins, outs, call: run_program(*op.grad_program(ins, outs)))
implements((Sum, NanSum), "cuda", _sum)
implements(Mean, "cuda", _mean)
implements(BroadcastAxes, "cuda", lambda op, ins, outs, call: run_program(COPY, ins[:1], outs),
           lambda op, ins, outs, call: run_program(COPY, ins[:1], outs[:1]) + fill_zero(outs[1:]))

# -- max, min, prod -----------------------------------------------------------------------------


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
def _times_unless_nan(a, b):
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


FOLDS: dict[type[Reduction] | int, tuple[Callable, Callable, int | None]] = {
    Max: (_larger, _larger, None), Min: (_smaller, _smaller, None), Prod: (_times, _times, 1),
    NanProd: (_times_unless_nan, _times, 1), 1: (_plus_magnitude, _plus, 0),
    2: (_plus_square, _plus, 0)}
"""(accumulate an element, combine two accumulators, initial value; None: the first element)."""


@cache
def _places(shape: tuple[int, ...], axes: Collection[int]) -> tuple[Callable, ...]:
    """(base(segment), offset(term)) of elements whose `axes` are reduced."""
    steps = [prod(shape[axis + 1:]) for axis in range(len(shape))]
    free_axes = [axis for axis in range(len(shape)) if axis not in axes]
    return tuple(offset_function(tuple(shape[axis] for axis in group),
                                 tuple(steps[axis] for axis in group))
                 for group in (free_axes, sorted(axes)))


def _chunks(segments: int, terms: int) -> tuple[int, int]:
    """The number of chunks of segments of `terms` terms, none of them empty, and their length."""
    length = max(-(-terms // chunk_count(segments, terms)), 1)
    return max(-(-terms // length), 1), length


@cache
def _fold_kernel(rule: type[Reduction] | int, again: bool, shape: tuple[int, ...],
                 axes: tuple[int, ...], kind: type[np.number]) -> CudaKernel:
    """Folds of chunks of segments; `again`: of results of chunks."""
    (base, offset), (take, join, start) = _places(shape, axes), FOLDS[rule]
    take, first = join if again else take, start is None
    begin, all_reduce = kind(0 if start is None else start), all_reduce_function(kind, join)

    @block_stride
    def fold(task, x, y, terms, length, segments):
        tid, segment, chunk = cuda.threadIdx.x, task % segments, task // segments * length
        total = kind(x[base(segment) + offset(chunk)]) if first else begin
        for term in range(chunk + tid, minimum(chunk + length, terms), BLOCK_SIZE):
            total = take(total, kind(x[base(segment) + offset(term)]))
        total = all_reduce(total)
        if tid == 0:
            y[task] = total
    return fold


def _fold(rule: type[Reduction] | int, x: Array, axes: tuple[int, ...], y: Array,
          kind: type[np.number]) -> list[Launch]:
    """Launches that fold `x` over `axes` into `y`, in two steps if there are several chunks."""
    segments, terms = y.size, x.size // max(y.size, 1)
    chunks, length = _chunks(segments, terms)
    make = _fold_kernel(rule, False, x.shape, axes, kind)
    if chunks == 1:
        return each_block(make, segments, x, y, terms, length, segments)
    parts = x.device.empty((chunks, segments), np.dtype(kind))
    join = _fold_kernel(rule, True, parts.shape, (0,), kind)
    return [launch._replace(own=(parts,)) for launch in (
        *each_block(make, parts.size, x, parts, terms, length, segments),
        *each_block(join, segments, parts, y, chunks, chunks, segments))]


def _reduced(op: Reduction, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x = ins[0]
    rule = next(rule for rule in type(op).__mro__ if rule in FOLDS)
    return _fold(rule, x, op.axes(x.ndim), outs[0], sum_type(x.dtype))


implements((Max, Min, Prod, NanProd), "cuda", _reduced)

# -- norms and moments --------------------------------------------------------------------------

def _norm(op: Norm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, axes, total = ins[0], reduced_axes(op.axis, ins[0].ndim), call.scratch[0]
    launches = _fold(op.ord, x, axes, total, total.dtype.type)
    return launches + run_program(COPY if op.ord == 1 else ROOT, [total],
                                  [outs[0].reshape(total.shape)])


def _norm_scratch(op: Norm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Sums of magnitudes, or of squares in double precision: those neither overflow nor lose
    digits."""
    kind = np.float64 if op.ord == 2 else sum_type(ins[0].dtype)
    return [Spec((outs[0].size,), np.dtype(kind))]


def _moments(op: Moments, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, mean = ins[0], call.scratch[0]
    launches = _mean_of(x, mean)
    if outs[0] is not None:
        launches += run_program(COPY, [mean], [outs[0].reshape(mean.shape)])
    if outs[1] is not None:
        launches += run_program(VARIANCE, [x, mean], [outs[1].reshape(mean.shape)],
                                [x.size // mean.size])
    return launches


def _moments_backward(op: Moments, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    *grads, x = ins
    mean = call.scratch[0]
    g, v = (array.reshape(mean.shape) for array in grads)
    return _mean_of(x, mean) + run_program(MOMENTS_BACK, [g, v, x, mean], outs,
                                               [x.size // mean.size])


implements(Norm, "cuda", _norm,
           lambda op, ins, outs, call: run_program(*op.grad_program(ins, outs)), _norm_scratch)
implements(Moments, "cuda", _moments, _moments_backward, Moments.scratch, Moments.backward_scratch)

# -- argmax, argmin -----------------------------------------------------------------------------


@cache
def _winner_function(largest: bool) -> Callable:
    """better(a, i, b, j): whether element b at j wins against a at i; NaN wins against all, and of
    equal elements the first."""
    @device_function
    def better(a, i, b, j):
        if a != a or b != b:
            return b != b and (a == a or j < i)
        return (b > a if largest else b < a) or (a == b and j < i)
    return better


@cache
def _search_kernel(largest: bool, shape: tuple[int, ...], axes: tuple[int, ...],
                   kind: type[np.number], keeps: bool) -> CudaKernel:
    """Indices of the extremes of chunks; with `keeps` the extremes, too."""
    (base, offset), better = _places(shape, axes), _winner_function(largest)
    arg_reduce = arg_reduce_function(kind, better)

    @block_stride
    def search(task, x, extremes, y, terms, length, segments):
        tid = cuda.threadIdx.x
        segment, chunk = task % segments, task // segments * length
        best, position = kind(x[base(segment) + offset(chunk)]), np.int32(chunk)
        for term in range(chunk + tid, minimum(chunk + length, terms), BLOCK_SIZE):
            value = kind(x[base(segment) + offset(term)])
            if better(best, position, value, term):
                best, position = value, np.int32(term)
        best, position = arg_reduce(best, position)
        if tid == 0:
            y[task] = position
            if keeps:
                extremes[task] = best
    return search


@cache
def _choice_kernel(largest: bool, kind: type[np.number]) -> CudaKernel:
    """Indices of extremes from those of chunks."""
    better = _winner_function(largest)
    arg_reduce = arg_reduce_function(kind, better)

    @kernel
    def choose(extremes, positions, y, chunks, segments):
        tid = cuda.threadIdx.x
        for segment in range(cuda.blockIdx.x, segments, cuda.gridDim.x):
            best, position = extremes[segment], positions[segment]
            for chunk in range(tid, chunks, BLOCK_SIZE):
                at = chunk * segments + segment
                if better(best, position, extremes[at], positions[at]):
                    best, position = extremes[at], positions[at]
            best, position = arg_reduce(best, position)
            if tid == 0:
                y[segment] = position
    return choose


def _search(largest: bool, axis: int | None, x: Array, y: Array) -> list[Launch]:
    axes, kind = reduced_axes(None if axis is None else (axis,), x.ndim), sum_type(x.dtype)
    segments, terms = y.size, x.size // max(y.size, 1)
    chunks, length = _chunks(segments, terms)
    make = _search_kernel(largest, x.shape, axes, kind, chunks > 1)
    if chunks == 1:
        return each_block(make, segments, x, x, y, terms, length, segments)
    own = (x.device.empty((chunks, segments), np.dtype(kind)),
           x.device.empty((chunks, segments), np.dtype(np.int32)))
    return [launch._replace(own=own) for launch in (
        *each_block(make, chunks * segments, x, *own, terms, length, segments),
        *each_block(_choice_kernel(largest, kind), segments, *own, y, chunks))]


def _argmax(op: ArgMax, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _search(not isinstance(op, ArgMin), op.axis, ins[0], outs[0])


implements(ArgMax, "cuda", _argmax)
implements(ArgMaxChannel, "cuda", lambda op, ins, outs, call: _search(True, 1, ins[0], outs[0]))
