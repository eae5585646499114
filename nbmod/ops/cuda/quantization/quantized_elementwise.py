"""Quantized concat, elementwise arithmetic, BatchNorm and Embedding: a thread per element."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from ...dispatch import implements
from ...op import Call, Spec
from ...quantization.quantized_elementwise import (
    QuantizedBatchNorm,
    QuantizedConcat,
    QuantizedElementwiseAdd,
    QuantizedElementwiseMul,
    QuantizedEmbedding,
)
from ...quantization.ranges import FLOAT, INT8, INT32, LEVELS, S8, per_unit
from ..lib.kernel_math import MATH, RINTS, maximum, minimum
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride, kernel, thread, threads
from ..tensor.indexing import gather_rows, lookup_rows
from .quantized_layers import range_of_sums
from .ranges import (
    ends_of,
    fill_range,
    keep_range,
    magnitude,
    per_unit_function,
    quotient,
    round_function,
    spare_end,
)

real, double = np.float32, np.float64
root, trunc = MATH["sqrt"], MATH["trunc"]

# -- concatenation ------------------------------------------------------------------------------


@grid_stride
def _widen(i, low, high, first, last, begins):
    """Extend the output's range by that of one input; the first input begins it."""
    first[i] = low[i] if begins else minimum(low[i], first[i])
    last[i] = high[i] if begins else maximum(high[i], last[i])


@cache
def _join_kernel(data: np.dtype, target: np.dtype) -> CudaKernel:
    """Copy rows of x into rows of y at `offset`, rescaled to the range of y."""
    rounded, per_unit_of = round_function(target), per_unit_function(target)
    own_per_unit = per_unit_function(data)

    @kernel
    def join(x, low, high, y, first, last, width, wide, offset, count):
        scale = quotient(per_unit_of(magnitude(first[0], last[0])),
                         own_per_unit(magnitude(low[0], high[0])))
        for i in range(thread(), count, threads()):
            y[i // width * wide + offset + i % width] = rounded(real(x[i]) * scale)
    return join


def _concat(op: QuantizedConcat, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    count, y, launches, offset = op.num_args, outs[0], [], 0
    range_ = ends_of(outs, call.scratch)
    ends = [(ins[count + 2 * i], ins[count + 2 * i + 1]) for i in range(count)]
    for i, own in enumerate(ends):
        launches += each(_widen, 1, *own, *range_, i == 0)
    axis = op.dim % y.ndim
    wide = prod(y.shape[axis:])
    for x, own in zip(ins, ends, strict=False):
        width = prod(x.shape[axis:])
        launches += each(_join_kernel(x.dtype, y.dtype), x.size, x, *own, y, *range_, width, wide,
                         offset)
        offset += width
    return launches


implements(QuantizedConcat, "cuda", _concat,
           scratch=lambda op, ins, outs: spare_end(op, ins, outs) * 2)

# -- sums and products --------------------------------------------------------------------------


@cache
def _add_kernel(kinds: tuple[np.dtype, np.dtype], target: np.dtype, known: bool) -> CudaKernel:
    whole, mixed, rint = target == INT32, kinds[0] != kinds[1], RINTS[double]
    of_x, of_y, of_sum = (per_unit_function(dtype) for dtype in (*kinds, target))
    rounded = round_function(INT8 if whole else target)
    x_unsigned = kinds[0] != INT8
    least, most = double(-2 ** 31), double(2 ** 31 - 1)

    @kernel(exact=True)
    def add(x, y, x0, x1, y0, y1, z, z0, z1, first, last, count):
        x_end, y_end = magnitude(x0[0], x1[0]), magnitude(y0[0], y1[0])
        low, high = (first, last) if known else (-(x_end + y_end), x_end + y_end)
        per_one = of_sum(magnitude(low, high))
        x_scale, y_scale = quotient(per_one, of_x(x_end)), quotient(per_one, of_y(y_end))
        if thread() == 0:
            z0[0], z1[0] = low, high
        for i in range(thread(), count, threads()):
            a, b = real(x[i]) * x_scale, real(y[i]) * y_scale
            if whole:
                z[i] = np.int64(minimum(maximum(rint(double(a) + double(b)), least), most))
            else:
                if mixed:
                    a, b = rounded(a) if x_unsigned else a, b if x_unsigned else rounded(b)
                z[i] = rounded(a + b)
    return add


def _add(op: QuantizedElementwiseAdd, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y, *ends = ins
    known = op.min_calib_range is not None and op.max_calib_range is not None
    bounds = (op.min_calib_range, op.max_calib_range) if known else (0, 0)
    return each(_add_kernel((x.dtype, y.dtype), outs[0].dtype, known), x.size, x, y, *ends,
                outs[0], *ends_of(outs, call.scratch), *map(real, bounds))


@cache
def _multiply_kernel(target: np.dtype) -> CudaKernel:
    """Products as floats, or as int8 with `unit` steps per 1."""
    bytes_, of_factor = target == INT8, per_unit_function(INT8)
    least, most = real(-128), real(127)

    @kernel
    def multiply(x, y, x0, x1, y0, y1, z, unit, count):
        scale = quotient(real(1), of_factor(magnitude(x0[0], x1[0]))
                         * of_factor(magnitude(y0[0], y1[0])))
        for i in range(thread(), count, threads()):
            product = real(x[i]) * real(y[i])
            if bytes_:
                z[i] = minimum(maximum(trunc(product * (unit * scale)), least), most)
            else:
                z[i] = product * scale
    return multiply


@grid_stride
def _products(i, x, y, z):
    z[i] = np.int32(x[i]) * np.int32(y[i])


def _multiply(op: QuantizedElementwiseMul, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (x, y, *ends), z = ins, outs[0]
    low, high = op.min_calib_range, op.max_calib_range
    if z.dtype == INT32:
        return [*each(_products, z.size, x, y, z),
                *range_of_sums(S8, ends, outs, call.scratch)]
    unit = real(0)
    if z.dtype != FLOAT:
        assert low is not None and high is not None
        unit = per_unit(INT8, low, high)
    launches = each(_multiply_kernel(z.dtype), z.size, x, y, *ends, z, unit)
    return launches + fill_range((low, high), outs)


implements(QuantizedElementwiseAdd, "cuda", _add, scratch=spare_end)
implements(QuantizedElementwiseMul, "cuda", _multiply, scratch=spare_end)

# -- BatchNorm ----------------------------------------------------------------------------------


@cache
def _slopes_kernel(levels: np.float32) -> CudaKernel:
    """Factor and offset of each channel, in quantization steps of the output."""
    @kernel(exact=True)
    def slopes(gamma, beta, mean, var, low, high, factor, offset, eps, more, per_one, count):
        step = quotient(magnitude(low[0], high[0]), levels)
        for c in range(thread(), count, threads()):
            slope = double(gamma[c]) / root(double(var[c]) + eps)
            factor[c] = slope * double(step) * per_one / more
            offset[c] = (double(beta[c]) - double(mean[c]) * slope) * per_one
    return slopes


@cache
def _norm_kernel(unsigned: bool) -> CudaKernel:
    rounded = round_function(INT8)

    @grid_stride(exact=True)
    def normalise(i, x, factor, offset, y, channels, size):
        c, value = i // size % channels, np.int32(x[i])
        value = value // 2 if unsigned else value
        y[i] = rounded(real(value) * factor[c] + offset[c])
    return normalise


def _normalise(op: QuantizedBatchNorm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (x, *channels, low, high), (factor, offset) = ins, call.scratch
    assert op.min_calib_range is not None and op.max_calib_range is not None
    per_one = double(per_unit(INT8, op.min_calib_range, op.max_calib_range))
    return [*each(_slopes_kernel(LEVELS[INT8]), factor.size, *channels, low, high, factor, offset,
                  double(op.eps), double(sqrt(1 + op.eps)), per_one),
            *each(_norm_kernel(x.dtype != INT8), x.size, x, factor, offset, outs[0], x.shape[1],
                  prod(x.shape[2:])),
            *fill_range((op.min_calib_range, op.max_calib_range), outs)]


implements(QuantizedBatchNorm, "cuda", _normalise,
           scratch=lambda op, ins, outs: [Spec(ins[1].shape, FLOAT)] * 2)

# -- Embedding ----------------------------------------------------------------------------------


def _embed(op: QuantizedEmbedding, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    index, weight, low, high = ins
    return [*gather_rows(weight, lookup_rows(index, op.input_dim), outs[0], op.output_dim),
            *keep_range((low, high), outs)]


implements(QuantizedEmbedding, "cuda", _embed)
