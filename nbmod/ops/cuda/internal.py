"""The ops that the executor's passes insert."""

from __future__ import annotations

import math

import numpy as np

from ..dispatch import implements
from ..internal import Accumulate, FoldedBatchNorm, Unread, ZeroGradient
from ..op import Call, Spec
from .elementwise.formula_op import COPY, run_program
from .lib.fill import fill
from .runtime.device_memory import Arrays
from .runtime.launch import CudaKernel, Launch, cache, each, grid_stride


@cache
def _folding_kernels(fixed: bool, biased: bool) -> tuple[CudaKernel, CudaKernel]:
    """Kernels for the weight, whose channels are axis 2 of (G, inputs, channels, size), and for the
    bias; `fixed`: gamma is 1, `biased`: there is a bias already."""
    double = np.float64

    @grid_stride
    def weight(i, w, gamma, var, out, eps, inputs, channels, size):
        row = i // size
        c = row // (inputs * channels) * channels + row % channels
        scale = 1.0 / math.sqrt(double(var[c]) + eps)
        out[i] = w[i] * (scale if fixed else scale * double(gamma[c]))

    @grid_stride
    def bias(c, b, gamma, beta, mean, var, out, eps):
        scale = 1.0 / math.sqrt(double(var[c]) + eps)
        if not fixed:
            scale *= double(gamma[c])
        shift = (double(b[c]) if biased else 0.0) - double(mean[c])
        out[c] = shift * scale + double(beta[c])

    return weight, bias


def _fold(op: FoldedBatchNorm, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    data, *own, gamma, beta, mean, var = ins
    _, *sizes = op.parts(Spec(data.shape, data.dtype))
    weight, bias = _folding_kernels(op.fix_gamma, not op.no_bias)
    return [*each(weight, data.size, data, gamma, var, outs[0], op.eps, *sizes),
            *each(bias, mean.size, *(own or [mean]), gamma, beta, mean, var, outs[1], op.eps)]


implements(Accumulate, "cuda",
           lambda op, ins, outs, call: run_program(COPY, [ins[0]], [outs[0]], add=call.add))
implements(Unread, "cuda", lambda op, ins, outs, call: [])
implements(FoldedBatchNorm, "cuda", _fold)
implements(ZeroGradient, "cuda", lambda op, ins, outs, call: fill(outs[0], 0))
