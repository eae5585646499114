"""ROIAlign_v2: a thread per bin forward, per pixel of the images backward, as in `roi`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.cuda.detection.roi import Regions, RoiSpec, axis_function, gradient
from ....ops.cuda.lib.fill import first_gradient
from ....ops.cuda.lib.kernel_math import MATH, maximum, minimum, real_of
from ....ops.cuda.runtime.launch import Launch, cache, device_function, each, grid_stride
from ....ops.dispatch import implements
from ....ops.elementwise.float_op import as_float32
from ....ops.op import Spec
from ..roi_align_v2 import ROIAlign_v2

floor, ceil = MATH["floor"], MATH["ceil"]


def _bin_function(real: Any) -> Any:
    """bin_of(start, step, index, size): where a bin begins and ends along an axis."""
    @device_function
    def bin_of(start, step, index, size):
        last = real(size - 1)
        low = minimum(maximum(start + real(index) * step, real(0)), last)
        high = minimum(maximum(start + real(index + 1) * step, real(0)), last)
        return low, high
    return bin_of


def _neighbors_function(real: Any) -> Any:
    """neighbors(at, size): the pixels on both sides of a point, and the weight of the second."""
    @device_function
    def neighbors(at, size):
        low = minimum(maximum(np.int32(floor(at)), 0), size - 1)
        high = minimum(maximum(np.int32(ceil(at)), 0), size - 1)
        return low, high, real(0.5) if low == high else at - real(low)
    return neighbors


@cache
def _largest_kernel(case: RoiSpec) -> Any:
    """The largest point of every bin, and where it is."""
    (_, _, height, width), (channels, rows, columns), real = case.data, case.out, case.real
    bin_of, neighbors, one = _bin_function(real), _neighbors_function(real), real(1)
    third, least = real(3), real(0.01)

    @grid_stride(exact=True)
    def roi_largest(i, x, rois, y, at_x, at_y, regions, scale):
        a, b, r = i // columns % rows, i % columns, i // (rows * columns * channels)
        plane = (r // regions * channels + i // (rows * columns) % channels) * height * width
        left, top = real(rois[r * 4]) * scale, real(rois[r * 4 + 1]) * scale
        bin_width = (real(rois[r * 4 + 2]) * scale - left) / real(columns)
        bin_height = (real(rois[r * 4 + 3]) * scale - top) / real(rows)
        low_v, high_v = bin_of(top, bin_height, a, height)
        low_u, high_u = bin_of(left, bin_width, b, width)
        step_v, step_u = (high_v - low_v) / third, (high_u - low_u) / third
        best, best_u, best_v = real(0), real(-1), real(-1)
        if high_v > low_v and high_u > low_u:
            v = low_v + step_v
            while v <= high_v - step_v + least:
                v0, v1, share_v = neighbors(v, height)
                u = low_u + step_u
                while u <= high_u - step_u + least:
                    u0, u1, share_u = neighbors(u, width)
                    above, below = plane + v0 * width, plane + v1 * width
                    value = ((one - share_v) * ((one - share_u) * real(x[above + u0])
                                                + share_u * real(x[above + u1]))
                             + share_v * ((one - share_u) * real(x[below + u0])
                                          + share_u * real(x[below + u1])))
                    if best_u < real(0) or value > best:
                        best, best_u, best_v = value, u, v
                    u += maximum(step_u, least)
                v += maximum(step_v, least)
        y[i], at_x[i], at_y[i] = best, best_u, best_v
    return roi_largest


@cache
def _bin_span(case: RoiSpec) -> Any:
    """span(rois, r, k, scale): first pixel and end of a bin; rows of rois begin with the image."""
    real, of_axis, bin_of = case.real, axis_function(case), _bin_function(case.real)
    slack = real(0.02)  # points may be 0.01 beyond a bin

    @device_function
    def span(rois, r, k, scale):
        axis, index, bins, size = of_axis(k)
        start = real(rois[r * 5 + 2 - axis]) * scale
        step = (real(rois[r * 5 + 4 - axis]) * scale - start) / real(bins)
        low, high = bin_of(start, step, index, size)
        return np.int32(floor(low)), np.int32(ceil(high + slack)) + 1
    return span


@cache
def _largest_share(case: RoiSpec) -> Any:
    """A bin's contribution to a pixel, by where its maximum is: points holds x, then y of all."""
    (height, width), (channels, rows, columns), real = case.data[2:], case.out, case.real
    neighbors, one = _neighbors_function(real), real(1)

    @device_function
    def part(pixel, low, high, share):
        return (one - share if pixel == low else real(0)) + (share if pixel == high else real(0))

    @device_function
    def share(gy, points, spans, r, channel, a, b, v, u):
        at = ((r * channels + channel) * rows + a) * columns + b
        if points[2 * at] < real(0):
            return real(0)
        u0, u1, share_u = neighbors(points[2 * at], width)
        v0, v1, share_v = neighbors(points[2 * at + 1], height)
        return real(gy[at]) * part(v, v0, v1, share_v) * part(u, u0, u1, share_u)
    return share


@cache
def _points_kernel(real: Any) -> Any:
    @grid_stride
    def interleave(i, at_x, at_y, points):
        points[i] = real(at_y[i // 2] if i % 2 else at_x[i // 2])
    return interleave


@cache
def _rows_kernel(real: Any) -> Any:
    """Rows (image, left, top, right, bottom) of regions (N, R, 4)."""
    @grid_stride
    def number_rois(i, rois, rows, regions):
        column = i % 5
        rows[i] = real(i // 5 // regions) if column == 0 else real(rois[i // 5 * 4 + column - 1])
    return number_rois


def _align(op: ROIAlign_v2, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (data, rois), (y, *places) = ins, outs
    case = _case(data, y)
    at = [spare if out is None else out for out, spare in zip(places, call.scratch, strict=True)]
    return each(_largest_kernel(case), y.size, data, rois, y, *at, rois.shape[1],
                case.real(as_float32(op.spatial_scale)))


@first_gradient
def _align_backward(op: ROIAlign_v2, ins: Any, outs: Any, call: Any) -> list[Launch]:
    (gy, rois, at_x, at_y), gx = ins, outs[0]
    case, (rows, points, *scratch) = _case(gx, gy), call.scratch
    regions, scale = Regions(*scratch), case.real(as_float32(op.spatial_scale))
    return [*each(_rows_kernel(case.real), rows.size, rois, rows, rois.shape[1]),
            *each(_points_kernel(case.real), points.size, at_x, at_y, points),
            *regions.outlined(case, _bin_span(case), rows, scale),
            *gradient(case, _largest_share(case), gy, points, gx, regions)]


def _align_backward_scratch(op: ROIAlign_v2, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    gy, rois, case = ins[0], ins[1], _case(outs[0], ins[0])
    regions, real = rois.shape[0] * rois.shape[1], np.dtype(case.real)
    return [Spec((regions, 5), real), Spec((*gy.shape, 2), real),
            *Regions.specs(case, regions, True)]


def _case(data: Any, out: Any) -> RoiSpec:
    return RoiSpec(tuple(data.shape), tuple(out.shape[2:]), real_of(data.dtype))


implements(ROIAlign_v2, "cuda", _align, _align_backward,
           scratch=lambda op, ins, outs: list(outs[1:]), backward_scratch=_align_backward_scratch)
