"""Quantize, requantize and dequantize: a thread per element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dispatch import implements
from ...op import Call, Op, Spec
from ...quantization.quantize import (
    EXACT,
    Dequantize,
    Quantize,
    QuantizeAsym,
    QuantizeV2,
    Requantize,
)
from ...quantization.ranges import FLOAT, INT8, INT32, LEVELS
from ..elementwise.formula_op import COPY, run_program
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import (
    CudaKernel,
    Launch,
    cache,
    device_function,
    each,
    kernel,
    thread,
    threads,
)
from .ranges import (
    ends_of,
    extremes,
    extremes_scratch,
    fill_range,
    magnitude,
    quotient,
    round_function,
    spare_end,
)

real = np.float32


# -- to integers --------------------------------------------------------------------------------


@cache
def _settle_function(target: np.dtype, levels: np.float32, known: bool) -> Callable:
    """settle(low, high, x0, x1, first, last) -> ends of the output's range and scale, from the
    range `low` to `high`, or the calibrated `first` to `last` if `known`."""
    signed = target == INT8

    @device_function
    def settle(low, high, x0, x1, first, last):
        bottom, top = (first, last) if known else (low[0], high[0])
        end = magnitude(bottom, top)
        return -end if signed else bottom, end if signed else top, quotient(levels, end)
    return settle


@cache
def _resettle_function(target: np.dtype, known: bool) -> Callable:
    """A device function for int32 sums of range `low` to `high`, whose values are in [x0, x1]."""
    signed, levels, all_sums = target == INT8, EXACT[target], LEVELS[INT32]

    @device_function
    def settle(low, high, x0, x1, first, last):
        step = magnitude(low[0], high[0]) / all_sums
        end = magnitude(first, last) if known else magnitude(real(x0[0]), real(x1[0])) * step
        return -end if signed else real(0), end, step * quotient(levels, end)
    return settle


@cache
def _round_kernel(settle: Callable, target: np.dtype) -> CudaKernel:
    """y = x scale, rounded; `settle` returns the ends of the range of y, and the scale."""
    rounded = round_function(target)

    @kernel
    def quantize(x, low, high, x0, x1, y, y0, y1, first, last, count):
        bottom, top, scale = settle(low, high, x0, x1, first, last)
        if thread() == 0:
            y0[0], y1[0] = bottom, top
        for i in range(thread(), count, threads()):
            y[i] = rounded(real(x[i]) * scale)
    return quantize


def _rounding(settle: Callable, x: Array, pointers: Sequence[Array], outs: Arrays, spare: Array,
              bounds: Sequence[Any] = (0, 0)) -> list[Launch]:
    y = outs[0]
    return each(_round_kernel(settle, y.dtype), y.size, x, *pointers, y, *ends_of(outs, [spare]),
                *map(real, bounds))


def _quantize(op: Quantize, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, low, high = ins
    settle = _settle_function(op.target, EXACT[op.target], False)
    return _rounding(settle, x, (low, high, low, high), outs, call.scratch[0])


def _quantize_v2(op: QuantizeV2, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, bounds = ins[0], (op.min_calib_range, op.max_calib_range)
    if x.dtype != FLOAT:
        end = LEVELS[x.dtype]
        ends = bounds if op.calibrated else (-end if x.dtype == INT8 else 0, end)
        return run_program(COPY, [x], outs[:1]) + fill_range(ends, outs)
    settle = _settle_function(op.target, LEVELS[op.target], op.calibrated)
    if op.calibrated:
        return _rounding(settle, x, (x,) * 4, outs, call.scratch[0], bounds)
    launches, (low, high) = extremes(x, call.scratch[1:])
    return launches + _rounding(settle, x, (low, high, low, high), outs, call.scratch[0])


def _requantize(op: Requantize, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, low, high = ins
    settle = _resettle_function(op.target, op.calibrated)
    if op.calibrated:
        return _rounding(settle, x, (low, high, x, x), outs, call.scratch[0],
                         (op.min_calib_range, op.max_calib_range))
    launches, ends = extremes(x, call.scratch[1:])
    return launches + _rounding(settle, x, (low, high, *ends), outs, call.scratch[0])


def _measured(op: Op, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch of ops that may measure the range of the data."""
    return spare_end(op, ins, outs) + extremes_scratch(ins[0])


@cache
def _asym_kernel(known: bool) -> CudaKernel:
    rounded = round_function(np.dtype(np.uint8))

    @kernel(exact=True)
    def quantize_asym(x, x0, x1, y, y0, y1, first, last, count):
        low, high = (first, last) if known else (x0[0], x1[0])
        scale = quotient(real(255), high - low)
        shift = -low * scale
        if thread() == 0:
            y0[0], y1[0] = scale, shift
        for i in range(thread(), count, threads()):
            y[i] = rounded(x[i] * scale + shift)
    return quantize_asym


def _quantize_asym(op: QuantizeAsym, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, bounds = ins[0], (op.min_calib_range, op.max_calib_range)
    known = None not in bounds
    launches, ends = ([], (x, x)) if known else extremes(x, call.scratch[1:])
    first, last = (real(number) if known else real(0) for number in bounds)
    return launches + each(_asym_kernel(known), x.size, x, *ends, outs[0],
                           *ends_of(outs, call.scratch), first, last)


implements(Quantize, "cuda", _quantize, scratch=spare_end)
implements(QuantizeV2, "cuda", _quantize_v2, scratch=_measured)
implements(Requantize, "cuda", _requantize, scratch=_measured)
implements(QuantizeAsym, "cuda", _quantize_asym, scratch=_measured)

# -- to floats ----------------------------------------------------------------------------------


@cache
def _dequantize_kernel(levels: np.float32) -> CudaKernel:
    @kernel
    def dequantize(x, low, high, y, count):
        step = magnitude(low[0], high[0]) / levels
        for i in range(thread(), count, threads()):
            y[i] = real(x[i]) * step
    return dequantize


def _dequantize(op: Dequantize, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return each(_dequantize_kernel(LEVELS[ins[0].dtype]), ins[0].size, *ins, outs[0])


implements(Dequantize, "cuda", _dequantize)
