"""Losses: elementwise, but for counts of objects and sums of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....ops.cuda.elementwise.formula_op import COPY, run_program
from ....ops.cuda.lib.block_reduce import (
    BLOCK_SIZE,
    all_reduce_function,
    block_stride,
    each_block,
    sum_kernel,
)
from ....ops.cuda.lib.fill import first_gradient
from ....ops.cuda.lib.kernel_math import MATH, maximum, real_of
from ....ops.cuda.runtime.device_memory import Array
from ....ops.cuda.runtime.launch import Launch, cache, cuda, device_function, each, grid_stride
from ....ops.dispatch import implements
from ....ops.elementwise.float_op import as_float32
from ....ops.elementwise.program import Assign, Program
from ....ops.op import Spec
from ..losses import BBoxNorm, FocalLoss, SigmoidCrossEntropy

exp, log, log1p = (MATH[name] for name in ("exp", "log", "log1p"))

@cache
def _objects_kernel(real: Any) -> Any:
    """Count the labels of objects, from 1 up."""
    return sum_kernel(lambda label, segment, term, segments: (
        1.0 if real(label[term]) >= real(1) else 0.0), np.float64)


class _Divisor(NamedTuple):
    """By what a gradient is divided: a count that is computed on the device, or known."""

    launches: list[Launch]
    object_count: Array
    counted: bool
    known: int

    @classmethod
    def of(cls, op: FocalLoss | BBoxNorm, label: Array, call: Any) -> _Divisor:
        if op.normalization != "valid":
            return cls([], label, False, len(label) if op.normalization == "batch" else 1)
        count = _objects_kernel(real_of(label.dtype))
        return cls(each_block(count, 1, label, call.scratch[0], label.size, False),
                   call.scratch[0], True, 1)


def _count(op: FocalLoss | BBoxNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for a divisor that is computed on the device."""
    return [Spec((1,), np.dtype(np.float64))] if op.normalization == "valid" else []


def _divided_function(real: Any, counted: bool) -> Any:
    """divided(factor, object_count): `factor` over one more than these, if they are counted."""
    @device_function
    def divided(factor, object_count):
        return real(np.float64(factor) / (object_count[0] + 1.0)) if counted else factor
    return divided


SIGMOID = Program("sigmoid", (Assign("y", "1 / (1 + exp(-x))"),), ("x",), ("y",))


@cache
def _focal_kernel(real: Any, counted: bool, times: bool) -> Any:
    """The gradient from probabilities (R, K) and labels (R,); `times` that of the output."""
    divided, one, tiny = _divided_function(real, counted), real(1), real(1e-14)

    @grid_stride
    def focal(i, y, label, ograd, gx, object_count, classes, alpha, gamma, factor):
        p, kind = real(y[i]), real(label[i // classes])
        q, scale = one - p, divided(factor, object_count)
        if kind == real(-1):
            scale = real(0)
        if np.int32(kind) == i % classes + 1:
            value = alpha * q ** gamma * (gamma * p * log(p + tiny) - q)
        else:
            value = (alpha - one) * p ** gamma * (gamma * q * log(q + tiny) - p)
        gx[i] = scale * value * real(ograd[i]) if times else scale * value
    return focal


@first_gradient
def _focal_backward(op: FocalLoss, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (y, label, *ograd), gx, real = ins, outs[0], real_of(ins[0].dtype)
    divisor = _Divisor.of(op, label, call)
    return divisor.launches + each(
        _focal_kernel(real, divisor.counted, op.out_grad), y.size, y, label, *(ograd or [y]), gx,
        divisor.object_count, y.shape[2], real(as_float32(op.alpha)), real(as_float32(op.gamma)),
        real(as_float32(op.grad_scale) / divisor.known))


@cache
def _scaled_kernel(real: Any, counted: bool) -> Any:
    divided = _divided_function(real, counted)

    @grid_stride
    def scaled(i, ograd, gx, object_count, factor):
        gx[i] = real(ograd[i]) * divided(factor, object_count)
    return scaled


@first_gradient
def _norm_backward(op: BBoxNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (ograd, label), real = ins, real_of(ins[0].dtype)
    divisor = _Divisor.of(op, label, call)
    return divisor.launches + each(_scaled_kernel(real, divisor.counted), ograd.size, ograd,
                                   outs[0], divisor.object_count, real(1 / divisor.known))


@cache
def _cross_entropy_kernel(real: Any) -> Any:
    """y[n]: the mean of the losses in row n of x, (N, size); a block for every row."""
    all_sum, none, one, rest = all_reduce_function(real), real(0), real(1), real(1e-5)

    @block_stride
    def cross_entropy(n, x, label, y, size):
        total, count = none, none
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            value, target = real(x[i]), real(label[i])
            if target != real(-1):
                total += maximum(value, none) - value * target + log1p(exp(-abs(value)))
                count += one
        total, count = all_sum(total), all_sum(count)
        if cuda.threadIdx.x == 0:
            y[n] = total / (count + rest)
    return cross_entropy


@cache
def _cross_entropy_gradient_kernel(real: Any, is_mean: bool) -> Any:
    all_sum, none, one, rest = all_reduce_function(real), real(0), real(1), real(1e-5)

    @block_stride
    def cross_entropy_back(n, x, label, gx, size, scale):
        count = none
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            count += none if real(label[i]) == real(-1) else one
        count = all_sum(count)
        factor = scale / (count + rest) if is_mean else scale
        for i in range(n * size + cuda.threadIdx.x, (n + 1) * size, BLOCK_SIZE):
            target = real(label[i])
            error = one / (one + exp(-real(x[i]))) - target
            gx[i] = none if target == real(-1) else factor * error
    return cross_entropy_back


def _cross_entropy(op: SigmoidCrossEntropy, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (data, label), count = ins, len(ins[0])
    return each_block(_cross_entropy_kernel(real_of(data.dtype)), count, data, label, outs[0],
                      data.size // max(count, 1))


@first_gradient
def _cross_entropy_backward(op: SigmoidCrossEntropy, ins: Any, outs: Any, call: Any
                            ) -> list[Launch]:
    (data, label), count, real = ins, len(ins[0]), real_of(ins[0].dtype)
    return each_block(_cross_entropy_gradient_kernel(real, op.normalization == "valid"), count,
                      data, label, outs[0], data.size // max(count, 1),
                      real(as_float32(op.grad_scale)))


implements(FocalLoss, "cuda", lambda op, ins, outs, call: run_program(SIGMOID, ins[:1], outs),
           _focal_backward, backward_scratch=_count)
implements(BBoxNorm, "cuda", lambda op, ins, outs, call: run_program(COPY, ins[:1], outs),
           _norm_backward, backward_scratch=_count)
implements(SigmoidCrossEntropy, "cuda", _cross_entropy, _cross_entropy_backward)
