"""Pooling over regions of interest with NumPy, bin by bin, and its gradients.

Except for ROIPooling, a value is a weighted sum of pixels, whose weights do not depend on the data
(`_Bin`).  So one function computes all of them, and one their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import pi
from typing import Any, NamedTuple

import numpy as np

from ..detection.roi import LOWEST, MOST_AXES, PSROIPooling, RegionOp, ROIPooling, flat
from ..detection.roi_align import ROIAlign
from ..detection.roi_rotated import DeformablePSROIPooling, RROIAlign
from ..dispatch import REFERENCE, implements
from ..op import Call
from ..rules import fill_zero

__all__: list[str] = []


class _Bin(NamedTuple):
    """A bin of a region, for some channels."""

    place: tuple[Any, ...]
    """Index of the output: region, channels, row, column."""
    image: int
    channels: Any
    """Channels of the data, one for each of the output."""
    pixels: Any
    """Distinct positions in a plane."""
    weights: Any

    @property
    def part(self) -> tuple[Any, ...]:
        """Index of the pixels and channels that it reads of an image (pixels, channels)."""
        return np.ix_(self.pixels, self.channels)


Bins = Iterator[_Bin]


def _images(rois: np.ndarray, count: int) -> list[tuple[int, int]]:
    """(region, image) of the regions of `count` images; NaN is none."""
    index = rois[:, 0]
    valid = (index > -1) & (index < count) & ~np.isnan(rois).any(axis=1)
    return [(region, int(index[region])) for region in np.flatnonzero(valid).tolist()]


def _rounded(x: np.ndarray) -> Any:
    """Round to nearest, halves away from 0."""
    half = x.dtype.type(0.5)
    return np.where(x > 0, np.floor(x + half), np.ceil(x - half))


def _spans(lower: np.ndarray, upper: np.ndarray, size: int) -> Any:
    """Pixels [lower, upper) of bins (R, bins) within an axis: (R, bins, 2); of NaN: 0."""
    return np.nan_to_num(np.clip(np.stack([lower, upper], axis=-1), 0, size)).astype(np.int64)


def _box(rows: np.ndarray, columns: np.ndarray, width: int) -> Any:
    """Positions of the pixels in some rows and columns of a plane."""
    return (rows[:, None] * width + columns).reshape(-1)


# -- maxima ----------------------------------------------------------------------------------------

def _roi_pooling(op: ROIPooling, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    (data, rois), (y, where) = ins, outs
    height, width = data.shape[2:]
    low, high = np.split(_rounded(rois[:, 1:5] * op.scale(rois.dtype)), 2, axis=1)
    rows, columns = (
        _max_spans(low[:, axis, None], high[:, axis, None], bins, size)
        for axis, bins, size in ((1, op.grid()[0], height), (0, op.grid()[1], width)))
    y.fill(0)
    if where is not None:
        where.fill(-1)
    for r, image in _images(rois, len(data)):
        for i, j in np.ndindex(*op.grid()):
            pixels = _box(np.arange(*rows[r, i]), np.arange(*columns[r, j]), width)
            if pixels.size:
                values = np.fmax(flat(data)[image][:, pixels], LOWEST)     # of NaN: LOWEST
                y[r, :, i, j] = values.max(axis=1)
                if where is not None:
                    best = pixels[values.argmax(axis=1)]
                    where[r, :, i, j] = np.where(values.max(axis=1) > LOWEST, best, -1)


def _max_spans(low: np.ndarray, high: np.ndarray, bins: int, size: int) -> Any:
    """`_spans` of bins of regions whose first and last pixels are `low` and `high` (R, 1)."""
    step = np.maximum(high - low + 1, 1) / low.dtype.type(bins)
    index = np.arange(bins, dtype=low.dtype)
    return _spans(low + np.floor(step * index), low + np.ceil(step * (index + 1)), size)


def roi_pooling_gradient(op: ROIPooling, ins: Sequence[Any], outs: Sequence[Any], call: Call
                         ) -> None:
    """The gradient of ROIPooling: to the pixels that are the maxima."""
    gy, rois, where = flat(ins[0]), ins[1], flat(ins[2])
    fill_zero(outs)
    if outs[0] is not None:
        gx = flat(outs[0])
        for r, image in _images(rois, len(gx)):
            channel, k = np.nonzero(where[r] >= 0)
            np.add.at(gx[image], (channel, where[r, channel, k]), gy[r, channel, k])


# -- weighted sums ---------------------------------------------------------------------------------

def _mean_pooling(op: RegionOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
    data, rois = ins
    _sum(_BINS[type(op)](op, rois, data.shape), data, outs[0])


def _mean_pooling_gradient(op: RegionOp, ins: Sequence[Any], outs: Sequence[Any], call: Call
                          ) -> None:
    gy, rois = ins
    fill_zero(outs[1:])
    if outs[0] is not None:
        _scatter(_BINS[type(op)](op, rois, outs[0].shape), gy, outs[0])


def _sum(bins: Bins, data: np.ndarray, y: np.ndarray) -> None:
    """y (R, C, PH, PW): the weighted sums of bins."""
    pixels = _channels_last(data)
    y.fill(0)
    for each in bins:
        y[each.place] = each.weights @ pixels[each.image][each.part]


def _scatter(bins: Bins, gy: np.ndarray, gx: np.ndarray) -> None:
    """gx (N, C, H, W): the gradient of `_sum`."""
    pixels = _channels_last(np.zeros_like(gx))
    for each in bins:
        pixels[each.image][each.part] += np.outer(each.weights, gy[each.place])
    flat(gx)[...] = np.moveaxis(pixels, 1, 2)


def _channels_last(data: np.ndarray) -> Any:
    """(N, C, H, W) as (N, pixels, C): what a bin reads of a pixel is close together."""
    return np.ascontiguousarray(np.moveaxis(flat(data), 1, 2))


def _psroi_bins(op: PSROIPooling, rois: np.ndarray, shape: Sequence[int]) -> Bins:
    """Means of whole pixels."""
    scale, bins, (height, width) = op.scale(rois.dtype), op.pooled_size, shape[2:]
    ends = _rounded(rois[:, 1:5])
    low, high = ends[:, :2] * scale, (ends[:, 2:] + 1) * scale
    step = np.maximum(high - low, rois.dtype.type(0.1)) / rois.dtype.type(bins)
    index = np.arange(bins, dtype=rois.dtype)
    columns, rows = (
        _spans(np.floor(step[:, axis, None] * index + low[:, axis, None]),
               np.ceil(step[:, axis, None] * (index + 1) + low[:, axis, None]), size)
        for axis, size in ((0, width), (1, height)))
    for r, image in _images(rois, shape[0]):
        for i, j in np.ndindex(bins, bins):
            pixels = _box(np.arange(*rows[r, i]), np.arange(*columns[r, j]), width)
            weights = np.full(pixels.size, 1 / max(pixels.size, 1), rois.dtype)
            channels = _channels(op, np.arange(op.output_dim), i, j)
            yield _Bin((r, slice(None), i, j), image, channels, pixels, weights)


def _channels(op: PSROIPooling | DeformablePSROIPooling, channels: np.ndarray, row: int, column: int
             ) -> Any:
    """The channels of data of some channels of the output at a bin."""
    group, bins = op.group, op.pooled_size
    return (channels * group + row * group // bins) * group + column * group // bins


def _align_bins(op: ROIAlign, rois: np.ndarray, shape: Sequence[int]) -> Bins:
    """Means of points, whose weights are products of those along both axes."""
    grid, size, kind = op.grid(), shape[2:], rois.dtype.type
    ends = rois[:, 1:5] * op.scale(rois.dtype) - kind(0.5 * op.aligned)
    start, extent = ends[:, 1::-1], ends[:, :1:-1] - ends[:, 1::-1]     # (y, x)
    if not op.aligned:
        extent = np.maximum(extent, 1)
    step = extent / np.array(grid, rois.dtype)
    points = _points(op.sample_ratio, step, size)
    for r, image in _images(rois, shape[0]):
        if (extent[r] <= 0).any():
            continue
        rows, columns = ([_along(start[r, axis], step[r, axis], p, points[r, axis], size[axis])
                          for p in range(grid[axis])] for axis in range(2))
        for i, j in np.ndindex(*grid):
            channels = np.arange(shape[1])
            if op.position_sensitive:
                channels = channels[i * grid[1] + j::grid[0] * grid[1]]
            yield _Bin((r, slice(None), i, j), image, channels,
                       _box(rows[i][0], columns[j][0], size[1]),
                       (rows[i][1][:, None] * columns[j][1]).reshape(-1))


def _points(count: int, step: np.ndarray, size: Sequence[int]) -> Any:
    """Points of bins along both axes (R, 2): `count`, or as many as a bin has pixels."""
    if count > 0:
        return np.full(step.shape, count)
    most = MOST_AXES * np.array(size)
    return np.where(step < most, np.ceil(step), most).astype(np.int64)


def _along(start: np.floating, step: np.floating, index: int, points: int, size: int) -> list[Any]:
    """Pixels along an axis that the points of a bin are between, and their weights."""
    kind = step.dtype.type
    at = start + kind(index) * step + (
        np.arange(points, dtype=kind) + kind(0.5)) * step / kind(points)
    low, high, after = _between(at[(at >= -1) & (at <= size)], size)
    return _merged(np.concatenate([low, high]), np.concatenate([1 - after, after]) / kind(points))


def _between(at: np.ndarray, size: int) -> tuple[Any, Any, Any]:
    """The pixels before and after points along an axis, and the distances from the former."""
    at = np.maximum(at, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    return low, high, np.where(high > low, at - low.astype(at.dtype), 0)


def _merged(pixels: np.ndarray, *weights: np.ndarray) -> list[Any]:
    """Distinct pixels, and the sums of each of their weights."""
    distinct, which = np.unique(pixels.reshape(-1), return_inverse=True)
    return [distinct, *(np.bincount(which, each.reshape(-1), len(distinct)).astype(each.dtype)
                        for each in weights)]


def _corners(v: np.ndarray, u: np.ndarray, height: int, width: int) -> tuple[Any, Any, Any]:
    """Pixels (4, n) around points (n,), and the distances of these from the upper left ones."""
    top, bottom, down = _between(v, height)
    left, right, across = _between(u, width)
    return np.stack([top * width + left, top * width + right, bottom * width + left,
                     bottom * width + right]), down, across


def _weights(down: np.ndarray, across: np.ndarray) -> Any:
    """Interpolation weights (4, n) of the pixels around points."""
    return np.stack([(1 - down) * (1 - across), (1 - down) * across, down * (1 - across),
                     down * across])


def _rotated_bins(op: RROIAlign, rois: np.ndarray, shape: Sequence[int]) -> Bins:
    """Means of points in rotated bins."""
    grid, (height, width), kind = op.grid(), shape[2:], rois.dtype.type
    scale, angle = op.scale(rois.dtype), rois[:, 5] * kind(pi / 180)
    cosine, sine, center = np.cos(angle), np.sin(angle), rois[:, 1:3] * scale
    step = np.maximum(rois[:, 4:2:-1] * scale, 1) / np.array(grid, rois.dtype)   # (y, x)
    points = _points(op.sampling_ratio, step, (height, width))
    for r, image in _images(rois, shape[0]):
        across, down = np.meshgrid(*(
            (np.arange(count, dtype=rois.dtype) + kind(0.5)) / kind(count)
            for count in points[r, ::-1]))
        for i, j in np.ndindex(*grid):
            row, column = ((kind(index) - kind(bins) / 2 + part.reshape(-1)) * each for
                           index, bins, part, each in zip((i, j), grid, (down, across), step[r],
                                                          strict=True))
            v = row * cosine[r] - column * sine[r] + center[r, 1]
            u = column * cosine[r] + row * sine[r] + center[r, 0]
            near = (v >= -1) & (v <= height) & (u >= -1) & (u <= width)
            pixels, *distances = _corners(v[near], u[near], height, width)
            yield _Bin((r, slice(None), i, j), image, np.arange(shape[1]),
                       *_merged(pixels, _weights(*distances) / kind(row.size)))


_BINS: dict[type[RegionOp], Callable[[Any, Any, Sequence[int]], Bins]] = {
    PSROIPooling: _psroi_bins, ROIAlign: _align_bins, RROIAlign: _rotated_bins}


# -- bins that move --------------------------------------------------------------------------------

class _Moved(NamedTuple):
    """A bin of a region, for the channels of a class."""

    each: _Bin
    offset: tuple[int, int, int, int]
    """Index of its offset along x in `trans`; that along y is in the next channel."""
    reach: Any
    """Pixels that it moves per unit of its offsets: along x and y."""
    slopes: Any
    """Derivatives of the weights by the position of the bin, along x and y."""


def _deformable_psroi_pooling(op: DeformablePSROIPooling, ins: Sequence[Any], outs: Sequence[Any],
                              call: Call) -> None:
    _sum((moved.each for moved in _moved_bins(op, ins)), ins[0], outs[0])


def _deformable_psroi_pooling_gradient(op: DeformablePSROIPooling, ins: Sequence[Any],
                                       outs: Sequence[Any], call: Call) -> None:
    gy, data = ins[:2]
    fill_zero(outs[1:])
    bins = [*_moved_bins(op, ins[1:])]
    if outs[0] is not None:
        _scatter((moved.each for moved in bins), gy, outs[0])
    if not op.no_trans and outs[2] is not None:
        pixels = _channels_last(data)
        for each, (r, channel, row, column), reach, slopes in bins:
            outs[2][r, channel:channel + 2, row, column] += reach * (
                slopes @ pixels[each.image][each.part] @ gy[each.place])


def _moved_bins(op: DeformablePSROIPooling, ins: Sequence[Any]) -> Iterator[_Moved]:
    data, kind, (height, width) = ins[0], ins[0].dtype.type, ins[0].shape[2:]
    rois, trans, scale, trans_std, (bins, _, part, points, classes, channels) = (
        op._arguments(ins, ()))
    ends = _rounded(rois[:, 1:5])
    start, end = ends[:, :2] * scale - kind(0.5), (ends[:, 2:] + 1) * scale - kind(0.5)
    extent = np.maximum(end - start, kind(0.1))     # (x, y)
    label = np.arange(channels) * classes // channels
    for r, image in _images(rois, len(data)):
        step, reach = extent[r] / kind(bins), trans_std * extent[r]
        for i, j, k in np.ndindex(bins, bins, classes):
            offset = r, 2 * k, i * part // bins, j * part // bins
            moves = trans[r, 2 * k:2 * k + 2, offset[2], offset[3]]
            at = np.array([j, i], kind) * step + start[r] + moves * trans_std * extent[r]
            u, v = at[:, None] + np.arange(points, dtype=kind) * (step / kind(points))[:, None]
            v, u = (axis.reshape(-1) for axis in np.meshgrid(v, u, indexing="ij"))
            pixels, weights, slopes = _point_weights(v, u, height, width)
            own = np.flatnonzero(label == k)
            yield _Moved(_Bin((r, own, i, j), image, _channels(op, own, i, j), pixels, weights),
                         offset, reach, slopes)


def _point_weights(v: np.ndarray, u: np.ndarray, height: int, width: int) -> tuple[Any, Any, Any]:
    """Pixels (n,) of the mean of those points that are in the image, their weights (n,), and the
    derivatives of these by x and y (2, n)."""
    half = v.dtype.type(0.5)
    near = (v >= -half) & (v <= height - half) & (u >= -half) & (u <= width - half)
    v, u = v[near], u[near]
    pixels, down, across = _corners(v, u, height, width)
    by_x = np.stack([down - 1, 1 - down, -down, down]) * ((u > 0) & (u < width - 1))
    by_y = np.stack([across - 1, -across, 1 - across, across]) * ((v > 0) & (v < height - 1))
    terms = (each / max(v.size, 1) for each in (_weights(down, across), by_x, by_y))
    distinct, weights, *slopes = _merged(pixels, *terms)
    return distinct, weights, np.array(slopes)


implements(DeformablePSROIPooling, REFERENCE, _deformable_psroi_pooling,
           _deformable_psroi_pooling_gradient)
implements((PSROIPooling, ROIAlign, RROIAlign), REFERENCE, _mean_pooling, _mean_pooling_gradient)
implements(ROIPooling, REFERENCE, _roi_pooling, roi_pooling_gradient)
