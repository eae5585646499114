"""CountSketch: a thread for every number of the result, which gathers the columns that go there.

(The Fourier transforms have no twins yet.)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..op import Spec
from ..spectrum import CountSketch
from .fill import fill_zero
from .indexing import INT32, whole_function
from .kernel_math import real_of
from .launch import Launch, device_function, each, kernel, on_gpu, thread, threads
from .memory import Array
from .sorting import find_starts, sort_rows, sort_scratch


@cache
def _column_function(dtype: np.dtype) -> Any:
    whole = whole_function(dtype)

    @device_function
    def column(h, row, k, a, b):
        return np.int32(whole(h[k]))
    return column


@cache
def _sketch_kernel(real: Any) -> Any:
    @kernel
    def sketch(x, s, where, starts, y, columns, size, count):
        for i in range(thread(), count, threads()):
            first, total = i // columns * size, real(0)
            for at in range(starts[i % columns], starts[i % columns + 1]):
                k = where[at]
                total += real(x[first + k]) * real(s[k])
            y[i] = total
    return sketch


@cache
def _sketch_back_kernel(dtype: np.dtype, real: Any) -> Any:
    column = _column_function(dtype)

    @kernel
    def sketch_back(g, h, s, gx, columns, size, count):
        for i in range(thread(), count, threads()):
            k = i % size
            gx[i] = real(g[i // size * columns + column(h, 0, k, 0, 0)]) * real(s[k])
    return sketch_back


def _checked(op: CountSketch, h: Array) -> list[Any]:
    """A step that looks for columns which there are not."""
    def check() -> None:
        op._columns(h.device.to_numpy(h))

    return [check]


def _forward(op: CountSketch, ins: Any, outs: Any, call: Any) -> list[Any]:
    (x, h, s), (y,), (starts, *scratch) = ins, outs, call.scratch
    launches, (columns, where) = sort_rows(_column_function(h.dtype), h, (1, h.size), (0, 0),
                                           scratch)
    return [*_checked(op, h), *launches, *find_starts(columns, starts, h.size),
            *each(_sketch_kernel(real_of(x.dtype)), y.size, x, s, where, starts, y, op.out_dim,
                  h.size)]


def _scratch(op: CountSketch, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    return [Spec((op.out_dim + 1,), INT32), *sort_scratch(1, ins[1].size, INT32)]


def _backward(op: CountSketch, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (g, h, s), (gx, *others) = ins, outs
    launches = fill_zero(others)
    if gx is not None:
        launches += each(_sketch_back_kernel(h.dtype, real_of(g.dtype)), gx.size, g, h, s, gx,
                         op.out_dim, h.size)
    return launches


on_gpu(CountSketch, _forward, _backward, _scratch)
