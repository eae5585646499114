"""RROIAlign: ROIAlign of rotated regions; and the registration of DeformablePSROIPooling.

A thread computes a bin forward, a pixel backward.  To gather its gradient, a pixel is rotated into
the frame of a region, where the few sampling points less than a pixel away are on a grid.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...detection.roi_rotated import DeformablePSROIPooling, RROIAlign
from ...dispatch import implements
from ...op import Call
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, maximum, minimum
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from . import deformable_psroi
from .roi import (
    BOX,
    Regions,
    RoiSpec,
    image_function,
    points_along,
    scale_of,
    scratch_rules,
    tile_function,
    within,
)
from .roi_points import between_function, near_function, weight_function

floor, ceil, sine, cosine = (MATH[name] for name in ("floor", "ceil", "sin", "cos"))

FRAME = 8
"""Elements of a rotated region: center x and y, cosine, sine; then, down and across, the distance
between sampling points, and the number of points in a bin."""


@cache
def _frame_kernel(case: RoiSpec, points: int) -> CudaKernel:
    """Frames of regions, and bounding boxes of the pixels that their points touch."""
    (images, _, height, width), (_, rows, columns), real = case
    image_of, one, half, degree = (image_function(6, real), real(1), real(0.5), real(np.pi / 180))

    @grid_stride(exact=True)
    def rotate_regions(r, rois, scale, frames, boxes):
        angle = real(rois[r * 6 + 5]) * degree
        x, y = real(rois[r * 6 + 1]) * scale, real(rois[r * 6 + 2]) * scale
        bin_width = maximum(real(rois[r * 6 + 3]) * scale, one) / real(columns)
        bin_height = maximum(real(rois[r * 6 + 4]) * scale, one) / real(rows)
        points_y = real(points if points > 0 else points_along(bin_height, height))
        points_x = real(points if points > 0 else points_along(bin_width, width))
        c, s = real(cosine(angle)), real(sine(angle))
        at = r * FRAME
        frames[at], frames[at + 1], frames[at + 2], frames[at + 3] = x, y, c, s
        frames[at + 4], frames[at + 5] = bin_height / points_y, bin_width / points_x
        frames[at + 6], frames[at + 7] = points_y, points_x
        # Half of the region, a pixel of interpolation, and one for rounding.
        half_height = bin_height * real(rows) * half
        half_width = bin_width * real(columns) * half
        extent_y = abs(half_height * c) + abs(half_width * s) + real(2)
        extent_x = abs(half_height * s) + abs(half_width * c) + real(2)
        boxes[r * BOX] = image_of(rois, r, images)
        boxes[r * BOX + 1] = within(ceil(y - extent_y), real(height))
        boxes[r * BOX + 2] = within(ceil(y + extent_y), real(height))
        boxes[r * BOX + 3] = within(ceil(x - extent_x), real(width))
        boxes[r * BOX + 4] = within(ceil(x + extent_x), real(width))
    return rotate_regions


def _rotated_function(case: RoiSpec) -> Callable:
    """rotated(frames, at, a, b): coordinates (y, x) of point a down and b across in a region."""
    (_, rows, columns), half = case.out, case.real(0.5)
    real = case.real

    @device_function
    def rotated(frames, at, a, b):
        down = (real(a) + half - real(rows) * half * frames[at + 6]) * frames[at + 4]
        right = (real(b) + half - real(columns) * half * frames[at + 7]) * frames[at + 5]
        c, s = frames[at + 2], frames[at + 3]
        return down * c - right * s + frames[at + 1], right * c + down * s + frames[at]
    return rotated


@cache
def _align_kernel(case: RoiSpec) -> CudaKernel:
    (_, channels, height, width), (_, rows, columns), real = case
    rotated, near, between = (_rotated_function(case), near_function(1, real),
                             between_function(height, width, real))

    @grid_stride
    def rotated_align(i, x, frames, boxes, y):
        plane, r = i // (rows * columns), i // (rows * columns * channels)
        image, at, total = boxes[r * BOX], r * FRAME, real(0)
        if image >= 0:
            first = (image * channels + plane % channels) * height * width
            down, across = np.int32(frames[at + 6]), np.int32(frames[at + 7])
            top, left = i // columns % rows * down, i % columns * across
            for a in range(top, top + down):
                for b in range(left, left + across):
                    v, u = rotated(frames, at, a, b)
                    if near(v, height) and near(u, width):
                        total += between(x, first, v, u)
            total /= real(down * across)
        y[i] = total
    return rotated_align


def _reach_function(real: type[np.floating]) -> Callable:
    """reach(middle, distance, step, points): the range of the `points` points, `step` apart and
    centered on 0, that are within `distance` of `middle`; one more on either side against rounding,
    as the caller checks distances exactly."""
    half = real(0.5)

    @device_function
    def reach(middle, distance, step, points):
        center = middle / step + real(points) * half - half
        low = maximum(minimum(floor(center - distance / step) - real(1), real(points)), real(0))
        high = maximum(minimum(ceil(center + distance / step) + real(2), real(points)), real(0))
        return np.int32(low), np.int32(high)
    return reach


@cache
def _gradient_kernel(case: RoiSpec) -> CudaKernel:
    (_, channels, height, width), (_, rows, columns), real = case
    rotated, near, weight, reach = (_rotated_function(case), near_function(1, real),
                                   weight_function(real), _reach_function(real))
    tile_of = tile_function(case)

    @grid_stride
    def rotated_back(i, gy, frames, near_tiles, counts, gx, tiles):
        v, u, plane = i // width % height, i % width, i // (width * height)
        tile, total = tile_of(plane // channels, v, u), real(0)
        for k in range(counts[tile]):
            r = near_tiles[k * tiles + tile]
            at = r * FRAME
            x, y = real(u) - frames[at], real(v) - frames[at + 1]
            c, s = frames[at + 2], frames[at + 3]
            down, across = np.int32(frames[at + 6]), np.int32(frames[at + 7])
            distance, share = abs(c) + abs(s), real(1) / real(down * across)
            top, bottom = reach(y * c + x * s, distance, frames[at + 4], rows * down)
            left, right = reach(x * c - y * s, distance, frames[at + 5], columns * across)
            first = (r * channels + plane % channels) * rows
            for a in range(top, bottom):
                for b in range(left, right):
                    py, px = rotated(frames, at, a, b)
                    if near(py, height) and near(px, width):
                        part = weight(py, v, height) * weight(px, u, width)
                        if part != real(0):
                            total += share * part * real(
                                gy[(first + a // down) * columns + b // across])
        gx[i] = total
    return rotated_back


def _frames(op: RROIAlign, case: RoiSpec, rois: Array, call: Call) -> list[Launch]:
    return each(_frame_kernel(case, op.sampling_ratio), len(rois), rois, scale_of(op, case),
                call.scratch[4], call.scratch[1])


def _forward(op: RROIAlign, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (data, rois), y = ins, outs[0]
    case, (_, boxes, _, _, frames) = RoiSpec.of(data, y), call.scratch[:5]
    return [*_frames(op, case, rois, call),
            *each(_align_kernel(case), y.size, data, frames, boxes, y)]


@first_gradient
def _backward(op: RROIAlign, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gy, rois), gx = ins, outs[0]
    case, regions, frames = RoiSpec.of(gx, gy), Regions(*call.scratch[:4]), call.scratch[4]
    return [*_frames(op, case, rois, call), *regions.listed(case),
            *each(_gradient_kernel(case), gx.size, gy, frames, regions.near, regions.counts, gx,
                  regions.counts.size)]


implements(RROIAlign, "cuda", _forward, _backward, *scratch_rules(lambda case: FRAME))
implements(DeformablePSROIPooling, "cuda", deformable_psroi.forward, deformable_psroi.backward,
           deformable_psroi.scratch, deformable_psroi.backward_scratch)
