"""AdaptiveAvgPooling2D: a thread per window forward, per pixel backward."""

from __future__ import annotations

import numpy as np

from ...dispatch import implements
from ...nn.adaptive_pooling import AdaptiveAvgPooling2D
from ...op import Call
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride


@device_function
def _start(index, size, count):
    """The first pixel of a window."""
    return index * size // count


@device_function
def _stop(index, size, count):
    """The end of a window.  (With `size` and `count` exchanged: of the windows over a pixel.)"""
    return ((index + 1) * size + count - 1) // count


@cache
def _forward_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def adaptive_pool(i, x, y, height, width, rows, columns):
        row, column = i // columns % rows, i % columns
        image, total = i // (rows * columns) * height, real(0)
        top, bottom = _start(row, height, rows), _stop(row, height, rows)
        left, right = _start(column, width, columns), _stop(column, width, columns)
        for v in range(top, bottom):
            for u in range(left, right):
                total += real(x[(image + v) * width + u])
        y[i] = total / real((bottom - top) * (right - left))
    return adaptive_pool


@cache
def _backward_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def adaptive_pool_back(i, gy, gx, height, width, rows, columns):
        v, u = i // width % height, i % width
        grid, total = i // (height * width) * rows, real(0)
        for row in range(_start(v, rows, height), _stop(v, rows, height)):
            bin_height = _stop(row, height, rows) - _start(row, height, rows)
            for column in range(_start(u, columns, width), _stop(u, columns, width)):
                bin_width = _stop(column, width, columns) - _start(column, width, columns)
                total += real(gy[(grid + row) * columns + column]) / real(bin_height * bin_width)
        gx[i] = total
    return adaptive_pool_back


def _forward(op: AdaptiveAvgPooling2D, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    return each(_forward_kernel(real_of(x.dtype)), y.size, x, y, *x.shape[2:], *y.shape[2:])


def _backward(op: AdaptiveAvgPooling2D, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    gy, gx = ins[0], outs[0]
    return each(_backward_kernel(real_of(gx.dtype)), gx.size, gy, gx, *gx.shape[2:],
                *gy.shape[2:])


implements(AdaptiveAvgPooling2D, "cuda", _forward, _backward)
