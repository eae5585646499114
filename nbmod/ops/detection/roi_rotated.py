"""RROIAlign (rotated regions) and DeformablePSROIPooling: bilinear samples at arbitrary points.

`corners_of` finds the four pixels around a point and its distances from them, once for all channels
that share the point: those of a rotated region are processed in blocks (`channel_blocks`), those of
a moved bin, which read different channels each, from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import pi
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..elementwise.float_op import as_float32
from ..jit import inlined, kernel, num_threads, prange
from ..nn.channel_blocks import (
    BLOCK,
    add_scaled,
    blocks_of,
    from_blocks,
    into_blocks,
    put_in,
    take_out,
)
from ..op import Call, Run, Spec
from ..param import Shape
from ..rules import fill_zero
from ..shape import ShapeMismatch, Shapes, unify
from ..tensor.ordering import INT64
from .roi import PositionSensitiveOp, RegionOp, flat, image_of, points_along, rounded

__all__ = ["DeformablePSROIPooling", "RROIAlign"]

MAX_PARTS = 1 << 12
"""Along each axis of a region: their offsets are allocated also where they are all 0."""


# ------------------------------------------------------------------------------------------ kernels

@inlined
def corners_of(image, y, x):
    """(top, bottom, left, right) pixels around a point, and its distance from top and left.

    image: (rows, columns, ...), of which only shape and type are used.
    """
    zero = image.dtype.type(0)
    y, x = max(y, zero), max(x, zero)
    top, left = min(int(y), image.shape[0] - 1), min(int(x), image.shape[1] - 1)
    bottom, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
    down = y - image.dtype.type(top) if bottom > top else zero
    across = x - image.dtype.type(left) if right > left else zero
    return top, bottom, left, right, down, across


@inlined
def _is_near(image, y, x, border):
    """Whether a point is no more than `border` outside of the pixels' centers (or of the size)."""
    return (-border <= y <= image.shape[0] - 1 + border
            and -border <= x <= image.shape[1] - 1 + border)


class RotatedFrame(NamedTuple):
    """Frame of a rotated region: center, direction, size of a bin, and its sampling points along
    both axes."""

    x: float
    y: float
    cosine: float
    sine: float
    width: float
    height: float
    rows: int
    columns: int


@inlined
def _rotated_frame(roi, scale, grid, points, size):
    """The frame of a region; size: rows and columns of the image."""
    (_, x, y, width, height, degrees), (down, across), (high, wide) = roi, grid, size
    kind = roi.dtype.type
    angle = degrees * kind(pi / 180)
    bin_width = max(width * scale, kind(1)) / kind(across)
    bin_height = max(height * scale, kind(1)) / kind(down)
    rows = points if points > 0 else points_along(bin_height, high)
    columns = points if points > 0 else points_along(bin_width, wide)
    return RotatedFrame(x * scale, y * scale, kind(np.cos(angle)), kind(np.sin(angle)), bin_width,
                        bin_height, rows, columns)


@inlined
def _rotated_point(frame, grid, i, j, k, kind):
    """(y, x) of point k of bin (i, j)."""
    (rows, columns), half = grid, kind(0.5)
    row = kind(i) - kind(rows) * half + (kind(k // frame.columns) + half) / kind(frame.rows)
    column = (kind(j) - kind(columns) * half
              + (kind(k % frame.columns) + half) / kind(frame.columns))
    down, right = row * frame.height, column * frame.width
    return (down * frame.cosine - right * frame.sine + frame.y,
            right * frame.cosine + down * frame.sine + frame.x)


@inlined
def _add_point(image, y, x, share, total):
    """total (BLOCK) += share times the interpolated image (rows, columns, BLOCK)."""
    top, bottom, left, right, down, across = corners_of(image, y, x)
    upper, lower = share - share * down, share * down
    add_scaled(total, image[top, left], upper - upper * across)
    add_scaled(total, image[top, right], upper * across)
    add_scaled(total, image[bottom, left], lower - lower * across)
    add_scaled(total, image[bottom, right], lower * across)


@inlined
def _scatter_point(image, y, x, share, g):
    """Scatter-add share times g (BLOCK) to the pixels around a point, by their weights."""
    top, bottom, left, right, down, across = corners_of(image, y, x)
    upper, lower = share - share * down, share * down
    add_scaled(image[top, left], g, upper - upper * across)
    add_scaled(image[top, right], g, upper * across)
    add_scaled(image[bottom, left], g, lower - lower * across)
    add_scaled(image[bottom, right], g, lower * across)


@kernel(parallel=True)
def _rotated_forward(blocks, rois, scale, points, grid, means, y):
    """y (R, C, bins) = means of points in bins; blocks (N, blocks, rows, columns, BLOCK)."""
    workers, kind, (_, across) = len(means), y.dtype.type, grid
    for worker in prange(workers):
        bins = means[worker]
        for r in range(np.int64(worker), len(y), workers):
            image = image_of(rois[r], len(blocks))
            frame = _rotated_frame(rois[r], scale, grid, points, blocks.shape[2:4])
            count = frame.rows * frame.columns
            for b in range(blocks.shape[1]):
                bins[:] = 0
                for k in range(len(bins) * count if image >= 0 else 0):
                    i, j = k // count // across, k // count % across
                    v, u = _rotated_point(frame, grid, i, j, k % count, kind)
                    if _is_near(blocks[image, b], v, u, 1):
                        _add_point(blocks[image, b], v, u, kind(1) / kind(count), bins[k // count])
                take_out(bins, y[r, b * BLOCK:min((b + 1) * BLOCK, y.shape[1])])


@kernel(parallel=True)
def _rotated_backward(gy, rois, scale, points, grid, means, blocks):
    """Gradients of blocks from gy (R, C, bins)."""
    (workers, shares), kind, (_, across) = (len(means), blocks.shape[1]), gy.dtype.type, grid
    for worker in prange(workers):
        bins = means[worker]
        for job in range(np.int64(worker), len(blocks) * shares, workers):
            n, b = job // shares, job % shares
            block = blocks[n, b]
            block[:] = 0
            for r in range(len(gy)):
                if image_of(rois[r], len(blocks)) != n:
                    continue
                put_in(gy[r, b * BLOCK:min((b + 1) * BLOCK, gy.shape[1])], bins)
                frame = _rotated_frame(rois[r], scale, grid, points, blocks.shape[2:4])
                count = frame.rows * frame.columns
                for k in range(len(bins) * count):
                    i, j = k // count // across, k // count % across
                    v, u = _rotated_point(frame, grid, i, j, k % count, kind)
                    if _is_near(block, v, u, 1):
                        _scatter_point(block, v, u, kind(1) / kind(count), bins[k // count])


@inlined
def _deformable_region(roi, scale):
    """(left, top, width, height) of a region with deformable bins."""
    kind, (_, x0, y0, x1, y1) = roi.dtype.type, roi
    one, half = kind(1), kind(0.5)
    left, top = rounded(x0, half) * scale - half, rounded(y0, half) * scale - half
    right = (rounded(x1, half) + one) * scale - half
    bottom = (rounded(y1, half) + one) * scale - half
    return left, top, max(right - left, kind(0.1)), max(bottom - top, kind(0.1))


class OffsetBins(NamedTuple):
    """Bins and groups of channels along an axis, parts that have offsets, points of a bin; classes
    of offsets, and output channels."""

    bins: int
    group: int
    part: int
    points: int
    classes: int
    channels: int


@inlined
def _offset_bin(image, region, offset, trans_std, config, label, bin_number, corner, weight):
    """Tables of the points of a bin that are in the image; returns their number.

    Of each, corner (points, 4): pixels around it, weight (points, 12): the derivatives of their
    mean by each of these, then those of that by y and by x.
    """
    bins, part, points = config.bins, config.part, config.points
    left, top, width, height = region
    kind, columns = weight.dtype.type, image.shape[1]
    i, j = bin_number // bins, bin_number % bins
    row, column = i * part // bins, j * part // bins
    bin_height, bin_width = height / kind(bins), width / kind(bins)
    y = kind(i) * bin_height + top + offset[2 * label + 1, row, column] * trans_std * height
    x = kind(j) * bin_width + left + offset[2 * label, row, column] * trans_std * width
    bin_height, bin_width, count = bin_height / kind(points), bin_width / kind(points), 0
    for k in range(points * points):
        v, u = y + kind(k // points) * bin_height, x + kind(k % points) * bin_width
        if _is_near(image, v, u, kind(0.5)):
            above, below, before, after, down, across = corners_of(image, v, u)
            at, w, up, back = corner[count], weight[count], kind(1) - down, kind(1) - across
            at[0], at[1] = above * columns + before, above * columns + after
            at[2], at[3] = below * columns + before, below * columns + after
            w[0], w[1], w[2], w[3] = up * back, up * across, down * back, down * across
            one = kind(0 < v < image.shape[0] - 1)
            w[4], w[5], w[6], w[7] = -one * back, -one * across, one * back, one * across
            one = kind(0 < u < columns - 1)
            w[8], w[9], w[10], w[11] = -one * up, one * up, -one * down, one * down
            count += 1
    for k in range(count):
        for c in range(12):
            weight[k, c] /= kind(count)
    return count


@inlined
def _offset_channel(config, c, bin_number):
    """The channel of data of output channel c at a bin."""
    bins, group = config.bins, config.group
    return (c * group + bin_number // bins * group // bins) * group + (
        bin_number % bins * group // bins)


@inlined
def _sum_corners(plane, corner, weight, count, first):
    """The sum over points and corners of weight[:, first + corner] times pixels (flat)."""
    total = plane.dtype.type(0)
    for k in range(count):
        for c in range(4):
            total += weight[k, first + c] * plane[np.uintp(corner[k, c])]
    return total


@kernel(parallel=True)
def _deformable_forward(data, rois, offsets, scale, trans_std, config, corner, weight, out):
    """out (R, C, bins) = means of bins' points; offsets (R, 2 classes, part, part).

    corner and weight: a table for each worker.
    """
    workers, config = len(corner), OffsetBins(*config)
    classes, channels = config.classes, config.channels
    planes = data.reshape(data.shape[0], data.shape[1], -1)
    for worker in prange(workers):
        at, w = corner[worker], weight[worker]
        for r in range(np.int64(worker), len(out), workers):
            image, region = image_of(rois[r], len(data)), _deformable_region(rois[r], scale)
            out[r] = 0
            for k in range(out.shape[2] if image >= 0 else 0):
                known, count = -1, 0
                for c in range(channels):
                    label = c * classes // channels
                    if label != known:
                        known = label
                        count = _offset_bin(data[image, 0], region, offsets[r], trans_std, config,
                                            label, k, at, w)
                    out[r, c, k] = _sum_corners(planes[image, _offset_channel(config, c, k)], at, w,
                                                count, 0)


@kernel(parallel=True)
def _deformable_backward(gy, rois, offsets, scale, trans_std, config, corner, weight, gx):
    """The gradient of data; every output channel has channels of data of its own."""
    workers, config = len(corner), OffsetBins(*config)
    classes, channels = config.classes, config.channels
    planes = gx.reshape(gx.shape[0], gx.shape[1], -1)
    for worker in prange(workers):
        at, w = corner[worker], weight[worker]
        first, last = worker * channels // workers, (worker + 1) * channels // workers
        for r in range(len(gy)):
            image, region = image_of(rois[r], len(gx)), _deformable_region(rois[r], scale)
            for k in range(gy.shape[2] if image >= 0 else 0):
                known, count = -1, 0
                for c in range(np.int64(first), np.int64(last)):
                    label = c * classes // channels
                    if label != known:
                        known = label
                        count = _offset_bin(gx[image, 0], region, offsets[r], trans_std, config,
                                            label, k, at, w)
                    plane = planes[image, _offset_channel(config, c, k)]
                    for p in range(count):
                        for q in range(4):
                            plane[np.uintp(at[p, q])] += gy[r, c, k] * w[p, q]


@kernel(parallel=True)
def _offsets_backward(gy, data, rois, offsets, scale, trans_std, config, corner, weight, gm):
    """gm, the gradient of offsets."""
    workers, config = len(corner), OffsetBins(*config)
    bins, part, classes, channels = config.bins, config.part, config.classes, config.channels
    planes = data.reshape(data.shape[0], data.shape[1], -1)
    for worker in prange(workers):
        at, w = corner[worker], weight[worker]
        for r in range(np.int64(worker), len(gy), workers):
            image, region = image_of(rois[r], len(data)), _deformable_region(rois[r], scale)
            _, _, width, height = region
            gm[r] = 0
            for k in range(gy.shape[2] if image >= 0 else 0):
                row, column = k // bins * part // bins, k % bins * part // bins
                known, count = -1, 0
                for c in range(channels):
                    label = c * classes // channels
                    if label != known:
                        known = label
                        count = _offset_bin(data[image, 0], region, offsets[r], trans_std, config,
                                            label, k, at, w)
                    plane = planes[image, _offset_channel(config, c, k)]
                    share = gy[r, c, k] * trans_std
                    gm[r, 2 * label, row, column] += (
                        share * width * _sum_corners(plane, at, w, count, 8))
                    gm[r, 2 * label + 1, row, column] += (
                        share * height * _sum_corners(plane, at, w, count, 4))


# ---------------------------------------------------------------------------------------------- ops

@dataclass(frozen=True, kw_only=True)
class RROIAlign(RegionOp, name="_contrib_RROIAlign"):
    """ROIAlign over rotated regions: (R, C, PH, PW).

    data (N, C, H, W); rois (R, 6), rows (image, center x, center y, width, height, angle in
    degrees, counterclockwise).  All but the angle are multiplied by `spatial_scale`; regions are at
    least one pixel large.  A bin has `sampling_ratio` points along each axis, or as many as it has
    pixels, rounded up, if that is not positive; those more than a pixel outside of the image count
    as 0.  rois get no gradient.  (MXNet has none at all.)
    """

    pooled_size: Shape
    spatial_scale: float
    sampling_ratio: int = -1

    columns: ClassVar = 6
    points: ClassVar = "sampling_ratio"

    def workspace(self, data: Spec, out: Shape) -> list[Spec]:
        """A region's bins for each worker, and the image in blocks."""
        rows, columns = self.grid()
        return [Spec((num_threads(), rows * columns, BLOCK), data.dtype), blocks_of(data)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (data, rois), (y,), (means, blocks) = ins, outs, call.scratch[:2]
        images = blocks.reshape(*blocks.shape[:2], *data.shape[2:], BLOCK)
        config = self.scale(data.dtype), self.sampling_ratio, self.grid()

        def run() -> None:
            into_blocks(flat(data), blocks)
            _rotated_forward(images, rois, *config, means, flat(y))

        return run

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (gy, rois), gx, (means, blocks) = ins, outs[0], call.scratch[:2]
        fill_zero(outs[1:])
        if gx is not None:
            images = blocks.reshape(*blocks.shape[:2], *gx.shape[2:], BLOCK)
            _rotated_backward(flat(gy), rois, self.scale(gy.dtype), self.sampling_ratio,
                             self.grid(), means, images)
            from_blocks(blocks, flat(gx))


@dataclass(frozen=True, kw_only=True)
class DeformablePSROIPooling(PositionSensitiveOp, name="_contrib_DeformablePSROIPooling"):
    """PSROIPooling with interpolated points, in bins with offsets: (R, output_dim, P, P).

    data (N, output_dim G G, H, W), rois (R, 5), trans (R, 2 K, T, T) unless `no_trans`; P =
    `pooled_size`, G = `group_size`, T = `part_size` or P.  Channels are those of PSROIPooling.
    Bin (i, j) moves by `trans_std` times the region's width times trans[2 k] and its height times
    trans[2 k + 1], at part (floor(i T / P), floor(j T / P)), k = floor(c K / output_dim).  It is
    the mean of `sample_per_part`^2 points, which start at its corner; those outside of the image
    are excluded, a bin without any is 0.  rois get no gradient.
    """

    spatial_scale: float
    output_dim: int
    group_size: int
    pooled_size: int
    part_size: int = 0
    sample_per_part: int = 1
    trans_std: float = 0.0
    no_trans: bool = False

    inputs: ClassVar = ("data", "rois", "trans")
    points: ClassVar = "sample_per_part"

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs[:2] if self.no_trans else self.inputs

    def list_needs(self) -> tuple[str, ...]:
        return ("ograd", *self.list_inputs())

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        ins, outs = super().infer_shape(ins, outs)
        if self.sample_per_part < 0:
            raise ShapeMismatch(f"sample_per_part is {self.sample_per_part}, expected at least 0 "
                                "points along each axis of a bin")
        if not 0 <= self.part_size <= MAX_PARTS:
            raise ShapeMismatch(f"part_size is {self.part_size}, expected 0 to {MAX_PARTS} parts "
                                "along each axis of a region")
        if self.no_trans:
            return ins, outs
        part, rois, trans = self.part_size or self.pooled_size, ins[1], ins[2]
        assert rois is not None
        trans = unify(trans, (rois[0], 0, part, part), "trans and (R, 2 K, T, T)")
        assert trans is not None
        if trans[1] % 2 or trans[1] > 2 * self.output_dim:
            raise ShapeMismatch(f"trans has {trans[1]} channels, expected two for each of at most "
                                f"{self.output_dim} classes")
        return [*ins[:2], trans if ins[2] is not None else None], outs

    def workspace(self, data: Spec, out: Shape) -> list[Spec]:
        """Tables of a bin's points for each worker."""
        workers, points = num_threads(), self.sample_per_part ** 2
        return [Spec((workers, points, 4), INT64), Spec((workers, points, 12), data.dtype)]

    def _arguments(self, ins: Sequence[Any], tables: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments of the kernels after the data: rois, offsets, scale, trans_std, config,
        tables."""
        (data, rois), part = ins[:2], self.part_size or self.pooled_size
        offsets = np.zeros((len(rois), 2, part, part), data.dtype) if self.no_trans else ins[2]
        config = (self.pooled_size, self.group_size, part, self.sample_per_part,
                  offsets.shape[1] // 2, self.output_dim)
        trans_std = 0.0 if self.no_trans else as_float32(self.trans_std)
        return rois, offsets, self.scale(data.dtype), data.dtype.type(trans_std), config, *tables

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_deformable_forward, ins[0], *self._arguments(ins, call.scratch[:2]),
                       flat(outs[0]))

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        gy, data = flat(ins[0]), ins[1]
        arguments = self._arguments(ins[1:], call.scratch[:2])
        fill_zero(outs)
        if outs[0] is not None:
            _deformable_backward(gy, *arguments, outs[0])
        if not self.no_trans and outs[2] is not None:
            _offsets_backward(gy, data, *arguments, outs[2])
