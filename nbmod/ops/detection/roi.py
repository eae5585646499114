"""Pooling over regions of interest: rows of `rois` are (image, left, top, right, bottom).

A region is divided into a grid of bins, each reduced to one value: its maximum (ROIPooling), its
mean (PSROIPooling), or, in other files, the mean of interpolated points.

The forward pass is parallel over regions, the backward pass over channels, so that no two tasks
write the same element.  Where bins are the same for all channels the forward pass processes BLOCK
of them at a time (`channel_blocks`), unless there are so few regions that they cover a small part
of the image.  Regions of images that do not exist are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp, as_float32
from ..jit import inlined, kernel, num_threads, prange
from ..nn.channel_blocks import BLOCK, blocks_of, blocks_pay, into_blocks, take_out
from ..op import Call, Run, Spec, Types
from ..param import Shape
from ..rules import fill_zero
from ..shape import ShapeMismatch, Shapes, unify

__all__ = ["PSROIPooling", "ROIPooling", "PositionSensitiveOp", "RegionOp", "flat", "image_of",
           "pair", "points_along", "rounded"]

INT32 = np.dtype(np.int32)
MOST_AXES = 8
"""Lengths of an axis from which on a bin gets no more sampling points.  Networks that diverge
predict regions of any size, and counting their pixels would not end."""
MOST_POINTS = 1024
"""Sampling points of a bin along an axis that may be asked for."""
LOWEST = float(np.finfo(np.float32).min)
"""Maxima of ROIPooling are above this number, in every type; NaN is none."""
CHANNELS_PER_TASK = 32
"""Channels of a task of ROIPooling's backward pass, whose elements share cache lines."""


# ------------------------------------------------------------------------------------------ kernels

@inlined
def rounded(x, half):
    """Round to nearest, halves away from 0 (`half` is 0.5 in the type of x)."""
    return np.floor(x + half) if x > 0 else np.ceil(x - half)


@inlined
def image_of(roi, images):
    """The image that a region is in, -1 if there is none or a coordinate is NaN."""
    for k in range(roi.size):
        if np.isnan(roi[k]):
            return -1
    return int(roi[0]) if -1 < roi[0] < images else -1


@inlined
def points_along(step, size):
    """Sampling points along an axis of `size` pixels in a bin that is `step` wide: as many as it
    has pixels, rounded up, and MOST_AXES times the pixels of the axis at most."""
    most = MOST_AXES * size
    return int(np.ceil(step)) if step < most else most


@inlined
def _bin(start, step, index, size, kind):
    """First pixel and end of bin `index` of bins that are `step` bin_width, within an axis."""
    lower = start + np.floor(step * kind(index))
    upper = start + np.ceil(step * kind(index + 1))
    return int(min(max(0, lower), size)), int(min(max(0, upper), size))  # of NaN: 0


@inlined
def _largest(plane, top, bottom, left, right):
    """(index, value) of the first maximum of a part of a plane, (-1, 0) if that is empty."""
    is_empty = bottom <= top or right <= left
    best, value = -1, plane.dtype.type(0.0 if is_empty else LOWEST)
    for y in range(top, bottom):
        for x in range(left, right):
            if plane[y, x] > value:
                best, value = y * plane.shape[1] + x, plane[y, x]
    return best, value


@inlined
def _bins_of(roi, scale, grid):
    """(top, height of a bin, left, width of a bin) of a region for ROIPooling."""
    kind, (_, x0, y0, x1, y1), (rows, columns) = roi.dtype.type, roi, grid
    one, half = kind(1), kind(0.5)
    left, top = rounded(x0 * scale, half), rounded(y0 * scale, half)
    right, bottom = rounded(x1 * scale, half), rounded(y1 * scale, half)
    return (top, max(bottom - top + one, one) / kind(rows),
            left, max(right - left + one, one) / kind(columns))


@kernel(parallel=True)
def _max_forward(data, rois, scale, y, where):
    """y and where (R, C, PH, PW): maxima of bins, and where in the plane they are."""
    (height, width), (rows, columns), kind = data.shape[2:], y.shape[2:], y.dtype.type
    for r in prange(len(y)):
        image = image_of(rois[r], len(data))
        top, bin_height, left, bin_width = _bins_of(rois[r], scale, (rows, columns))
        if image < 0:
            y[r] = 0
            where[r] = -1
            continue
        for k in range(rows * columns):
            i, j = k // columns, k % columns
            y0, y1 = _bin(top, bin_height, i, height, kind)
            x0, x1 = _bin(left, bin_width, j, width, kind)
            for c in range(y.shape[1]):
                where[r, c, i, j], y[r, c, i, j] = _largest(data[image, c], y0, y1, x0, x1)


@inlined
def _largest_of_block(block, pixels, width, best, index):
    """`_largest` of a part of an image (pixels, BLOCK), and these maxima, 0 if there are none."""
    top, bottom, left, right = pixels
    best[:] = best.dtype.type(0.0 if bottom <= top or right <= left else LOWEST)
    index[:] = -1
    for v in range(top, bottom):
        for p in range(v * width + left, v * width + right):
            pixel, here = block[np.uintp(p)], np.int32(p)
            for c in range(BLOCK):
                larger = pixel[c] > best[c]
                best[c] = pixel[c] if larger else best[c]
                index[c] = here if larger else index[c]


@kernel(parallel=True)
def _max_of_blocks(blocks, rois, scale, shapes, best, index, y, where):
    """`_max_forward` from blocks; y and where (R, C, bins), best and index for each worker."""
    (height, width), (down, across) = shapes
    workers, channels, kind = len(best), y.shape[1], y.dtype.type
    for worker in prange(workers):
        for r in range(np.int64(worker), len(y), workers):
            image = image_of(rois[r], len(blocks))
            top, bin_height, left, bin_width = _bins_of(rois[r], scale, (down, across))
            if image < 0:
                y[r] = 0
                where[r] = -1
                continue
            for b in range(blocks.shape[1]):
                for k in range(down * across):
                    rows = _bin(top, bin_height, k // across, height, kind)
                    columns = _bin(left, bin_width, k % across, width, kind)
                    _largest_of_block(blocks[image, b], (*rows, *columns), width, best[worker, k],
                                      index[worker, k])
                first, last = b * BLOCK, min((b + 1) * BLOCK, channels)
                take_out(best[worker], y[r, first:last])
                take_out(index[worker], where[r, first:last])


@kernel(parallel=True)
def _max_backward(gy, rois, where, gx):
    """Add gradients at the maxima; gx (N, C, pixels), gy and where (R, C, bins)."""
    channels = gx.shape[1]
    for task in prange((channels + CHANNELS_PER_TASK - 1) // CHANNELS_PER_TASK):
        first = np.int64(task) * CHANNELS_PER_TASK
        last = min(first + CHANNELS_PER_TASK, channels)
        gx[:, first:last] = 0
        for r in range(gy.shape[0]):
            image = image_of(rois[r], gx.shape[0])
            for c in range(first, last if image >= 0 else first):
                plane, g, argmax = gx[image, c], gy[r, c], where[r, c]
                for k in range(g.size):
                    if argmax[k] >= 0:
                        plane[np.uintp(argmax[k])] += g[k]


@inlined
def _mean_region(roi, scale, bins):
    """(left, top, width of a bin, height of a bin) of a region for PSROIPooling."""
    kind, (_, x0, y0, x1, y1) = roi.dtype.type, roi
    one, half = kind(1), kind(0.5)
    left, top = rounded(x0, half) * scale, rounded(y0, half) * scale
    right, bottom = (rounded(x1, half) + one) * scale, (rounded(y1, half) + one) * scale
    return (left, top, max(right - left, kind(0.1)) / kind(bins),
            max(bottom - top, kind(0.1)) / kind(bins))


@inlined
def _mean_bin(start, step, index, size, kind):
    lower = np.floor(step * kind(index) + start)
    upper = np.ceil(step * kind(index + 1) + start)
    return int(min(max(0, lower), size)), int(min(max(0, upper), size))  # of NaN: 0


@kernel(parallel=True)
def _mean_forward(data, rois, scale, group, y):
    """y (R, C, P, P): means over bins, each of a channel of its own in a group x group grid."""
    bins, kind = y.shape[2], y.dtype.type
    for r in prange(y.shape[0]):
        image = image_of(rois[r], data.shape[0])
        left, top, bin_width, bin_height = _mean_region(rois[r], scale, bins)
        for c in range(y.shape[1]):
            for k in range(bins * bins):
                i, j = k // bins, k % bins
                y0, y1 = _mean_bin(top, bin_height, i, data.shape[2], kind)
                x0, x1 = _mean_bin(left, bin_width, j, data.shape[3], kind)
                total = kind(0)
                if image >= 0 and y1 > y0 and x1 > x0:
                    channel = (c * group + i * group // bins) * group + j * group // bins
                    for v in range(y0, y1):
                        for u in range(x0, x1):
                            total += data[image, channel, v, u]
                    total /= kind((y1 - y0) * (x1 - x0))
                y[r, c, i, j] = total


@kernel(parallel=True)
def _mean_backward(gy, rois, scale, group, gx):
    bins, kind = gy.shape[2], gx.dtype.type
    for c in prange(gy.shape[1]):
        for r in range(gy.shape[0]):
            image = image_of(rois[r], gx.shape[0])
            left, top, bin_width, bin_height = _mean_region(rois[r], scale, bins)
            for k in range(bins * bins):
                i, j = k // bins, k % bins
                y0, y1 = _mean_bin(top, bin_height, i, gx.shape[2], kind)
                x0, x1 = _mean_bin(left, bin_width, j, gx.shape[3], kind)
                if image >= 0 and y1 > y0 and x1 > x0:
                    channel = (c * group + i * group // bins) * group + j * group // bins
                    share = gy[r, c, i, j] / kind((y1 - y0) * (x1 - x0))
                    for v in range(y0, y1):
                        for u in range(x0, x1):
                            gx[image, channel, v, u] += share


# ---------------------------------------------------------------------------------------------- ops

class RegionOp(FloatOp):
    """Base of ops over data (N, C, H, W) and rois (R, columns), which get no gradient.

    Subclasses define the channels of the output.
    """

    inputs: ClassVar[tuple[str, ...]] = ("data", "rois")
    needs: ClassVar[tuple[str, ...]] = ("ograd", "rois")
    columns: ClassVar = 5
    points: ClassVar = ""
    """The parameter for the sampling points of a bin along each axis, if there is one."""
    spatial_scale: float
    pooled_size: Shape | int

    def grid(self) -> tuple[int, int]:
        """Bins (down, across): `pooled_size`, an integer for both; ShapeMismatch if invalid."""
        size = self.pooled_size
        return pair((size, size) if isinstance(size, int) else size)

    def channels(self, channels: int) -> int:
        """Channels of the output; `channels` of data, 0 if not known."""
        return channels

    def workspace(self, data: Spec, out: Shape) -> list[Spec]:
        """Workspace of forward and backward."""
        return []

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.workspace(ins[0], outs[0].shape)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return self.workspace(outs[0], ins[0].shape)

    def scale(self, dtype: np.dtype) -> Any:
        """`spatial_scale` in the type of the kernels."""
        return dtype.type(as_float32(self.spatial_scale))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data, rois = ins[:2]
        rois = unify(rois, (outs[0][0] if outs[0] else 0, self.columns),
                     f"rois and (R, {self.columns})")
        if data is not None and len(data) != 4:
            raise ShapeMismatch(f"data has shape {data}, expected 4 dimensions: (N, C, H, W)")
        assert rois is not None
        if self.points and getattr(self, self.points) > MOST_POINTS:
            raise ShapeMismatch(f"{self.points} is {getattr(self, self.points)}, expected at most "
                                f"{MOST_POINTS} points along each axis of a bin")
        shape = (rois[0], self.channels(data[1] if data else 0), *self.grid())
        out = unify(shape, outs[0], "computed and wanted output")
        return [data, rois, *ins[2:]], [out] * len(outs)


@dataclass(frozen=True, kw_only=True)
class ROIPooling(RegionOp, name="ROIPooling"):
    """The maximum of every bin of regions; data (N, C, H, W), rois (R, 5) -> (R, C, PH, PW).

    Coordinates are multiplied by `spatial_scale` and rounded; a region includes its right and
    bottom pixels, and is at least one pixel large.  Bins may overlap by a pixel; an empty one gives
    0.  The gradient goes to the first of equal maxima, rois get none.  NaN is no maximum: a bin of
    NaN alone, or of -inf, gives the lowest float32.  The hidden output is where the maxima are.
    """

    pooled_size: Shape
    spatial_scale: float

    outputs: ClassVar = ("output", "where")
    needs: ClassVar = ("ograd", "rois", "where")

    @property
    def num_visible(self) -> int:
        return 1

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if data is not None and len(data) == 4 and data[2] * data[3] > np.iinfo(INT32).max:
            raise ShapeMismatch(f"data has shape {data}, more pixels than 32 bits can count")
        return super().infer_shape(ins, outs)

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        ins, outs = super().infer_type(ins, outs[:1])
        return ins, [*outs, INT32]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        (data, _), y = ins, outs[0]
        hidden = Spec(y.shape, INT32)
        if not self._in_blocks(data.shape, y.shape):
            return [hidden]
        rows, columns = self.grid()
        each = num_threads(), rows * columns, BLOCK
        return [hidden, Spec(each, data.dtype), Spec(each, INT32), blocks_of(data)]

    def _in_blocks(self, data: Shape, out: Shape) -> bool:
        return blocks_pay(data, out[0] * out[2] * out[3])

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (data, rois), y, scale = ins, outs[0], self.scale(ins[0].dtype)
        where = call.scratch[0] if outs[1] is None else outs[1]
        if not self._in_blocks(data.shape, y.shape):
            return partial(_max_forward, data, rois, scale, y, where)
        best, index, blocks = call.scratch[1:4]

        def run() -> None:
            into_blocks(flat(data), blocks)
            _max_of_blocks(blocks, rois, scale, (data.shape[2:], self.grid()), best, index,
                           flat(y), flat(where))

        return run

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        gy, rois, where = ins
        fill_zero(outs[1:])
        if outs[0] is not None:
            _max_backward(flat(gy), rois, flat(where), flat(outs[0]))


def flat(array: np.ndarray) -> Any:
    """(N, C, rows, columns) as (N, C, pixels)."""
    return array.reshape(*array.shape[:2], -1)


def pair(size: Shape) -> tuple[int, int]:
    """`pooled_size` of two axes; ShapeMismatch if invalid."""
    if len(size) != 2 or min(size) < 1:
        raise ShapeMismatch(f"pooled_size is {size}, expected two positive numbers: "
                            "(height, width)")
    return size[0], size[1]


class PositionSensitiveOp(RegionOp):
    """Base of ops with channels of data for each of `group_size`^2 parts of a region."""

    output_dim: int
    group_size: int

    @property
    def group(self) -> int:
        """Parts along an axis."""
        return self.group_size

    def channels(self, channels: int) -> int:
        expected = self.output_dim * self.group ** 2
        if channels not in (0, expected):
            raise ShapeMismatch(f"data has {channels} channels, expected output_dim x "
                                f"group_size^2 = {expected}")
        return self.output_dim


@dataclass(frozen=True, kw_only=True)
class PSROIPooling(PositionSensitiveOp, name="_contrib_PSROIPooling"):
    """The mean of every bin of regions, each over channels of its own: (R, output_dim, P, P).

    data (N, output_dim G G, H, W), rois (R, 5), P = `pooled_size`, G = `group_size` or P.  Bin
    (i, j) of channel c is from channel (c G + floor(i G / P)) G + floor(j G / P).  Coordinates are
    rounded, the right and bottom pixels included, then multiplied by `spatial_scale`; a region is
    at least 0.1 pixels large, an empty bin 0.  No gradient for rois.
    """

    spatial_scale: float
    output_dim: int
    pooled_size: int
    group_size: int = 0

    @property
    def group(self) -> int:
        return self.group_size or self.pooled_size

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(_mean_forward, *ins, self.scale(ins[0].dtype), self.group, outs[0])

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        fill_zero(outs)
        if outs[0] is not None:
            _mean_backward(*ins, self.scale(ins[0].dtype), self.group, outs[0])
