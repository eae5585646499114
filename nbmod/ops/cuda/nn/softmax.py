"""Softmax and its variants along one axis of a tensor (outer, size, inner).

A block computes each softmax whose elements are contiguous, and each of few long ones; otherwise a
thread does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...elementwise.float_op import accumulator
from ...nn.softmax import LEAST, SoftmaxActivation, SoftmaxCrossEntropy, _Softmax
from ...nn.softmax_kernels import Places
from ...op import Spec
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import BLOCK_SIZE, block_reduce_function, each_block
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, maximum, minimum, real_of, whole
from ..runtime.device_memory import Array
from ..runtime.launch import SIMULATED, Launch, cuda, each, grid_stride, kernel, on_gpu

__all__ = ["softmax"]

exp, log = MATH["exp"], MATH["log"]

MANY = 4 if SIMULATED else 1 << 14
"""Softmaxes that keep a large GPU busy with a thread each."""


def _by_blocks(places: Places) -> bool:
    """Whether each softmax is computed by a block rather than a thread."""
    return places.size >= BLOCK_SIZE // 2 and (places.lanes == 1
                                               or places.rows * places.lanes < MANY)


@cache
def _softmax_kernel(real: Any, logarithm: bool, cut: bool) -> Any:
    @grid_stride
    def softmax_kernel(place, x, y, length, size, inner, scale):
        first = place // inner * size * inner + place % inner
        stop = minimum(maximum(length[place], 0), size) if cut else size
        top = real(-np.inf)
        for k in range(stop):
            value = real(x[first + k * inner]) * scale
            top = value if value > top or value != value else top
        total = real(0)
        for k in range(stop):
            total += exp(real(x[first + k * inner]) * scale - top)
        offset = log(total)
        for k in range(stop):
            value = real(x[first + k * inner]) * scale - top
            y[first + k * inner] = value - offset if logarithm else exp(value) / total
        for k in range(stop, size):
            y[first + k * inner] = real(0)
    return softmax_kernel


@cache
def _wide_softmax_kernel(real: Any, logarithm: bool, cut: bool) -> Any:
    block_size, block_sum = BLOCK_SIZE, block_reduce_function(1)
    block_max = block_reduce_function(1, combine=maximum)

    @kernel
    def wide_softmax(x, y, length, size, inner, scale, count):
        tops = cuda.shared.array((1, block_size), real)
        sums = cuda.shared.array((1, block_size), real)
        tid = cuda.threadIdx.x
        for place in range(cuda.blockIdx.x, count, cuda.gridDim.x):
            first = place // inner * size * inner + place % inner
            stop = minimum(maximum(length[place], 0), size) if cut else size
            top = real(-np.inf)
            for k in range(tid, stop, block_size):
                top = maximum(real(x[first + k * inner]) * scale, top)
            tops[0, tid] = top
            block_max(tops)
            top, total = tops[0, 0], real(0)
            for k in range(tid, stop, block_size):
                total += exp(real(x[first + k * inner]) * scale - top)
            sums[0, tid] = total
            block_sum(sums)
            total = sums[0, 0]
            offset = log(total)
            for k in range(tid, stop, block_size):
                value = real(x[first + k * inner]) * scale - top
                y[first + k * inner] = value - offset if logarithm else exp(value) / total
            for k in range(stop + tid, size, block_size):
                y[first + k * inner] = real(0)
            cuda.syncthreads()
    return wide_softmax


def softmax(places: Places, x: Array, y: Array, scale: float = 1.0, logarithm: bool = False,
            length: Array | None = None) -> list[Launch]:
    """Launches that write softmax(scale x), or its logarithm, to y."""
    real, count = real_of(y.dtype), places.rows * places.lanes
    args = (x, y, y if length is None else length, places.size, places.lanes, real(scale))
    if _by_blocks(places):
        return each_block(_wide_softmax_kernel(real, logarithm, length is not None), count, *args)
    return each(_softmax_kernel(real, logarithm, length is not None), count, *args)


@cache
def _gradient_kernel(real: Any, logarithm: bool) -> Any:
    @grid_stride
    def softmax_gradient(place, g, y, gx, size, inner, scale):
        first = place // inner * size * inner + place % inner
        total = real(0)
        for k in range(size):
            at = first + k * inner
            total += real(g[at]) if logarithm else real(g[at]) * real(y[at])
        for k in range(size):
            at = first + k * inner
            if logarithm:
                gx[at] = (real(g[at]) - exp(real(y[at])) * total) * scale
            else:
                gx[at] = real(y[at]) * (real(g[at]) - total) * scale
    return softmax_gradient


@cache
def _wide_gradient_kernel(real: Any, logarithm: bool) -> Any:
    block_size, block_sum = BLOCK_SIZE, block_reduce_function(1)

    @kernel
    def wide_gradient(g, y, gx, size, inner, scale, count):
        sums = cuda.shared.array((1, block_size), real)
        tid = cuda.threadIdx.x
        for place in range(cuda.blockIdx.x, count, cuda.gridDim.x):
            first = place // inner * size * inner + place % inner
            total = real(0)
            for k in range(tid, size, block_size):
                at = first + k * inner
                total += real(g[at]) if logarithm else real(g[at]) * real(y[at])
            sums[0, tid] = total
            block_sum(sums)
            total = sums[0, 0]
            for k in range(tid, size, block_size):
                at = first + k * inner
                if logarithm:
                    gx[at] = (real(g[at]) - exp(real(y[at])) * total) * scale
                else:
                    gx[at] = real(y[at]) * (real(g[at]) - total) * scale
            cuda.syncthreads()
    return wide_gradient


def _gradient(places: Places, g: Array, y: Array, gx: Array, scale: float, logarithm: bool
              ) -> list[Launch]:
    real, count = real_of(y.dtype), places.rows * places.lanes
    args = (g, y, gx, places.size, places.lanes, real(scale))
    if _by_blocks(places):
        return each_block(_wide_gradient_kernel(real, logarithm), count, *args)
    return each(_gradient_kernel(real, logarithm), count, *args)


def _forward(op: _Softmax, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return softmax(op._places(outs[0]), ins[0], outs[0], op.scale, op.log,
                   ins[1] if op.use_length else None)


@first_gradient
def _backward(op: _Softmax, ins: Any, outs: Any, call: Any) -> list[Launch]:
    g, y = ins
    return _gradient(op._places(y), g, y, outs[0], op.scale, op.log)


def _activation_backward(op: SoftmaxActivation, ins: Any, outs: Any, call: Any) -> list[Launch]:
    g, y = ins
    return _gradient(Places.along(y.shape, 1), g, y, outs[0], 1.0, False)


@cache
def _entropy_kernel(real: Any) -> Any:
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
def _entropy_gradient_kernel(real: Any) -> Any:
    @grid_stride
    def entropy_gradient(i, g, y, label, gx, size):
        own = whole(real(label[i // size])) == i % size
        gx[i] = (real(y[i]) - real(1 if own else 0)) * real(g[0])
    return entropy_gradient


def _entropy(op: SoftmaxCrossEntropy, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (data, label), real = ins, real_of(ins[0].dtype)
    losses = call.scratch[0]
    return each(_entropy_kernel(real), data.shape[0], data, label, losses, data.shape[1],
                real(np.log(LEAST))) + run_program(COPY, [losses], outs)


@first_gradient
def _entropy_backward(op: SoftmaxCrossEntropy, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (g, data, label), gx, shares = ins, outs[0], call.scratch[0]
    return softmax(Places.along(data.shape, -1), data, shares) + each(
        _entropy_gradient_kernel(real_of(data.dtype)), gx.size, g, shares, label, gx,
        data.shape[1])


on_gpu(SoftmaxCrossEntropy, _entropy, _entropy_backward,
       lambda op, ins, outs: [Spec(ins[0].shape[:1], accumulator(ins[0].dtype))],
       lambda op, ins, outs: [Spec(ins[1].shape, accumulator(ins[1].dtype))])
on_gpu(_Softmax, _forward, _backward)
on_gpu(SoftmaxActivation, lambda op, ins, outs, call: softmax(op._places(outs[0]), ins[0], outs[0]),
       _activation_backward)
