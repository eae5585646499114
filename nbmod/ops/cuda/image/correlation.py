"""Correlation (FlowNet): a thread per pair of patches; backward, per pixel of an image.

Backward gathers, as on the CPU: under a displacement a pixel is compared with one other, in all
patches that contain both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...dispatch import implements
from ...image.correlation import Correlation
from ...op import Call
from ..lib.kernel_math import maximum, minimum, real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride


class CorrelationSpec(NamedTuple):
    """Constants of the kernels."""

    image: tuple[int, ...]
    """(C, H, W)."""
    grid: tuple[int, ...]
    """Numbers of patches that are compared along both axes."""
    size: int
    reach: int
    steps: tuple[int, int]
    """Strides of patches and of displacements, in pixels."""
    pad: int
    multiply: bool
    real: type[np.floating]

    @classmethod
    def of(cls, op: Correlation, data: Array, output: Array) -> CorrelationSpec:
        return cls(data.shape[1:], output.shape[2:], op.kernel_size, op.max_displacement,
                   (op.stride1, op.stride2), op.pad_size, op.is_multiply, real_of(data.dtype))

    @property
    def side(self) -> int:
        """Displacements along an axis."""
        return 2 * (self.reach // self.steps[1]) + 1

    @property
    def scale(self) -> Any:
        """The factor that turns sums into means."""
        return self.real(1 / (self.size * self.size * self.image[0]))


def _pixel_function(case: CorrelationSpec) -> Callable:
    """pixel(x, plane, v, u): a pixel of an image with zero padding."""
    (_, height, width), pad, real = case.image, case.pad, case.real

    @device_function
    def pixel(x, plane, v, u):
        if pad <= v < height + pad and pad <= u < width + pad:
            return real(x[(plane * height + v - pad) * width + u - pad])
        return real(0)
    return pixel


@cache
def _compare_kernel(case: CorrelationSpec) -> CudaKernel:
    channels, (rows, columns), (step, jump) = case.image[0], case.grid, case.steps
    size, reach, multiply, real = case.size, case.reach, case.multiply, case.real
    side, scale, pixel = case.side, case.scale, _pixel_function(case)

    @grid_stride
    def correlate(i, a, b, y):
        d, image = i // (rows * columns) % (side * side), i // (rows * columns * side * side)
        v, u = reach + i // columns % rows * step, reach + i % columns * step
        down, across = (d // side - reach // jump) * jump, (d % side - reach // jump) * jump
        total = real(0)
        for channel in range(channels):
            plane = image * channels + channel
            for row in range(v, v + size):
                for column in range(u, u + size):
                    p = pixel(a, plane, row, column)
                    q = pixel(b, plane, row + down, column + across)
                    total += p * q if multiply else abs(p - q)
        y[i] = total * scale
    return correlate


def _weight_function(case: CorrelationSpec) -> Callable:
    """weight(gy, plane, v, u): sum of gradients over the patches of the first image that contain a
    pixel."""
    (rows, columns), step, size = case.grid, case.steps[0], case.size
    reach, real = case.reach, case.real

    @device_function
    def weight(gy, plane, v, u):
        total = real(0)
        # Patch o of an axis contains pixel p if reach + o * step <= p < reach + o * step + size.
        for row in range(maximum(v - reach - size + step, 0) // step,
                         minimum(maximum(v - reach + step, 0) // step, rows)):
            for column in range(maximum(u - reach - size + step, 0) // step,
                                minimum(maximum(u - reach + step, 0) // step, columns)):
                total += real(gy[(plane * rows + row) * columns + column])
        return total
    return weight


@cache
def _gradient_kernel(case: CorrelationSpec, sign: int) -> CudaKernel:
    """The gradient of the first image if `sign` is 1, of the second if it is -1."""
    (channels, height, width), (_, jump) = case.image, case.steps
    reach, multiply, real, pad = case.reach, case.multiply, case.real, case.pad
    side, scale, first = case.side, case.scale, sign > 0
    pixel, weight = _pixel_function(case), _weight_function(case)

    @grid_stride
    def correlate_back(i, gy, own, other, gx):
        plane = i // (height * width)
        v, u, image = i // width % height + pad, i % width + pad, plane // channels
        mine, total = real(own[i]), real(0)
        for d in range(side * side):
            down = sign * (d // side - reach // jump) * jump
            across = sign * (d % side - reach // jump) * jump
            y, x = v + down, u + across
            if 0 <= y < height + 2 * pad and 0 <= x < width + 2 * pad:
                of_patches = weight(gy, image * side * side + d, v if first else y,
                                    u if first else x) * scale
                theirs = pixel(other, plane, y, x)
                if multiply:
                    total += of_patches * theirs
                else:
                    more = mine > theirs or (mine == theirs and first)
                    total += of_patches if more else -of_patches
        gx[i] = total
    return correlate_back


def _forward(op: Correlation, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    a, b = ins
    return each(_compare_kernel(CorrelationSpec.of(op, a, outs[0])), outs[0].size, a, b, outs[0])


def _backward(op: Correlation, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    gy, a, b = ins
    case = CorrelationSpec.of(op, a, gy)
    return [launch for gx, own, other, sign in ((outs[0], a, b, 1), (outs[1], b, a, -1))
            if gx is not None
            for launch in each(_gradient_kernel(case, sign), gx.size, gy, own, other, gx)]


implements(Correlation, "cuda", _forward, _backward)
