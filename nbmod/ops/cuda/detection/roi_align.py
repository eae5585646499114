"""ROIAlign (He et al., 2017): a thread per bin forward, per pixel of the images backward.

As on the CPU the weights of a bin are an outer product of weights along both axes, which a table
holds for all bins; `roi` computes their spans of pixels, and gathers gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...detection.roi_align import ROIAlign
from ...dispatch import implements
from ...op import Call
from ..lib.fill import first_gradient
from ..lib.kernel_math import maximum, minimum
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from . import roi
from .roi import Regions, RoiSpec, axis_function, points_along
from .roi_points import pixel_weight


class SamplingGrid(NamedTuple):
    """The sampling points of regions."""

    aligned: bool
    number: int
    """Points along each axis of a bin; the number of its pixels if this is not positive."""

    @classmethod
    def of(cls, op: ROIAlign) -> SamplingGrid:
        return cls(op.aligned, op.sample_ratio)


# -- weights ------------------------------------------------------------------------------------


def _frame_function(case: RoiSpec, points: SamplingGrid) -> Callable:
    """frame(rois, r, axis, bins, scale): start and width of bins along an axis, and the points of
    each, 0 if the region is empty."""
    real, (aligned, number), (height, width) = case.real, points, case.data[2:]
    none, one, shift = real(0), real(1), real(0.5 if aligned else 0)

    @device_function
    def frame(rois, r, axis, bins, scale):
        start = real(rois[r * 5 + 2 - axis]) * scale - shift
        length = real(rois[r * 5 + 4 - axis]) * scale - shift - start
        if not aligned:
            length = maximum(length, one)
        if not length > none:
            return start, none, np.int32(0)
        step = length / real(bins)
        if number > 0:
            return start, step, np.int32(number)
        return start, step, points_along(step, width if axis else height)
    return frame


def _point_function(real: type[np.floating]) -> Callable:
    """point(start, step, index, k, points, size): the pixels before and after a point of a bin, and
    the weight of the second; the first is -1 if the point is outside."""
    none, half = real(0), real(0.5)

    @device_function
    def point(start, step, index, k, points, size):
        at = start + real(index) * step + (real(k) + half) * step / real(points)
        if not real(-1) <= at <= real(size):
            return np.int32(-1), np.int32(-1), none
        at = maximum(at, none)
        low = minimum(np.int32(at), size - 1)
        high = minimum(low + 1, size - 1)
        return low, high, at - real(low) if high > low else none
    return point


@cache
def _span(case: RoiSpec, points: SamplingGrid) -> Callable:
    """span(rois, r, k, scale): first pixel and end of a bin."""
    of_axis, frame, point = (axis_function(case), _frame_function(case, points),
                             _point_function(case.real))

    @device_function
    def span(rois, r, k, scale):
        axis, index, bins, size = of_axis(k)
        start, step, count = frame(rois, r, axis, bins, scale)
        first, end = size, 0
        for n in range(count):
            low, high, _ = point(start, step, index, n, count, size)
            if low >= 0:
                first, end = minimum(first, low), maximum(end, high + 1)
        return first, end
    return span


def _num_weights(case: RoiSpec) -> int:
    """Weights of one region: of every bin down for all rows, then across for all columns."""
    return case.out[1] * case.data[2] + case.out[2] * case.data[3]


@cache
def _weight_kernel(case: RoiSpec, points: SamplingGrid) -> CudaKernel:
    """Weights (R, num_weights) of the pixels in spans; those down are divided by the number of
    points."""
    (_, rows, columns), (height, width), bins, real = (case.out, case.data[2:], case.bins,
                                                       case.real)
    num_weights, one = _num_weights(case), real(1)
    of_axis, frame, point = axis_function(case), _frame_function(case, points), _point_function(
        real)

    @grid_stride(exact=True)
    def weigh_points(i, rois, scale, spans, weights):
        r, e = i // num_weights, i % num_weights
        if e < rows * height:
            k, pixel = e // height, e % height
        else:
            k, pixel = rows + (e - rows * height) // width, (e - rows * height) % width
        at = (r * bins + k) * 2
        if spans[at] <= pixel < spans[at + 1]:
            axis, index, here, size = of_axis(k)
            start, step, number = frame(rois, r, axis, here, scale)
            total = real(0)
            for n in range(number):
                low, high, after = point(start, step, index, n, number, size)
                total += pixel_weight(pixel, low, high, after, one)
            if axis == 0:
                _, _, others = frame(rois, r, 1, columns, scale)
                total /= real(maximum(number * others, 1))
            weights[i] = total
    return weigh_points


def _weighted_regions(op: ROIAlign, case: RoiSpec, rois: Array, call: Call
                      ) -> tuple[list[Launch], Regions, Array]:
    """Launches that compute spans and weights of regions, and their arrays."""
    regions, weights = Regions(*call.scratch[:4]), call.scratch[4]
    points, scale = SamplingGrid.of(op), roi.scale_of(op, case)
    return [*regions.outlined(case, _span(case, points), rois, scale),
            *each(_weight_kernel(case, points), weights.size, rois, scale, regions.spans, weights)
            ], regions, weights


@cache
def _align_kernel(case: RoiSpec, sensitive: bool) -> CudaKernel:
    (_, planes, height, width), (channels, rows, columns) = case.data, case.out
    bins, real, num_weights, box = case.bins, case.real, _num_weights(case), roi.BOX

    @grid_stride
    def roi_align(i, x, spans, boxes, weights, y):
        a, b = i // columns % rows, i % columns
        channel, r = i // (rows * columns) % channels, i // (rows * columns * channels)
        if sensitive:
            channel = i % (rows * columns * channels)
        first = (boxes[r * box] * planes + channel) * height * width
        down, across = (r * bins + a) * 2, (r * bins + rows + b) * 2
        row_weights = r * num_weights + a * height
        column_weights = r * num_weights + rows * height + b * width
        total = real(0)
        for v in range(spans[down], spans[down + 1]):
            share, line = weights[row_weights + v], real(0)
            if share != real(0):
                for u in range(spans[across], spans[across + 1]):
                    line += weights[column_weights + u] * real(x[first + v * width + u])
                total += share * line
        y[i] = total
    return roi_align


@cache
def _share(case: RoiSpec, sensitive: bool) -> Callable:
    """A bin's contribution to a pixel."""
    (height, width), (channels, rows, columns) = case.data[2:], case.out
    real, num_weights = case.real, _num_weights(case)

    @device_function
    def share(gy, weights, spans, r, channel, a, b, v, u):
        at = ((r * channels + channel) * rows + a) * columns + b
        if sensitive:
            if channel % (rows * columns) != a * columns + b:
                return real(0)
            at = r * channels * rows * columns + channel
        first = r * num_weights
        return (real(gy[at]) * weights[first + a * height + v]
                * weights[first + rows * height + b * width + u])
    return share


def _forward(op: ROIAlign, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (data, rois), y = ins, outs[0]
    case = RoiSpec.of(data, y)
    launches, regions, weights = _weighted_regions(op, case, rois, call)
    return launches + each(_align_kernel(case, op.position_sensitive), y.size, data, regions.spans,
                           regions.boxes, weights, y)


@first_gradient
def _backward(op: ROIAlign, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gy, rois), gx = ins, outs[0]
    case = RoiSpec.of(gx, gy)
    launches, regions, weights = _weighted_regions(op, case, rois, call)
    return launches + roi.gradient(case, _share(case, op.position_sensitive), gy, weights, gx,
                                   regions)


implements(ROIAlign, "cuda", _forward, _backward, *roi.scratch_rules(_num_weights))
