"""Pooling: a thread per window forward, per pixel backward.

Backward gathers: a pixel sums over the windows that cover it, so no atomic additions are needed.
For max pooling it determines whether it is the first maximum of each such window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...dispatch import implements
from ...nn.pooling import AVG, CUBE, MAX, SQUARE, SUM, Pooling, PoolingV1
from ...nn.sliding_window import Layout, Window
from ...op import Call, Spec
from ..lib.kernel_math import CBRTS, MATH, maximum, minimum, real_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .sliding_window import WindowStrides, offset_function

__all__ = ["forward"]

LOWEST = {"float16": -65504.0, "float32": -3.4028234663852886e38,
          "float64": -1.7976931348623157e308, "int8": -128.0, "uint8": 0.0}
"""MXNet's result for a window without any pixel."""

OLD_MODES = {"max": MAX, "avg": AVG, "sum": SUM}

sqrt = MATH["sqrt"]


class PoolingSpec(NamedTuple):
    """Constants of a kernel."""

    window: Window
    channels: int
    x: WindowStrides
    y: WindowStrides
    mode: int
    padded: bool
    """Padding counts in the size of a window."""
    initial: float
    """The start of a reduction: for a maximum the lowest value of the data's type."""
    real: type[np.floating]
    old: bool = False
    """Pooling_v1: padding is zero for a maximum too, all equal maxima receive its gradient, and
    means are over whole kernels."""

    @classmethod
    def of_old(cls, op: PoolingV1, data: Array | Spec) -> PoolingSpec:
        layout, image = Layout(2), data.shape[2:]
        out, kernel, stride, pad = op.window_of(image)
        window, mode = Window.over(image, out, kernel, stride, pad), OLD_MODES[op.pool_type]
        return cls(window, data.shape[1], WindowStrides.of(layout, data.shape[1], window.image),
                   WindowStrides.of(layout, data.shape[1], window.out), mode, False,
                   -np.inf if mode == MAX else 0.0, real_of(data.dtype), True)

    @classmethod
    def of(cls, op: Pooling | PoolingV1, data: Array | Spec) -> PoolingSpec:
        if isinstance(op, PoolingV1):
            return cls.of_old(op, data)
        layout = Layout(len(data.shape) - 2, op.channels_last)
        _, channels, image = layout.split(data.shape)
        window = op.window(image)
        return cls(window, channels, WindowStrides.of(layout, channels, window.image),
                   WindowStrides.of(layout, channels, window.out), op.mode,
                   op.count_include_pad is not False,
                   LOWEST[data.dtype.name] if op.mode == MAX else 0.0, real_of(data.dtype))


@device_function
def _length(start, stop):
    return maximum(stop - start, 1)


def _size_function(case: PoolingSpec) -> Callable:
    """size(z, y, x): the divisor of the window whose first indices are these."""
    window, padded = case.window, case.padded
    (depth, height, width), (pz, py, px) = window.image, window.pad
    kz, ky, kx = window.kernel
    if case.mode != AVG:
        return device_function(lambda z, y, x: 1)
    if case.old:
        # MXNet multiplies by a float32, whatever the type.
        taps = case.real(1 / np.float64(np.float32(1 / window.taps)))
        return device_function(lambda z, y, x: taps)

    @device_function
    def size(z, y, x):
        if padded:
            return (_length(z, minimum(z + kz, depth + pz))
                    * _length(y, minimum(y + ky, height + py))
                    * _length(x, minimum(x + kx, width + px)))
        return (_length(maximum(z, 0), minimum(z + kz, depth))
                * _length(maximum(y, 0), minimum(y + ky, height))
                * _length(maximum(x, 0), minimum(x + kx, width)))
    return size


def _padding_function(case: PoolingSpec) -> Callable:
    """touches_padding(y, x): whether the window that starts there covers padding."""
    (_, height, width), (_, py, px), (_, ky, kx) = (case.window.image, case.window.pad,
                                                    case.window.kernel)

    @device_function
    def touches_padding(y, x):
        return (y < 0 or x < 0 or minimum(y + ky, height + py) > height
                or minimum(x + kx, width + px) > width)
    return touches_padding


def _fold_function(case: PoolingSpec) -> Callable:
    """fold(total, value): accumulate a pixel."""
    mode = case.mode

    @device_function
    def fold(total, value):
        if mode == MAX:
            return value if value > total else total
        if mode == SQUARE:
            return total + value * value
        return total + value * value * value if mode == CUBE else total + value
    return fold


def _finish_function(case: PoolingSpec) -> Callable:
    """finish(total, size): the result of a window from its accumulated pixels."""
    mode, real, cbrt = case.mode, case.real, CBRTS[case.real]

    @device_function
    def finish(total, size):
        if mode == AVG:
            return total / real(size)
        if mode == SQUARE:
            return sqrt(total)
        return cbrt(total) if mode == CUBE else total
    return finish


@cache
def _forward_kernel(case: PoolingSpec) -> CudaKernel:
    window, channels, real, initial = case.window, case.channels, case.real, case.initial
    positions, (_, oheight, owidth) = window.positions, window.out
    (depth, height, width), (kz, ky, kx) = window.image, window.kernel
    (sz, sy, sx), (pz, py, px) = window.stride, window.pad
    pixel = offset_function(case.x, window.image)
    output = offset_function(case.y, window.out)
    size, fold, finish = _size_function(case), _fold_function(case), _finish_function(case)
    zeros, touches_padding = case.old and case.mode == MAX, _padding_function(case)

    @grid_stride
    def pool(i, x, y):
        position, image, channel = i % positions, i // positions // channels, (
            i // positions % channels)
        x0 = position % owidth * sx - px
        y0 = position // owidth % oheight * sy - py
        z0 = position // (owidth * oheight) * sz - pz
        total = real(initial)
        if zeros and touches_padding(y0, x0):
            total = real(0)
        for z in range(maximum(z0, 0), minimum(z0 + kz, depth)):
            for v in range(maximum(y0, 0), minimum(y0 + ky, height)):
                for u in range(maximum(x0, 0), minimum(x0 + kx, width)):
                    at = pixel(image, channel, (z * height + v) * width + u)
                    total = fold(total, real(x[at]))
        y[output(image, channel, position)] = finish(total, size(z0, y0, x0))
    return pool


def _share_function(case: PoolingSpec) -> Callable:
    """share(x, y, gy, image, channel, pixel, position): the pixel's part of the gradient of the
    window at this position, which covers it."""
    window, mode, real = case.window, case.mode, case.real
    _, oheight, owidth = window.out
    (sz, sy, sx), (pz, py, px) = window.stride, window.pad
    offset = offset_function(case.x, window.image)
    output = offset_function(case.y, window.out)
    size, wins, old = _size_function(case), _winner_function(case), case.old

    @device_function
    def share(x, y, gy, image, channel, pixel, position):
        at = output(image, channel, position)
        grad = real(gy[at])
        x0 = position % owidth * sx - px
        y0 = position // owidth % oheight * sy - py
        z0 = position // (owidth * oheight) * sz - pz
        if mode == MAX and old:
            return grad if x[offset(image, channel, pixel)] == y[at] else real(0)
        if mode == MAX:
            return grad if wins(x, image, channel, pixel, z0, y0, x0) else real(0)
        if mode == SUM or mode == AVG:
            return grad / real(size(z0, y0, x0))
        value = real(y[at])
        if value == real(0):
            return real(0)
        ratio = real(x[offset(image, channel, pixel)]) / value
        return grad * (ratio if mode == SQUARE else ratio * ratio)
    return share


def _winner_function(case: PoolingSpec) -> Callable:
    """wins(x, image, channel, pixel, z0, y0, x0): whether the pixel is the first maximum of the
    window that starts there; there is none if no pixel is above the lowest value of the type of
    computation, so a float16 of -65504 can win."""
    window, real = case.window, case.real
    lowest = real(LOWEST[np.dtype(real).name])
    (depth, height, width), (kz, ky, kx) = window.image, window.kernel
    offset = offset_function(case.x, window.image)

    @device_function
    def wins(x, image, channel, pixel, z0, y0, x0):
        own = real(x[offset(image, channel, pixel)])
        if not own > lowest:
            return False
        for z in range(maximum(z0, 0), minimum(z0 + kz, depth)):
            for v in range(maximum(y0, 0), minimum(y0 + ky, height)):
                for u in range(maximum(x0, 0), minimum(x0 + kx, width)):
                    other = (z * height + v) * width + u
                    value = real(x[offset(image, channel, other)])
                    if value > own or (value == own and other < pixel):
                        return False
        return True
    return wins


@cache
def _backward_kernel(case: PoolingSpec) -> CudaKernel:
    window, channels, real = case.window, case.channels, case.real
    (depth, height, width), (odepth, oheight, owidth) = window.image, window.out
    (kz, ky, kx), (sz, sy, sx), (pz, py, px) = window.kernel, window.stride, window.pad
    pixels, offset, share = depth * height * width, offset_function(
        case.x, window.image), _share_function(case)

    @grid_stride
    def pool_back(i, x, y, gy, gx):
        pixel, plane = i % pixels, i // pixels
        u, v, z = (pixel % width + px, pixel // width % height + py, pixel // (width * height) + pz)
        total = real(0)
        # Position o covers the pixel if o * stride <= u < o * stride + kernel.
        for oz in range(maximum(z - kz + sz, 0) // sz, minimum(z // sz + 1, odepth)):
            for oy in range(maximum(v - ky + sy, 0) // sy, minimum(v // sy + 1, oheight)):
                for ox in range(maximum(u - kx + sx, 0) // sx, minimum(u // sx + 1, owidth)):
                    total += share(x, y, gy, plane // channels, plane % channels, pixel,
                                   (oz * oheight + oy) * owidth + ox)
        gx[offset(plane // channels, plane % channels, pixel)] = total
    return pool_back


def forward(op: Pooling | PoolingV1, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    """The twin of both ops; data, and maxima, may be 8-bit integers too."""
    x, y = ins[0], outs[0]
    return each(_forward_kernel(PoolingSpec.of(op, x)), y.size, x, y)


def _backward(op: Pooling | PoolingV1, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    gy, gx = ins[0], outs[0]
    x, y = (ins[i] if i < len(ins) else gx for i in (1, 2))
    return each(_backward_kernel(PoolingSpec.of(op, gx)), gx.size, x, y, gy, gx)


implements(Pooling, "cuda", forward, _backward)
implements(PoolingV1, "cuda", forward, _backward)
