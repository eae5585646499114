"""Group normalization: a block of threads for every group."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.cuda.lib.block_reduce import (
    BLOCK_SIZE,
    all_reduce_function,
    block_stride,
    column_sum_kernel,
    each_block,
)
from ....ops.cuda.lib.kernel_math import MATH, real_of
from ....ops.cuda.runtime.device_memory import Array
from ....ops.cuda.runtime.launch import Launch, cache, cuda
from ....ops.dispatch import implements
from ....ops.elementwise.float_op import as_float32
from ....ops.op import Spec
from ..layers import GroupNorm

sqrt = MATH["sqrt"]


@cache
def _normalize_kernel(real: Any) -> Any:
    """y, mean and inverse deviation of groups of `width` channels of `inner` elements."""
    all_sum, one = all_reduce_function(real), real(1)

    @block_stride
    def normalize(group, x, gamma, beta, y, mean, rates, groups, width, inner, eps):
        first, size = group * width * inner, width * inner
        total, spread = real(0), real(0)
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            total += real(x[first + i])
        center = all_sum(total) / real(size)
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            spread += (real(x[first + i]) - center) ** 2
        rate = one / real(sqrt(all_sum(spread) / real(size) + eps))
        for i in range(cuda.threadIdx.x, size, BLOCK_SIZE):
            channel = group % groups * width + i // inner
            y[first + i] = ((real(x[first + i]) - center) * rate * real(gamma[channel])
                            + real(beta[channel]))
        if cuda.threadIdx.x == 0:
            mean[group], rates[group] = center, rate
    return normalize


@cache
def _normalize_gradient_kernel(real: Any) -> Any:
    """gx, and for every channel of every sample the sums of gy, and of gy times normalized x."""
    all_sum = all_reduce_function(real)

    @block_stride
    def normalize_back(group, gy, x, gamma, mean, rates, gx, of_beta, of_gamma, groups, width,
                       inner):
        center, rate = real(mean[group]), real(rates[group])
        total, along, count = real(0), real(0), real(width * inner)
        for d in range(width):
            first, weight = (group * width + d) * inner, real(gamma[group % groups * width + d])
            shift, scale = real(0), real(0)
            for i in range(first + cuda.threadIdx.x, first + inner, BLOCK_SIZE):
                shift += real(gy[i])
                scale += real(gy[i]) * (real(x[i]) - center) * rate
            shift, scale = all_sum(shift), all_sum(scale)
            total += weight * shift
            along += weight * scale
            if cuda.threadIdx.x == 0:
                of_beta[group * width + d], of_gamma[group * width + d] = shift, scale
        for k in range(cuda.threadIdx.x, width * inner, BLOCK_SIZE):
            i, weight = group * width * inner + k, real(gamma[group % groups * width + k // inner])
            normal = (real(x[i]) - center) * rate
            gx[i] = rate * (weight * real(gy[i]) - (total + normal * along) / count)
    return normalize_back


def _sizes(op: GroupNorm, data: Array) -> tuple[int, int, int]:
    """Groups, channels of each, elements of a channel."""
    samples, channels = data.shape[:2]
    return (op.num_group, channels // op.num_group, data.size // max(samples * channels, 1))


def _normalize(op: GroupNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    data, real = ins[0], real_of(ins[0].dtype)
    moments = [spare if out is None else out
               for out, spare in zip(outs[1:], call.scratch, strict=True)]
    return each_block(_normalize_kernel(real), len(data) * op.num_group, *ins, outs[0], *moments,
                      *_sizes(op, data), real(as_float32(op.eps)))


def _normalize_backward(op: GroupNorm, ins: Any, outs: Any, call: Any) -> list[Launch]:
    data, real, (spare, of_beta, of_gamma) = ins[1], real_of(ins[1].dtype), call.scratch
    launches = each_block(_normalize_gradient_kernel(real), len(data) * op.num_group, *ins,
                          spare if outs[0] is None else outs[0], of_beta, of_gamma,
                          *_sizes(op, data))
    for sums, out in ((of_gamma, outs[1]), (of_beta, outs[2])):
        if out is not None:
            launches += each_block(column_sum_kernel(real), data.shape[1], sums, out, len(data),
                                   False)
    return launches


def _normalize_backward_scratch(op: GroupNorm, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    data = ins[1]
    sums = Spec(data.shape[:2], np.dtype(real_of(data.dtype)))
    return [data, sums, sums]


implements(GroupNorm, "cuda", _normalize, _normalize_backward,
           scratch=lambda op, ins, outs: list(outs[1:]),
           backward_scratch=_normalize_backward_scratch)
