"""Cumulative sums (prefix sums): a block scans each row, each thread a contiguous span."""

from __future__ import annotations

import numpy as np

from ...dispatch import implements
from ...tensor.cumulative import CumSum
from ..lib.block_reduce import BLOCK_SIZE, block_stride, each_block
from ..lib.kernel_math import minimum, sum_type
from ..runtime.device_memory import Array
from ..runtime.launch import CudaKernel, Launch, cache, cuda

__all__ = ["running_sums"]


@cache
def _scan_kernel(kind: type[np.number]) -> CudaKernel:
    """y = inclusive scan of x along axis 1 of (outer, size, inner), from the end if `reverse`.

    Each thread sums its span, adds the sums of the spans before it, and then scans its span.
    """

    @block_stride
    def scan(segment, x, y, size, inner, reverse):
        part = cuda.shared.array(BLOCK_SIZE, kind)
        tid = cuda.threadIdx.x
        span = (size + BLOCK_SIZE - 1) // BLOCK_SIZE
        start, stop = tid * span, minimum(tid * span + span, size)
        first, step = segment // inner * size * inner + segment % inner, inner
        if reverse:
            first, step = first + (size - 1) * inner, -inner
        total = kind(0)
        for k in range(start, stop):
            total += kind(x[first + k * step])
        part[tid] = total
        cuda.syncthreads()
        before = kind(0)
        for lane in range(tid):
            before += part[lane]
        for k in range(start, stop):
            before += kind(x[first + k * step])
            y[first + k * step] = before
        cuda.syncthreads()
    return scan


def running_sums(x: Array, y: Array, shape: tuple[int, int, int], reverse: bool = False
                 ) -> list[Launch]:
    """Launches that write the cumulative sums of x along axis 1 of (outer, size, inner), the
    `shape`, to y, which may be x."""
    outer, size, inner = shape
    return each_block(_scan_kernel(sum_type(y.dtype)), outer * inner, x, y, size, inner, reverse)


def _scan(op: CumSum, x: Array, y: Array, shape: tuple[int, ...], reverse: bool) -> list[Launch]:
    return running_sums(x, y, op._rows(shape), reverse)


implements(CumSum, "cuda",
           lambda op, ins, outs, call: _scan(op, ins[0], outs[0], ins[0].shape, False),
           lambda op, ins, outs, call: _scan(op, ins[0], outs[0], outs[0].shape, True))
