"""Softmax and its variants along one axis of a tensor (outer, size, inner).

A block computes each softmax whose elements are contiguous, and each of few long ones; otherwise a
thread does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dispatch import implements
from ...elementwise.float_op import accumulator
from ...nn.softmax import LEAST, SoftmaxCrossEntropy, _AlongAxis
from ...nn.softmax_kernels import AxisView
from ...op import Call, Spec
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import BLOCK_SIZE, all_reduce_function, block_stride, each_block
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, SIMULATED, cuda, maximum, minimum, real_of, whole
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["softmax"]

exp, log = MATH["exp"], MATH["log"]

MANY = 4 if SIMULATED else 1 << 14
"""Softmaxes that keep a large GPU busy with a thread each."""


def _by_blocks(view: AxisView) -> bool:
    """Whether each softmax is computed by a block rather than a thread."""
    return view.size >= BLOCK_SIZE // 2 and (
        view.lanes == 1 or view.rows * view.lanes < MANY)


def _team(wide: bool, real: type[np.floating]) -> tuple[Callable, int, Callable, Callable]:
    """rank() and number of the threads that compute a softmax, a block if `wide`, else one; and the
    functions that reduce values of these threads to their sum and to their maximum."""
    if wide:
        return (device_function(lambda: cuda.threadIdx.x), BLOCK_SIZE, all_reduce_function(real),
                all_reduce_function(real, maximum))
    own = device_function(lambda value: value)
    return device_function(lambda: np.int32(0)), 1, own, own


@cache
def _softmax_kernel(real: type[np.floating], logarithm: bool, cut: bool, wide: bool) -> CudaKernel:
    rank, team, all_sum, all_max = _team(wide, real)

    @(block_stride if wide else grid_stride)
    def softmax_kernel(vector, x, y, length, size, inner, scale):
        first = vector // inner * size * inner + vector % inner
        stop = minimum(maximum(length[vector], 0), size) if cut else size
        top, total = real(-np.inf), real(0)
        for k in range(rank(), stop, team):
            top = maximum(real(x[first + k * inner]) * scale, top)
        top = all_max(top)
        for k in range(rank(), stop, team):
            total += exp(real(x[first + k * inner]) * scale - top)
        total = all_sum(total)
        offset = log(total)
        for k in range(rank(), stop, team):
            value = real(x[first + k * inner]) * scale - top
            y[first + k * inner] = value - offset if logarithm else exp(value) / total
        for k in range(stop + rank(), size, team):
            y[first + k * inner] = real(0)
    return softmax_kernel


def softmax(view: AxisView, x: Array, y: Array, scale: float = 1.0, logarithm: bool = False,
            length: Array | None = None) -> list[Launch]:
    """Launches that write softmax(scale x), or its logarithm, to y."""
    real, wide = real_of(y.dtype), _by_blocks(view)
    return (each_block if wide else each)(
        _softmax_kernel(real, logarithm, length is not None, wide), view.rows * view.lanes,
        x, y, y if length is None else length, view.size, view.lanes, real(scale))


@cache
def _gradient_kernel(real: type[np.floating], logarithm: bool, wide: bool) -> CudaKernel:
    rank, team, all_sum, _ = _team(wide, real)

    @(block_stride if wide else grid_stride)
    def softmax_gradient(vector, g, y, gx, size, inner, scale):
        first = vector // inner * size * inner + vector % inner
        total = real(0)
        for k in range(rank(), size, team):
            at = first + k * inner
            total += real(g[at]) if logarithm else real(g[at]) * real(y[at])
        total = all_sum(total)
        for k in range(rank(), size, team):
            at = first + k * inner
            if logarithm:
                gx[at] = (real(g[at]) - exp(real(y[at])) * total) * scale
            else:
                gx[at] = real(y[at]) * (real(g[at]) - total) * scale
    return softmax_gradient


def _gradient(view: AxisView, g: Array, y: Array, gx: Array, scale: float, logarithm: bool
              ) -> list[Launch]:
    real, wide = real_of(y.dtype), _by_blocks(view)
    return (each_block if wide else each)(
        _gradient_kernel(real, logarithm, wide), view.rows * view.lanes, g, y, gx, view.size,
        view.lanes, real(scale))


def _forward(op: _AlongAxis, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return softmax(op.axis_view(outs[0]), ins[0], outs[0], op.scale, op.log,
                   ins[1] if op.use_length else None)


@first_gradient
def _backward(op: _AlongAxis, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, y = ins
    return _gradient(op.backward_axis_view(y), g, y, outs[0], op.scale, op.log)


@cache
def _entropy_kernel(real: type[np.floating]) -> CudaKernel:
    """The cross entropy of every row."""
    @grid_stride
    def entropy(row, x, label, loss, size, least):
        first, own = row * size, whole(real(label[row]))
        top, total = real(-np.inf), real(0)
        for k in range(size):
            value = real(x[first + k])
            top = value if value > top or value != value else top
        for k in range(size):
            total += exp(real(x[first + k]) - top)
        loss[row] = real(0)
        if 0 <= own < size:
            loss[row] = -maximum(real(x[first + own]) - top - log(total), least)
    return entropy


@cache
def _entropy_gradient_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def entropy_gradient(i, g, y, label, gx, size):
        own = whole(real(label[i // size])) == i % size
        gx[i] = (real(y[i]) - real(1 if own else 0)) * real(g[0])
    return entropy_gradient


def _entropy(op: SoftmaxCrossEntropy, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (data, label), real = ins, real_of(ins[0].dtype)
    losses = call.scratch[0]
    return each(_entropy_kernel(real), data.shape[0], data, label, losses, data.shape[1],
                real(np.log(LEAST))) + run_program(COPY, [losses], outs)


@first_gradient
def _entropy_backward(op: SoftmaxCrossEntropy, ins: Arrays, outs: Arrays, call: Call
                      ) -> list[Launch]:
    (g, data, label), gx, shares = ins, outs[0], call.scratch[0]
    return softmax(AxisView.along(data.shape, -1), data, shares) + each(
        _entropy_gradient_kernel(real_of(data.dtype)), gx.size, g, shares, label, gx,
        data.shape[1])


implements(SoftmaxCrossEntropy, "cuda", _entropy, _entropy_backward,
           lambda op, ins, outs: [Spec(ins[0].shape[:1], accumulator(ins[0].dtype))],
           lambda op, ins, outs: [Spec(ins[1].shape, accumulator(ins[1].dtype))])
implements(_AlongAxis, "cuda", _forward, _backward)
