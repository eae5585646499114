"""ROIPooling and PSROIPooling: a thread per bin forward, per pixel of the images backward.

First the spans of pixels of each bin along both axes are computed, and the bounding box of each
region.  Backward gathers: images are divided into tiles, each with a list of the regions whose
boxes intersect it, and a pixel sums the contributions of their bins, in the order of regions and
bins, as on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...detection.roi import INT32, LOWEST, MOST_AXES, PSROIPooling, RegionOp, ROIPooling
from ...dispatch import Workspace, implements
from ...op import Call, Spec
from ..lib.fill import first_gradient
from ..lib.kernel_math import MATH, SIMULATED, maximum, minimum, real_of
from ..runtime.device_memory import Array, Arrays
from ..runtime.launch import CudaKernel, Launch, cache, device_function, each, grid_stride

__all__ = ["BOX", "RoiSpec", "Regions", "axis_function", "channel_function", "gradient",
           "image_function", "rounded", "scale_of", "scratch_rules", "tile_function", "within"]

TILE = (2, 3) if SIMULATED else (8, 16)
"""Rows and columns of pixels that share a list of regions."""

BOX = 5
"""Elements of a box: image (-1: none), first row, end of rows, first column, end of columns."""

floor, ceil = MATH["floor"], MATH["ceil"]


class RoiSpec(NamedTuple):
    """Constants of the kernels."""

    data: tuple[int, ...]
    """(N, C, H, W)."""
    out: tuple[int, ...]
    """(C, PH, PW)."""
    real: type[np.floating]

    @classmethod
    def of(cls, data: Array | Spec, out: Array | Spec) -> RoiSpec:
        return cls(tuple(data.shape), tuple(out.shape[1:]), real_of(data.dtype))

    @property
    def bins(self) -> int:
        """Bins along both axes."""
        return self.out[1] + self.out[2]

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of an image (down, across)."""
        (height, width), (tile_height, tile_width) = self.data[2:], TILE
        return -(-height // tile_height), -(-width // tile_width)


# -- outlines -----------------------------------------------------------------------------------


@cache
def image_function(columns: int, real: type[np.floating]) -> Callable:
    """image_of(rois, r, images): the image of a region, a row of `columns` elements, or -1."""

    @device_function
    def image_of(rois, r, images):
        for k in range(columns):
            number = real(rois[r * columns + k])
            if number != number:
                return np.int32(-1)
        image = real(rois[r * columns])
        return np.int32(image) if real(-1) < image < real(images) else np.int32(-1)
    return image_of


def axis_function(case: RoiSpec) -> Callable:
    """of_axis(k): for bin k of both axes, rows first: axis, index, number of bins and of pixels
    of the axis."""
    (_, rows, columns), (height, width) = case.out, case.data[2:]

    @device_function
    def of_axis(k):
        if k < rows:
            return 0, k, rows, height
        return 1, k - rows, columns, width
    return of_axis


@device_function
def within(at, size):
    """An integer, clamped to [0, size]."""
    if not at > size - size:
        return np.int32(0)
    return np.int32(at if at < size else size)


@device_function
def points_along(step, size):
    """Sampling points of a bin along an axis, as `ops.detection.roi.points_along`."""
    most = MOST_AXES * size
    return np.int32(ceil(step)) if step < most else np.int32(most)


@device_function
def rounded(x, half):
    """The nearest integer; ties are rounded away from 0."""
    return floor(x + half) if x > half - half else ceil(x - half)


@cache
def _largest_span(case: RoiSpec) -> Callable:
    """span(rois, r, k, scale): first pixel and end of a bin of ROIPooling."""
    real, of_axis = case.real, axis_function(case)
    one, half = real(1), real(0.5)

    @device_function
    def span(rois, r, k, scale):
        axis, index, bins, size = of_axis(k)
        first = rounded(real(rois[r * 5 + 2 - axis]) * scale, half)
        last = rounded(real(rois[r * 5 + 4 - axis]) * scale, half)
        step = maximum(last - first + one, one) / real(bins)
        return (within(first + floor(step * real(index)), real(size)),
                within(first + ceil(step * real(index + 1)), real(size)))
    return span


@cache
def _mean_span(case: RoiSpec) -> Callable:
    """span(rois, r, k, scale): first pixel and end of a bin of PSROIPooling."""
    real, of_axis = case.real, axis_function(case)
    one, half, least = real(1), real(0.5), real(0.1)

    @device_function
    def span(rois, r, k, scale):
        axis, index, bins, size = of_axis(k)
        first = rounded(real(rois[r * 5 + 2 - axis]), half) * scale
        end = (rounded(real(rois[r * 5 + 4 - axis]), half) + one) * scale
        step = maximum(end - first, least) / real(bins)
        return (within(floor(step * real(index) + first), real(size)),
                within(ceil(step * real(index + 1) + first), real(size)))
    return span


@cache
def _outline_kernel(case: RoiSpec, span: Callable) -> CudaKernel:
    """Spans (R, bins, 2) and boxes (R, BOX); those of regions in no image are empty."""
    bins, rows, (images, _, height, width) = case.bins, case.out[1], case.data
    image_of = image_function(5, case.real)

    @grid_stride(exact=True)
    def outline_regions(r, rois, scale, spans, boxes):
        image = image_of(rois, r, images)
        top, bottom, left, right = height, 0, width, 0
        for k in range(bins):
            low, high = span(rois, r, k, scale)
            if image < 0 or high < low:
                high = low
            spans[(r * bins + k) * 2] = low
            spans[(r * bins + k) * 2 + 1] = high
            if low < high and k < rows:
                top, bottom = minimum(top, low), maximum(bottom, high)
            elif low < high:
                left, right = minimum(left, low), maximum(right, high)
        boxes[r * BOX] = image
        boxes[r * BOX + 1] = top
        boxes[r * BOX + 2] = bottom
        boxes[r * BOX + 3] = left
        boxes[r * BOX + 4] = right
    return outline_regions


@cache
def _near_kernel(case: RoiSpec) -> CudaKernel:
    """The regions that intersect each tile, in order: entry k of a tile is near[k, tile]."""
    (tile_rows, tile_columns), (tile_height, tile_width) = case.tiles, TILE

    @grid_stride
    def list_regions(tile, boxes, near, counts, regions, tiles):
        image = tile // (tile_columns * tile_rows)
        top, left = tile // tile_columns % tile_rows * tile_height, tile % tile_columns * tile_width
        count = np.int32(0)
        for r in range(regions):
            at = r * BOX
            if (boxes[at] == image and boxes[at + 1] < top + tile_height and boxes[at + 2] > top
                    and boxes[at + 3] < left + tile_width and boxes[at + 4] > left):
                near[count * tiles + tile] = r
                count += 1
        counts[tile] = count
    return list_regions


class Regions(NamedTuple):
    """Spans, boxes and lists of regions, which `_outline_kernel` and `_near_kernel` write."""

    spans: Any
    boxes: Any
    near: Any
    counts: Any

    @classmethod
    def specs(cls, case: RoiSpec, regions: int, backward: bool) -> list[Spec]:
        """Scratch; lists of regions for `backward` only."""
        tiles = case.data[0] * case.tiles[0] * case.tiles[1] if backward else 0
        sizes = cls(regions * case.bins * 2, regions * BOX, regions * tiles, tiles)
        return [Spec((size,), INT32) for size in sizes]

    def outlined(self, case: RoiSpec, span: Callable, rois: Array, scale: np.floating
                 ) -> list[Launch]:
        """Launches that compute spans, boxes and lists of axis-aligned regions."""
        return [*each(_outline_kernel(case, span), len(rois), rois, scale, self.spans, self.boxes),
                *self.listed(case)]

    def listed(self, case: RoiSpec) -> list[Launch]:
        """Launches that list the regions near every tile, once their boxes are known."""
        return each(_near_kernel(case), self.counts.size, self.boxes, self.near, self.counts,
                    self.boxes.size // BOX, self.counts.size)


# -- backward -----------------------------------------------------------------------------------


@cache
def tile_function(case: RoiSpec) -> Callable:
    """tile_of(image, v, u): the index of the tile of a pixel."""
    (tile_rows, tile_columns), (tile_height, tile_width) = case.tiles, TILE

    @device_function
    def tile_of(image, v, u):
        return (image * tile_rows + v // tile_height) * tile_columns + u // tile_width
    return tile_of


@cache
def gradient_kernel(case: RoiSpec, share: Callable) -> CudaKernel:
    """The gradient of data: for every pixel the sum over bins that contain it, in order, of

        share(gy, other, spans, r, channel, i, j, v, u)
    """
    (_, channels, height, width), (_, rows, columns) = case.data, case.out
    bins, real, tile_of = case.bins, case.real, tile_function(case)

    @grid_stride
    def region_back(i, gy, other, spans, near, counts, gx, tiles):
        v, u, plane = i // width % height, i % width, i // (width * height)
        tile, total = tile_of(plane // channels, v, u), real(0)
        for k in range(counts[tile]):
            r = near[k * tiles + tile]
            down, across = r * bins * 2, (r * bins + rows) * 2
            for a in range(rows):
                if spans[down + 2 * a] <= v < spans[down + 2 * a + 1]:
                    for b in range(columns):
                        if spans[across + 2 * b] <= u < spans[across + 2 * b + 1]:
                            total += share(gy, other, spans, r, plane % channels, a, b, v, u)
        gx[i] = total
    return region_back


def gradient(case: RoiSpec, share: Callable, gy: Array, other: Array, gx: Array, regions: Regions
             ) -> list[Launch]:
    """Launch `gradient_kernel` over listed regions."""
    return each(gradient_kernel(case, share), gx.size, gy, other, regions.spans, regions.near,
                regions.counts, gx, regions.counts.size)


def scratch_rules(extra: Callable[[RoiSpec], int] = lambda case: 0) -> tuple[Workspace, Workspace]:
    """The scratch of twins, forward and backward: `Regions`, and `extra` elements per region."""
    def rule(backward: bool, data: Spec, rois: Spec, out: Spec) -> list[Spec]:
        case, regions = RoiSpec.of(data, out), rois.shape[0]
        return [*Regions.specs(case, regions, backward),
                Spec((regions * extra(case),), np.dtype(case.real))]

    return (lambda op, ins, outs: rule(False, ins[0], ins[1], outs[0]),
            lambda op, ins, outs: rule(True, outs[0], ins[1], ins[0]))


def scale_of(op: RegionOp, case: RoiSpec) -> np.floating:
    """The scale of coordinates."""
    return op.scale(np.dtype(case.real))


# -- ROIPooling ---------------------------------------------------------------------------------


@cache
def _largest_kernel(case: RoiSpec, keep: bool) -> CudaKernel:
    (_, channels, height, width), (_, rows, columns) = case.data, case.out
    bins, real, lowest = case.bins, case.real, case.real(LOWEST)

    @grid_stride
    def roi_pool(i, x, spans, boxes, y, where):
        plane, r = i // (rows * columns), i // (rows * columns * channels)
        down = (r * bins + i // columns % rows) * 2
        across = (r * bins + rows + i % columns) * 2
        first = (boxes[r * BOX] * channels + plane % channels) * height * width
        is_empty = spans[down] >= spans[down + 1] or spans[across] >= spans[across + 1]
        best, value = np.int32(-1), real(0) if is_empty else lowest
        for v in range(spans[down], spans[down + 1]):
            for u in range(spans[across], spans[across + 1]):
                pixel = real(x[first + v * width + u])
                if pixel > value:
                    best, value = np.int32(v * width + u), pixel
        y[i] = value
        if keep:
            where[i] = best
    return roi_pool


@cache
def _largest_share(case: RoiSpec) -> Callable:
    """A bin's contribution to a pixel: its gradient, if the pixel is its maximum."""
    (_, channels, _, width), (_, rows, columns), real = case.data, case.out, case.real

    @device_function
    def share(gy, where, spans, r, channel, a, b, v, u):
        at = ((r * channels + channel) * rows + a) * columns + b
        return real(gy[at]) if where[at] == v * width + u else real(0)
    return share


def _pool(op: ROIPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (data, rois), (y, where) = ins, outs
    case, regions = RoiSpec.of(data, y), Regions(*call.scratch[:4])
    keep = where is not None
    return [*regions.outlined(case, _largest_span(case), rois, scale_of(op, case)),
            *each(_largest_kernel(case, keep), y.size, data, regions.spans, regions.boxes, y,
                  where if keep else regions.spans)]


@first_gradient
def _pool_backward(op: ROIPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gy, rois, where), gx = ins, outs[0]
    case, regions = RoiSpec.of(gx, gy), Regions(*call.scratch[:4])
    return [*regions.outlined(case, _largest_span(case), rois, scale_of(op, case)),
            *gradient(case, _largest_share(case), gy, where, gx, regions)]


implements(ROIPooling, "cuda", _pool, _pool_backward, *scratch_rules())


# -- PSROIPooling -------------------------------------------------------------------------------


def channel_function(case: RoiSpec, group: int) -> Callable:
    """channel_of(c, a, b): the channel of data that output channel c reads at a bin."""
    _, rows, columns = case.out

    @device_function
    def channel_of(c, a, b):
        return (c * group + a * group // rows) * group + b * group // columns
    return channel_of


@cache
def _mean_kernel(case: RoiSpec, group: int) -> CudaKernel:
    (_, planes, height, width), (channels, rows, columns) = case.data, case.out
    bins, real, channel_of = case.bins, case.real, channel_function(case, group)

    @grid_stride
    def region_mean(i, x, spans, boxes, y):
        a, b, r = i // columns % rows, i % columns, i // (rows * columns * channels)
        down, across = (r * bins + a) * 2, (r * bins + rows + b) * 2
        channel = channel_of(i // (rows * columns) % channels, a, b)
        first = (boxes[r * BOX] * planes + channel) * height * width
        top, bottom, left, right = (spans[down], spans[down + 1], spans[across], spans[across + 1])
        total = real(0)
        for v in range(top, bottom):
            for u in range(left, right):
                total += real(x[first + v * width + u])
        if top < bottom and left < right:
            total /= real((bottom - top) * (right - left))
        y[i] = total
    return region_mean


@cache
def _mean_share(case: RoiSpec, group: int) -> Callable:
    """A bin's contribution to each of its pixels, in the channel that it reads."""
    (channels, rows, columns), bins, real = case.out, case.bins, case.real
    channel_of = channel_function(case, group)

    @device_function
    def share(gy, other, spans, r, channel, a, b, v, u):
        c = channel // (group * group)
        if channel_of(c, a, b) != channel:
            return real(0)
        down, across = (r * bins + a) * 2, (r * bins + rows + b) * 2
        area = (spans[down + 1] - spans[down]) * (spans[across + 1] - spans[across])
        return real(gy[((r * channels + c) * rows + a) * columns + b]) / real(area)
    return share


def _mean(op: PSROIPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (data, rois), y = ins, outs[0]
    case, regions = RoiSpec.of(data, y), Regions(*call.scratch[:4])
    return [*regions.outlined(case, _mean_span(case), rois, scale_of(op, case)),
            *each(_mean_kernel(case, op.group), y.size, data, regions.spans, regions.boxes, y)]


@first_gradient
def _mean_backward(op: PSROIPooling, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    (gy, rois), gx = ins, outs[0]
    case, regions = RoiSpec.of(gx, gy), Regions(*call.scratch[:4])
    return [*regions.outlined(case, _mean_span(case), rois, scale_of(op, case)),
            *gradient(case, _mean_share(case, op.group), gy, gy, gx, regions)]


implements(PSROIPooling, "cuda", _mean, _mean_backward, *scratch_rules())
