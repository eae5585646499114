"""L2Normalization as programs, and LRN: a thread per element, which reads its neighbours."""

from __future__ import annotations

import numpy as np

from ...dispatch import implements
from ...elementwise.float_op import accumulator, as_float32
from ...elementwise.program import Assign, Program
from ...nn.lrn_l2 import LRN, L2Normalization
from ...op import Call, Spec
from ...shape import size_of
from ..elementwise.formula_op import run_program
from ..lib.kernel_math import MATH, maximum, minimum, real_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, each, grid_stride

exp, log = MATH["exp"], MATH["log"]

# -- L2Normalization ----------------------------------------------------------------------------

SQUARES = Program("squares", (Assign("s", "x * x"),), ("x",), ("s",))
LENGTH = Program("length", (Assign("n", "sqrt(s + eps)"),), ("s",), ("n",), ("eps",))
UNIT = Program("unit", (Assign("y", "x / sqrt(s + eps)"),), ("x", "s"), ("y",), ("eps",))
PRODUCT = Program("product", (Assign("a", "g * y"),), ("g", "y"), ("a",))
ACROSS = Program("across", (Assign("gx", "(g - y * a) / n"),), ("g", "y", "a", "n"), ("gx",))


def _view(op: L2Normalization, tensor: Array | Spec) -> tuple[int, int, int]:
    """The shape (R, K, L) of a tensor that is normalised along K."""
    shape = tensor.shape
    if op.mode == "channel":
        return shape[0], shape[1], size_of(shape[2:])
    axis = 1 if op.mode == "instance" else 2
    return size_of(shape[:axis]), size_of(shape[axis:]), 1


def _lengths(op: L2Normalization, data: Spec) -> Spec:
    """Scratch for the sums along K."""
    rows, _, lanes = _view(op, data)
    return Spec((rows, 1, lanes), accumulator(data.dtype))


def _l2(op: L2Normalization, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    shape, squares, eps = _view(op, ins[0]), call.scratch[0], [as_float32(op.eps)]
    x, y = (array.reshape(shape) for array in (ins[0], outs[0]))
    launches = run_program(SQUARES, [x], [squares])
    if outs[1] is not None:
        launches += run_program(LENGTH, [squares], [outs[1].reshape(squares.shape)], eps)
    return launches + run_program(UNIT, [x, squares], [y], eps)


def _l2_backward(op: L2Normalization, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    shape, along = _view(op, ins[1]), call.scratch[0]
    g, y, gx = (array.reshape(shape) for array in (ins[0], ins[1], outs[0]))
    return run_program(PRODUCT, [g, y], [along]) + run_program(
        ACROSS, [g, y, along, ins[2].reshape(along.shape)], [gx])


implements(L2Normalization, "cuda", _l2, _l2_backward, lambda op, ins, outs: [_lengths(op, ins[0])],
           lambda op, ins, outs: [_lengths(op, ins[1])])

# -- LRN ----------------------------------------------------------------------------------------


@cache
def _lrn_kernel(real: type[np.floating], half: int) -> CudaKernel:
    @grid_stride
    def lrn(i, x, y, scale, channels, size, weight, knorm, beta):
        channel, total = i // size % channels, knorm
        for other in range(maximum(channel - half, 0), minimum(channel + half + 1, channels)):
            value = real(x[i + (other - channel) * size])
            total += weight * value * value
        scale[i] = total
        y[i] = real(x[i]) * exp(-beta * log(total))
    return lrn


@cache
def _lrn_gradient_kernel(real: type[np.floating], half: int) -> CudaKernel:
    @grid_stride
    def lrn_gradient(i, g, x, y, scale, gx, channels, size, factor, beta):
        channel, total = i // size % channels, real(0)
        for other in range(maximum(channel - half, 0), minimum(channel + half + 1, channels)):
            at = i + (other - channel) * size
            total += real(g[at]) * real(y[at]) / scale[at]
        gx[i] = real(g[i]) * exp(-beta * log(scale[i])) - factor * real(x[i]) * total
    return lrn_gradient


def _lrn(op: LRN, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y, real = ins[0], outs[0], real_of(ins[0].dtype)
    scale = call.scratch[0] if outs[1] is None else outs[1]
    return each(_lrn_kernel(real, op.radius(x)), x.size, x, y, scale, x.shape[1],
                size_of(x.shape[2:]), real(op.alpha / op.nsize), real(op.knorm), real(op.beta))


def _lrn_backward(op: LRN, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, real = ins[1], real_of(ins[1].dtype)
    return each(_lrn_gradient_kernel(real, op.radius(x)), x.size, *ins, outs[0], x.shape[1],
                size_of(x.shape[2:]), real(2 * op.beta * op.alpha / op.nsize), real(op.beta))


implements(LRN, "cuda", _lrn, _lrn_backward, lambda op, ins, outs: outs[1:])
