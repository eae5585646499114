"""UpSampling and BilinearResize2D: a thread per pixel of the result, image or gradient.

Backward gathers: a pixel reads the few output gradients that depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...dispatch import implements
from ...image.resize import BilinearResize2D, UpSampling
from ...op import Call, Spec
from ...param import Shape
from ..detection.roi_points import pixel_weight
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, maximum, minimum, real_of
from ..nn import deconvolution
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

floor, ceil = MATH["floor"], MATH["ceil"]

# -- UpSampling ---------------------------------------------------------------------------------


@cache
def _enlarge_kernel(real: type[np.floating], add: bool) -> CudaKernel:
    @grid_stride
    def enlarge(i, x, y, channels, height, width, step, first, outer):
        u, v = i % (width * step), i // (width * step) % (height * step)
        plane = i // (width * step * height * step)
        at = plane // channels * outer + first + i % (channels * height * step * width * step)
        value = real(x[(plane * height + v // step) * width + u // step])
        y[at] = real(y[at]) + value if add else value
    return enlarge


@cache
def _shrink_kernel(real: type[np.floating]) -> CudaKernel:
    @grid_stride
    def shrink(i, g, gx, channels, height, width, step, first, outer):
        u, v, plane = i % width, i // width % height, i // (width * height)
        corner = plane // channels * outer + first + (
            (plane % channels * height + v) * step * width + u) * step
        total = real(0)
        for row in range(step):
            for column in range(step):
                total += real(g[corner + row * width * step + column])
        gx[i] = total
    return shrink


def _parts(op: UpSampling, shapes: Sequence[Shape], large: Array) -> list[tuple[int, ...]]:
    """For every input: channels, height, width, the scale factor, the offset of its part of an
    output image, and the stride of output images."""
    parts: list[tuple[int, ...]] = []
    area, first = large.shape[2] * large.shape[3], 0
    joined = op.multi_input_mode == "concat"
    for _, channels, height, width in shapes:
        parts.append((channels, height, width, large.shape[2] // height, first * area,
                      large.shape[1] * area))
        first += channels if joined else 0
    return parts


def _upsample(op: UpSampling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    y, launches = outs[0], []
    if op.sample_type == "bilinear":
        return deconvolution.forward(op._by(ins[0].shape[1]), ins, outs, call)
    for i, (x, part) in enumerate(zip(ins, _parts(op, [x.shape for x in ins], y), strict=True)):
        add = i > 0 and op.multi_input_mode == "sum"
        launches += each(_enlarge_kernel(real_of(y.dtype), add), x.size * part[3] ** 2, x, y, *part)
    return launches


def _upsample_backward(op: UpSampling, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    if op.sample_type == "bilinear":
        return deconvolution.backward(op._by(ins[1].shape[1]), ins, outs, call)
    g, shapes = ins[0], [spec.shape for spec in call.specs or outs if spec is not None]
    return [launch for gx, part in zip(outs, _parts(op, shapes, g), strict=True) if gx is not None
            for launch in each(_shrink_kernel(real_of(g.dtype)), gx.size, g, gx, *part)]


def _upsample_scratch(op: UpSampling, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    if op.sample_type == "nearest":
        return []
    return deconvolution.backward_scratch(op._by(ins[1].shape[1]), ins, outs)


implements(UpSampling, "cuda", _upsample, _upsample_backward, backward_scratch=_upsample_scratch)

# -- BilinearResize2D ---------------------------------------------------------------------------


def _axis_functions(size: int, count: int, aligned: bool, real: type[np.floating]
                    ) -> tuple[Callable, Callable]:
    """near(i): the two pixels next to position i of `count` over `size` pixels, and the weight of
    the second; reach(pixel): the half-open range of positions that may have this neighbour."""
    ratio, shift, none, one = real(0), real(0), real(0), real(1)
    if count > 1 and aligned:
        ratio = real(size - 1) / real(count - 1)
    elif count > 1:
        ratio, shift = real(size) / real(count), real(0.5)
    every = bool(ratio == 0)

    @device_function
    def near(i):
        at = maximum((real(i) + shift) * ratio - shift, none)
        first = minimum(np.int32(at), size - 1)
        return first, minimum(first + 1, size - 1), at - real(first)

    @device_function
    def reach(pixel):
        # One more position on either side, against rounding; callers compute exact weights.
        low, high = 0, count
        if pixel > 0 and not every:
            low = maximum(np.int32(floor((real(pixel) - one + shift) / ratio - shift)) - 1, 0)
        if pixel < size - 1 and not every:
            high = minimum(np.int32(ceil((real(pixel) + one + shift) / ratio - shift)) + 2, count)
        return low, high
    return near, reach


@cache
def _resize_kernel(image: tuple[int, ...], grid: tuple[int, ...], aligned: bool,
                   real: type[np.floating]) -> CudaKernel:
    (height, width), (rows, columns), one = image, grid, real(1)
    near_row, _ = _axis_functions(height, rows, aligned, real)
    near_column, _ = _axis_functions(width, columns, aligned, real)

    @grid_stride
    def resize(i, x, y):
        top, bottom, below = near_row(i // columns % rows)
        left, right, after = near_column(i % columns)
        first = i // (rows * columns) * height
        upper, lower = (first + top) * width, (first + bottom) * width
        y[i] = ((one - below) * ((one - after) * real(x[upper + left])
                                 + after * real(x[upper + right]))
                + below * ((one - after) * real(x[lower + left])
                           + after * real(x[lower + right])))
    return resize


@cache
def _resize_gradient_kernel(image: tuple[int, ...], grid: tuple[int, ...], aligned: bool,
                            real: type[np.floating]) -> CudaKernel:
    (height, width), (rows, columns), one = image, grid, real(1)
    near_row, reach_row = _axis_functions(height, rows, aligned, real)
    near_column, reach_column = _axis_functions(width, columns, aligned, real)

    @grid_stride
    def resize_gradient(i, gy, gx):
        v, u, first = i // width % height, i % width, i // (width * height) * rows
        total = real(0)
        from_row, to_row = reach_row(v)
        from_column, to_column = reach_column(u)
        for row in range(from_row, to_row):
            top, bottom, below = near_row(row)
            weight_y = pixel_weight(v, top, bottom, below, one)
            if weight_y > 0:
                for column in range(from_column, to_column):
                    left, right, after = near_column(column)
                    weight_x = pixel_weight(u, left, right, after, one)
                    if weight_x > 0:
                        total += weight_y * weight_x * real(gy[(first + row) * columns + column])
        gx[i] = total
    return resize_gradient


def _resize(op: BilinearResize2D, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    x, y = ins[0], outs[0]
    make = _resize_kernel(x.shape[2:], y.shape[2:], op.align_corners, real_of(x.dtype))
    return each(make, y.size, x, y)


@first_gradient
def _resize_backward(op: BilinearResize2D, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    gy, gx = ins[0], outs[0]
    make = _resize_gradient_kernel(gx.shape[2:], gy.shape[2:], op.align_corners,
                                   real_of(gx.dtype))
    return each(make, gx.size, gy, gx)


implements(BilinearResize2D, "cuda", _resize, _resize_backward)
