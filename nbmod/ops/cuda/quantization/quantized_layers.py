"""Quantized layers: the kernels of the float layers, with int32 accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...dispatch import implements
from ...elementwise.program import Assign, Program
from ...nn.pooling import AVG
from ...op import Call, Spec
from ...quantization.quantized_layers import (
    QuantizedActivation,
    QuantizedConvolution,
    QuantizedFlatten,
    QuantizedFullyConnected,
    QuantizedPooling,
)
from ...quantization.ranges import FLOAT, INT8, INT32, LEVELS, S8, UINT8
from ...shape import size_of
from ..elementwise.formula_op import COPY, run_program
from ..lib.epilogue import Epilogue
from ..lib.gemm import SMALL_TILES, GemmConfig, gemm, gemm_scratch
from ..nn import convolution, pooling
from ..nn.fully_connected import sizes_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride, kernel, thread, threads
from .ranges import (
    ends_of,
    keep_range,
    magnitude,
    per_unit_function,
    quotient,
    round_function,
    spare_end,
)

real = np.float32
SUMS = GemmConfig(np.int32, SMALL_TILES)

POSITIVE = Program("positive", (Assign("y", "where(x > 0, x, 0)"),), ("x",), ("y",))

# -- layers with weights ------------------------------------------------------------------------


@cache
def _range_kernel(levels: np.float32) -> CudaKernel:
    """The range of int32 sums of products, from the ranges of data and weight; `levels`: steps of
    the data's range."""
    all_sums, data_levels = LEVELS[INT32], real(levels)

    @kernel
    def range_of_sums(low, high, weight_low, weight_high, first, last, count):
        step = (magnitude(low[0], high[0]) / data_levels) * (
            magnitude(weight_low[0], weight_high[0]) / S8)
        for i in range(thread(), count, threads()):
            last[i] = step * all_sums
            first[i] = -last[i]
    return range_of_sums


def range_of_sums(levels: np.float32, ends: Sequence[Array], outs: Arrays, spare: Sequence[Array]
                  ) -> list[Launch]:
    """Launches that write the range of sums; `ends` begins with those of data and weight."""
    return each(_range_kernel(levels), 1, *ends[:4], *ends_of(outs, spare))


@cache
def _bias_kernel(data: np.dtype) -> CudaKernel:
    """Rescale the bias to the scale of the sums."""
    per_unit, weight_per_unit = per_unit_function(data), per_unit_function(INT8)
    levels = LEVELS[INT8]

    @kernel
    def bias_in_sums(bias, low, high, weight_low, weight_high, bias_low, bias_high, y, count):
        scale = quotient(magnitude(bias_low[0], bias_high[0]), levels) * (
            per_unit(magnitude(low[0], high[0]))
            * weight_per_unit(magnitude(weight_low[0], weight_high[0])))
        for i in range(thread(), count, threads()):
            y[i] = np.int32(real(bias[i]) * scale)
    return bias_in_sums


def _rescaled_bias(op: QuantizedConvolution | QuantizedFullyConnected, ins: Arrays, bias: Array
                   ) -> list[Launch]:
    """Launches that write the bias, where there is one, in the steps of the sums."""
    if op.no_bias:
        return []
    return each(_bias_kernel(ins[0].dtype), bias.size, ins[2], *ins[op.num_tensors:], bias)


def _convolve(op: QuantizedConvolution, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, w, ends, (spare, bias) = ins[0], ins[1], ins[op.num_tensors:], call.scratch
    case = convolution.case_of(op.layer, x, outs[0], np.int32)
    return [*_rescaled_bias(op, ins, bias),
            *convolution.output(case, x, w, outs[0], Epilogue(None if op.no_bias else bias)),
            *range_of_sums(op.levels(x.dtype), ends, outs, [spare])]


def _convolve_scratch(op: QuantizedConvolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """An unwanted end of the range, the bias."""
    return [*spare_end(op, ins, outs), Spec((op.num_filter,), INT32)]


def _multiply(op: QuantizedFullyConnected, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, w, ends, (spare, bias, *scratch) = ins[0], ins[1], ins[op.num_tensors:], call.scratch
    rows, inner = sizes_of(op.layer, x)
    return [*_rescaled_bias(op, ins, bias),
            *gemm(x, w, outs[0], (rows, op.num_hidden, inner), (False, True),
                  Epilogue(None if op.no_bias else bias), config=SUMS, scratch=scratch),
            *range_of_sums(op.levels(x.dtype), ends, outs, [spare])]


def _multiply_scratch(op: QuantizedFullyConnected, ins: list[Spec], outs: list[Spec]
                      ) -> list[Spec]:
    """An unwanted end of the range, the bias, partial sums of split-k."""
    rows, inner = sizes_of(op.layer, ins[0])
    return [*spare_end(op, ins, outs), Spec((op.num_hidden,), INT32),
            *gemm_scratch(SUMS, (rows, op.num_hidden, inner))]


implements(QuantizedConvolution, "cuda", _convolve, scratch=_convolve_scratch)
implements(QuantizedFullyConnected, "cuda", _multiply, scratch=_multiply_scratch)

# -- layers that keep the range -----------------------------------------------------------------


def _flatten(op: QuantizedFlatten, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    return run_program(COPY, [x.reshape(y.shape)], [y]) + keep_range(ins[1:], outs)


def _activate(op: QuantizedActivation, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    program = COPY if ins[0].dtype == UINT8 else POSITIVE
    return run_program(program, ins[:1], outs[:1]) + keep_range(ins[1:], outs)


@cache
def _mean_kernel(dtype: np.dtype) -> CudaKernel:
    rounded = round_function(dtype)

    @grid_stride
    def mean(i, x, y, area):
        y[i] = rounded(x[i] / area)
    return mean


def _pool(op: QuantizedPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y, layer, area = ins[0], outs[0], op.layer, 1
    if layer.mode != AVG:
        return pooling.forward(layer, ins, outs, call) + keep_range(ins[1:], outs)
    if op.count_include_pad is not False:
        layer = replace(layer, pool_type="sum")
        area = size_of(layer.window(x.shape[2:]).kernel)
    return [*pooling.forward(layer, [x], call.scratch, call),
            *each(_mean_kernel(y.dtype), y.size, call.scratch[0], y, real(area)),
            *keep_range(ins[1:], outs)]


implements(QuantizedFlatten, "cuda", _flatten)
implements(QuantizedActivation, "cuda", _activate)
implements(QuantizedPooling, "cuda", _pool,
           scratch=lambda op, ins, outs: (
               [Spec(outs[0].shape, FLOAT)] if op.layer.mode == AVG else []))
