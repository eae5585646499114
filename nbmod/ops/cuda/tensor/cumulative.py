"""Sums so far: a block for each row, of which every thread has a stretch."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...tensor.cumulative import CumSum
from ..lib.block_reduce import LANES, each_block
from ..lib.kernel_math import minimum, real_of
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, cuda, kernel, on_gpu

__all__ = ["running_sums"]


@cache
def _scan_kernel(total: Any) -> Any:
    """y = sums of x so far along axis 1 of (outer, size, inner), from the end if `reverse`.

    Threads add up their stretches, the sums of those before are added up in turn, and every thread
    goes over its stretch again.
    """
    lanes = LANES

    @kernel
    def add_up(x, y, size, inner, reverse, n):
        part = cuda.shared.array(lanes, total)
        me = cuda.threadIdx.x
        stretch = (size + lanes - 1) // lanes
        start, stop = me * stretch, minimum(me * stretch + stretch, size)
        for cell in range(cuda.blockIdx.x, n, cuda.gridDim.x):
            first, step = cell // inner * size * inner + cell % inner, inner
            if reverse:
                first, step = first + (size - 1) * inner, -inner
            found = total(0)
            for k in range(start, stop):
                found += total(x[first + k * step])
            part[me] = found
            cuda.syncthreads()
            before = total(0)
            for lane in range(me):
                before += part[lane]
            for k in range(start, stop):
                before += total(x[first + k * step])
                y[first + k * step] = before
            cuda.syncthreads()
    return add_up


def running_sums(x: Array, y: Array, shape: tuple[int, int, int], reverse: bool = False
                 ) -> list[Launch]:
    """Launches that write to y, which may be x, the sums of x so far along axis 1 of (outer, size,
    inner), the `shape`."""
    outer, size, inner = shape
    total = real_of(y.dtype) if y.dtype.kind == "f" else np.int64
    return each_block(_scan_kernel(total), outer * inner, x, y, size, inner, reverse)


def _scan(op: CumSum, x: Array, y: Array, shape: tuple[int, ...], reverse: bool) -> list[Launch]:
    return running_sums(x, y, op._rows(shape), reverse)


def _forward(op: CumSum, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _scan(op, ins[0], outs[0], ins[0].shape, False)


def _backward(op: CumSum, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return _scan(op, ins[0], outs[0], outs[0].shape, True)


on_gpu(CumSum, _forward, _backward)
