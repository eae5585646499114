"""DeformablePSROIPooling: a thread per bin forward, per pixel of the images backward.

The sampling points of a bin are on a grid, also with an offset, so the weight of a pixel is a
product of weights along both axes.  Gradients of offsets are sums over channels, by a block each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...detection.roi_rotated import DeformablePSROIPooling
from ...elementwise.float_op import as_float32
from ...op import Call, Spec
from ..elementwise.group_stats import Groups, paired_sums
from ..lib.fill import fill_zero
from ..lib.kernel_math import maximum
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride
from .roi import RoiSpec, channel_function, image_function, rounded, scale_of
from .roi_points import between_function, corner_function, near_function, weight_function

__all__ = ["backward", "backward_scratch", "forward", "scratch"]

BIN = 3
"""Elements of a bin: y and x of its first point, and the number of points in the image."""
REGION = 5
"""Elements of a region: image (-1: none), distances of points down and across, width and height."""


class DeformablePsroiSpec(NamedTuple):
    """Constants of the kernels."""

    case: RoiSpec
    group: int
    part: int
    points: int
    """Along each axis of a bin."""
    classes: int
    moves: bool

    @classmethod
    def of(cls, op: DeformablePSROIPooling, data: Array | Spec, out: Array | Spec,
           trans: Array | Spec | None) -> DeformablePsroiSpec:
        return cls(RoiSpec.of(data, out), op.group_size, op.part_size or op.pooled_size,
                   op.sample_per_part, 1 if trans is None else trans.shape[1] // 2,
                   trans is not None)

    @property
    def bins(self) -> int:
        """Along an axis."""
        return self.case.out[1]

    @property
    def labels(self) -> int:
        """Channels of a class, at most."""
        return -(-self.case.out[0] // self.classes)

    @property
    def shared(self) -> int:
        """Bins along an axis that share an offset, at most."""
        return -(-self.bins // self.part)

    def scratch(self, regions: int) -> list[Spec]:
        """Places of bins and regions."""
        bins = regions * self.classes * self.bins ** 2
        sizes = bins * BIN, regions * REGION
        return [Spec((size,), np.dtype(self.case.real)) for size in sizes]

    def groups(self, regions: int) -> Groups:
        """A group for every offset, of what each channel and bin adds to its gradient."""
        terms = self.labels * self.shared ** 2
        return Groups(regions * self.classes * self.part ** 2, terms, 1, terms, terms, 0)


@device_function
def _first(k, many, few):
    """The first n of `many` with n * few // many == k."""
    return (k * many + few - 1) // few


@cache
def _bin_kernel(spec: DeformablePsroiSpec) -> CudaKernel:
    """Positions of bins and regions."""
    (case, _, part, points, classes, moves), bins, real = spec, spec.bins, spec.case.real
    images, _, image_height, image_width = case.data
    image_of, near, half, one, least = (image_function(5, real), near_function(0.5, real),
                                        real(0.5), real(1), real(0.1))

    @grid_stride(exact=True)
    def locate_bins(i, rois, trans, scale, spread, bin_info, regions):
        a, b, r = i // bins % bins, i % bins, i // (bins * bins * classes)
        left = rounded(real(rois[r * 5 + 1]), half) * scale - half
        top = rounded(real(rois[r * 5 + 2]), half) * scale - half
        roi_width = (rounded(real(rois[r * 5 + 3]), half) + one) * scale - half - left
        roi_height = (rounded(real(rois[r * 5 + 4]), half) + one) * scale - half - top
        roi_width, roi_height = maximum(roi_width, least), maximum(roi_height, least)
        step_y, step_x = roi_height / real(bins), roi_width / real(bins)
        y, x = real(a) * step_y + top, real(b) * step_x + left
        if moves:
            at = (i // (bins * bins) * 2 * part + a * part // bins) * part + b * part // bins
            x += real(trans[at]) * spread * roi_width
            y += real(trans[at + part * part]) * spread * roi_height
        step_y, step_x, rows, columns = step_y / real(points), step_x / real(points), 0, 0
        for k in range(points):
            rows += 1 if near(y + real(k) * step_y, image_height) else 0
            columns += 1 if near(x + real(k) * step_x, image_width) else 0
        image = image_of(rois, r, images)
        bin_info[i * BIN], bin_info[i * BIN + 1] = y, x
        bin_info[i * BIN + 2] = real(rows * columns if image >= 0 else 0)
        if i % (bins * bins * classes) == 0:
            regions[r * REGION] = real(image)
            regions[r * REGION + 1], regions[r * REGION + 2] = step_y, step_x
            regions[r * REGION + 3], regions[r * REGION + 4] = roi_width, roi_height
    return locate_bins


@cache
def _pool_kernel(spec: DeformablePsroiSpec) -> CudaKernel:
    (case, group, _, points, classes, _), real = spec, spec.case.real
    (_, planes, height, width), (channels, rows, columns) = case.data, case.out
    near, between = near_function(0.5, real), between_function(height, width, real)
    channel_of = channel_function(case, group)

    @grid_stride
    def psroi_mean(i, x, bin_info, regions, y):
        a, b, c = i // columns % rows, i % columns, i // (rows * columns) % channels
        r, total = i // (rows * columns * channels), real(0)
        at = ((r * classes + c * classes // channels) * rows * columns
              + i % (rows * columns)) * BIN
        count = bin_info[at + 2]
        if count > real(0):
            image = np.int32(regions[r * REGION])
            first = (image * planes + channel_of(c, a, b)) * height * width
            for k in range(points * points):
                v = bin_info[at] + real(k // points) * regions[r * REGION + 1]
                u = bin_info[at + 1] + real(k % points) * regions[r * REGION + 2]
                if near(v, height) and near(u, width):
                    total += between(x, first, v, u)
            total /= count
        y[i] = total
    return psroi_mean


def _line_function(spec: DeformablePsroiSpec) -> Callable:
    """line(start, step, pixel, size): the weight of a pixel in the points of a bin, along an
    axis."""
    points, real = spec.points, spec.case.real
    near, weight, one = near_function(0.5, real), weight_function(real), real(1)

    @device_function
    def line(start, step, pixel, size):
        total, at = real(0), real(pixel)
        if start <= at + one and start + real(points - 1) * step >= at - one:
            for k in range(points):
                if near(start + real(k) * step, size):
                    total += weight(start + real(k) * step, pixel, size)
        return total
    return line


@cache
def _data_gradient_kernel(spec: DeformablePsroiSpec) -> CudaKernel:
    (case, group, _, _, classes, _), bins, real = spec, spec.bins, spec.case.real
    (_, planes, height, width), channels = case.data, case.out[0]
    line = _line_function(spec)

    @grid_stride
    def psroi_back(i, gy, bin_info, regions, gx, number):
        v, u, plane = i // width % height, i % width, i // (width * height)
        image, channel, total = real(plane // planes), plane % planes, real(0)
        c, down, across = channel // (group * group), channel // group % group, channel % group
        for r in range(number if c < channels else 0):
            if regions[r * REGION] == image:
                label = (r * classes + c * classes // channels) * bins
                for a in range(_first(down, bins, group), _first(down + 1, bins, group)):
                    for b in range(_first(across, bins, group), _first(across + 1, bins, group)):
                        at = ((label + a) * bins + b) * BIN
                        count, share = bin_info[at + 2], real(0)
                        if count > real(0):
                            share = line(bin_info[at], regions[r * REGION + 1], v, height)
                        if share != real(0):
                            share *= line(bin_info[at + 1], regions[r * REGION + 2], u, width)
                            total += share / count * real(
                                gy[((r * channels + c) * bins + a) * bins + b])
        gx[i] = total
    return psroi_back


def _slope_function(spec: DeformablePsroiSpec) -> Callable:
    """slopes(x, first, v, u): the derivatives of an interpolated image by x and y."""
    (height, width), real = spec.case.data[2:], spec.case.real
    corners, none, one = corner_function(real), real(0), real(1)

    @device_function
    def slopes(x, first, v, u):
        top, bottom, down = corners(v, height)
        left, right, across = corners(u, width)
        upper, lower = first + top * width, first + bottom * width
        a, b, c, d = (real(x[upper + left]), real(x[upper + right]), real(x[lower + left]),
                      real(x[lower + right]))
        by_x = (one - down) * (b - a) + down * (d - c)
        by_y = (one - across) * (c - a) + across * (d - b)
        return (by_x if none < u < real(width - 1) else none,
                by_y if none < v < real(height - 1) else none)
    return slopes


@cache
def _term_function(spec: DeformablePsroiSpec) -> Callable:
    """The terms of an offset's gradients, along x and y, for `paired_sums`."""
    (case, group, part, points, classes, _), bins, real = spec, spec.bins, spec.case.real
    (_, planes, height, width), channels, shared = case.data, case.out[0], spec.shared
    near, slopes, channel_of = (near_function(0.5, real), _slope_function(spec),
                                channel_function(case, group))

    @device_function
    def terms(gy, x, bin_info, regions, w, group, term, at):
        row, column, label = group // part % part, group % part, group // (part * part) % classes
        r = group // (part * part * classes)
        c = _first(label, channels, classes) + term // (shared * shared)
        a = _first(row, bins, part) + term // shared % shared
        b = _first(column, bins, part) + term % shared
        sum_x, sum_y = real(0), real(0)
        if not (c < _first(label + 1, channels, classes) and a < _first(row + 1, bins, part)
                and b < _first(column + 1, bins, part)):
            return sum_x, sum_y
        here = (((r * classes + label) * bins + a) * bins + b) * BIN
        count = bin_info[here + 2]
        if count > real(0):
            image = np.int32(regions[r * REGION])
            first = (image * planes + channel_of(c, a, b)) * height * width
            for k in range(points * points):
                v = bin_info[here] + real(k // points) * regions[r * REGION + 1]
                u = bin_info[here + 1] + real(k % points) * regions[r * REGION + 2]
                if near(v, height) and near(u, width):
                    by_x, by_y = slopes(x, first, v, u)
                    sum_x += by_x
                    sum_y += by_y
            share = real(gy[((r * channels + c) * bins + a) * bins + b]) / count
            sum_x, sum_y = sum_x * share, sum_y * share
        return sum_x, sum_y
    return terms


@cache
def _offset_gradient_kernel(spec: DeformablePsroiSpec) -> CudaKernel:
    """The gradient of offsets from sums over channels and bins."""
    part, classes = spec.part, spec.classes

    @grid_stride
    def offset_back(i, across, down, regions, spread, gm):
        label = i // (part * part)
        at, r = label // 2 * part * part + i % (part * part), label // (2 * classes)
        if label % 2 == 0:
            gm[i] = across[at] * spread * regions[r * REGION + 3]
        else:
            gm[i] = down[at] * spread * regions[r * REGION + 4]
    return offset_back


def _located(op: DeformablePSROIPooling, spec: DeformablePsroiSpec, rois: Array,
             trans: Array | None, call: Call) -> list[Launch]:
    bin_info, regions = call.scratch[:2]
    return each(_bin_kernel(spec), bin_info.size // BIN, rois, rois if trans is None else trans,
                scale_of(op, spec.case), _spread(op, spec), bin_info, regions)


def _spread(op: DeformablePSROIPooling, spec: DeformablePsroiSpec) -> np.floating:
    return spec.case.real(as_float32(op.trans_std))


def forward(op: DeformablePSROIPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    """Launches that write the means of bins."""
    (data, rois), trans, y = ins[:2], None if op.no_trans else ins[2], outs[0]
    spec = DeformablePsroiSpec.of(op, data, y, trans)
    return [*_located(op, spec, rois, trans, call),
            *each(_pool_kernel(spec), y.size, data, *call.scratch[:2], y)]


def backward(op: DeformablePSROIPooling, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    """Launches that write the gradients of data and offsets."""
    (gy, data, rois), trans = ins[:3], None if op.no_trans else ins[3]
    spec, (bin_info, regions) = DeformablePsroiSpec.of(op, data, gy, trans), call.scratch[:2]
    gx, gm = outs[0], None if op.no_trans else outs[2]
    launches = [*fill_zero(outs[1:2]), *_located(op, spec, rois, trans, call)]
    if gx is not None:
        launches += each(_data_gradient_kernel(spec), gx.size, gy, bin_info, regions, gx, len(rois))
    if gm is not None:
        sums = call.scratch[2:4]
        launches += paired_sums(_term_function(spec), (gy, data, bin_info, regions),
                             spec.groups(len(rois)), sums, call.scratch[4:])
        launches += each(_offset_gradient_kernel(spec), gm.size, *sums, regions, _spread(op, spec),
                         gm)
    return launches


def scratch(op: DeformablePSROIPooling, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Places of bins and regions."""
    spec = DeformablePsroiSpec.of(op, ins[0], outs[0], None if op.no_trans else ins[2])
    return spec.scratch(ins[1].shape[0])


def backward_scratch(op: DeformablePSROIPooling, ins: list[Spec], outs: list[Spec]
                            ) -> list[Spec]:
    """Places of bins and regions, and sums of the gradients of offsets."""
    spec = DeformablePsroiSpec.of(op, ins[1], ins[0], None if op.no_trans else ins[3])
    groups = spec.groups(ins[2].shape[0] if spec.moves else 0)
    sums = [Spec((groups.num_groups,), np.dtype(spec.case.real))] * 2
    return [*spec.scratch(ins[2].shape[0]), *sums, *groups.scratch(ins[0].dtype)]
