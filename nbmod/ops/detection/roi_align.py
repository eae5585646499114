"""ROIAlign (He et al., Mask R-CNN, 2017): the mean of interpolated points in every bin of a region.

Interpolation and the grid of points are separable, so the weights of a bin are an outer product of
two short tables, made once for each region.  They are the same for all channels: kernels process
BLOCK of them at a time (`channel_blocks`).  Where each bin has channels of its own, or there are so
few regions that they cover a small part of the image, channels are processed one by one.

The forward pass is parallel over regions.  The backward pass is parallel over blocks of channels
and bands of rows: no two tasks write the same element, and sums are in the order of regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import as_float32
from ..jit import inlined, kernel, num_threads, prange
from ..nn.channel_blocks import (
    BLOCK,
    add_scaled,
    blocks_of,
    blocks_pay,
    from_blocks,
    into_blocks,
    put_in,
    take_out,
)
from ..op import Call, Run, Spec
from ..param import Shape
from ..rules import fill_zero
from ..shape import ShapeMismatch
from ..tensor.ordering import INT64
from .roi import RegionOp, flat, image_of, points_along

__all__ = ["ROIAlign"]


# ------------------------------------------------------------------------------------------ weights

@inlined
def _axis_weights(start, step, points, weights, spans):
    """Interpolation weights along an axis: (bins, pixels), and the pixels [lo, hi) of each."""
    bins, size = weights.shape
    kind = weights.dtype.type
    for p in range(bins):
        weights[p, :] = 0
        lo, hi = size, 0
        for k in range(points):
            at = start + kind(p) * step + (kind(k) + kind(0.5)) * step / kind(points)
            if not -1 <= at <= size:    # which NaN is not, from infinite regions
                continue
            at = max(at, kind(0))
            low = min(int(at), size - 1)
            high = min(low + 1, size - 1)
            after = at - kind(low) if high > low else kind(0)
            weights[p, low] += kind(1) - after
            weights[p, high] += after
            lo, hi = min(lo, low), max(hi, high + 1)
        spans[p, 0], spans[p, 1] = lo, max(hi, lo)


@inlined
def _weights(roi, sampling, down, across, spans):
    """Weights along both axes; returns the divisor of sums, 0 where a region is empty."""
    kind, (scale, shift, some), (_, x0, y0, x1, y1) = down.dtype.type, sampling, roi
    left, top, points = x0 * scale - shift, y0 * scale - shift, int(some)
    width, height = x1 * scale - shift - left, y1 * scale - shift - top
    if shift == 0:
        width, height = max(width, kind(1)), max(height, kind(1))
    if width <= 0 or height <= 0:
        return kind(0)
    bin_height, bin_width = height / kind(down.shape[0]), width / kind(across.shape[0])
    rows = points if points > 0 else points_along(bin_height, down.shape[1])
    columns = points if points > 0 else points_along(bin_width, across.shape[1])
    vertical, horizontal = spans
    _axis_weights(top, bin_height, rows, down, vertical)
    _axis_weights(left, bin_width, columns, across, horizontal)
    return kind(max(rows * columns, 1))


# ------------------------------------------------------------------------------- blocks of channels

@inlined
def _mean_bins(block, width, down, across, spans, count, means):
    """means (bins, BLOCK) of one region in block (pixels, BLOCK)."""
    for k in range(len(means)):
        i, j = k // len(across), k % len(across)
        for c in range(BLOCK):
            means[k, c] = 0
        for v in range(spans[0, i, 0], spans[0, i, 1]):
            share = down[i, v] / count
            for u in range(spans[1, j, 0], spans[1, j, 1]):
                add_scaled(means[k], block[np.uintp(v * width + u)], share * across[j, u])


@kernel(parallel=True)
def _blocks_forward(blocks, rois, sampling, down, across, spans, means, y):
    """y (R, C, bins); down, across, spans, means: for each worker."""
    workers, channels = len(down), y.shape[1]
    for worker in prange(workers):
        for r in range(np.int64(worker), len(y), workers):
            image = image_of(rois[r], len(blocks))
            count = y.dtype.type(0)
            if image >= 0:
                count = _weights(rois[r], sampling, down[worker], across[worker], spans[worker])
            if count > 0:
                for b in range(blocks.shape[1]):
                    _mean_bins(blocks[image, b], across.shape[2], down[worker], across[worker],
                               spans[worker], count, means[worker])
                    take_out(means[worker], y[r, b * BLOCK:min((b + 1) * BLOCK, channels)])
            else:
                y[r] = 0


@inlined
def _scatter_bins(means, down, across, spans, count, band, block):
    """Scatter-add the gradient of means (bins, BLOCK) of a region to the rows of a band."""
    width, (first, last) = across.shape[1], band
    for k in range(len(means)):
        i, j = k // len(across), k % len(across)
        for v in range(max(spans[0, i, 0], first), min(spans[0, i, 1], last)):
            share = down[i, v] / count
            for u in range(spans[1, j, 0], spans[1, j, 1]):
                add_scaled(block[np.uintp(v * width + u)], means[k], share * across[j, u])


@kernel(parallel=True)
def _blocks_backward(gy, rois, sampling, down, across, spans, means, blocks):
    """blocks (N, blocks, pixels, BLOCK) from gy (R, C, bins)."""
    (images, shares, _, _), workers, channels = blocks.shape, len(down), gy.shape[1]
    height, width = down.shape[2], across.shape[2]
    bands = min(height, (workers + images * shares - 1) // (images * shares))
    for worker in prange(workers):
        for job in range(np.int64(worker), images * shares * bands, workers):
            n, b, k = job // (shares * bands), job // bands % shares, job % bands
            block, top, bottom = blocks[n, b], k * height // bands, (k + 1) * height // bands
            block[top * width:bottom * width] = 0
            for r in range(len(gy)):
                if image_of(rois[r], images) != n:
                    continue
                count = _weights(rois[r], sampling, down[worker], across[worker], spans[worker])
                if count > 0:
                    put_in(gy[r, b * BLOCK:min((b + 1) * BLOCK, channels)], means[worker])
                    _scatter_bins(means[worker], down[worker], across[worker], spans[worker], count,
                                  (top, bottom), block)


# ------------------------------------------------------------------------------- channel by channel

@inlined
def _channel(c, bins, bin_number, sensitive):
    """The channel of data of output channel c at a bin."""
    return c * bins + bin_number if sensitive else c


@inlined
def _align_region(image, down, across, spans, count, sensitive, y):
    """y (C, PH, PW) of one region."""
    channels, rows, columns = y.shape
    for c in range(channels):
        for i in range(rows):
            for j in range(columns):
                plane = image[_channel(c, rows * columns, i * columns + j, sensitive)]
                left, right = spans[1, j, 0], spans[1, j, 1]
                total = y.dtype.type(0)
                for v in range(spans[0, i, 0], spans[0, i, 1]):
                    line = y.dtype.type(0)
                    for u in range(left, right):
                        line += across[j, u] * plane[v, u]
                    total += down[i, v] * line
                y[c, i, j] = total / count


@kernel(parallel=True)
def _planes_forward(data, rois, sampling, sensitive, down, across, spans, y):
    """sampling: (scale, shift, points); down, across, spans: one table for each worker."""
    workers = down.shape[0]
    for worker in prange(workers):
        for r in range(np.int64(worker), y.shape[0], workers):
            image = image_of(rois[r], data.shape[0])
            count = y.dtype.type(0)
            if image >= 0:
                count = _weights(rois[r], sampling, down[worker], across[worker], spans[worker])
            if count > 0:
                _align_region(data[image], down[worker], across[worker], spans[worker], count,
                              sensitive, y[r])
            else:
                y[r] = 0


@inlined
def _scatter_region(gy, down, across, spans, count, sensitive, span, image):
    """Scatter-add one region's gradient to the image's, for output channels in span."""
    (rows, columns), (first, last) = gy.shape[1:], span
    for c in range(first, last):
        for i in range(rows):
            for j in range(columns):
                plane = image[_channel(c, rows * columns, i * columns + j, sensitive)]
                share = gy[c, i, j] / count
                for v in range(spans[0, i, 0], spans[0, i, 1]):
                    part = share * down[i, v]
                    for u in range(spans[1, j, 0], spans[1, j, 1]):
                        plane[v, u] += part * across[j, u]


@kernel(parallel=True)
def _planes_backward(gy, rois, sampling, sensitive, down, across, spans, gx):
    workers, channels = down.shape[0], gy.shape[1]
    each = (channels + workers - 1) // workers
    for worker in prange(workers):
        first = np.int64(worker) * each
        last = min(first + each, channels)
        for r in range(gy.shape[0]):
            image = image_of(rois[r], gx.shape[0])
            if image < 0:
                continue
            count = _weights(rois[r], sampling, down[worker], across[worker], spans[worker])
            if count > 0:
                _scatter_region(gy[r], down[worker], across[worker], spans[worker], count,
                               sensitive, (first, last), gx[image])


# ---------------------------------------------------------------------------------------------- op

@dataclass(frozen=True, kw_only=True)
class ROIAlign(RegionOp, name="_contrib_ROIAlign"):
    """The mean of interpolated points in every bin of regions: (R, C, PH, PW).

    data (N, C, H, W), rois (R, 5).  Coordinates are multiplied by `spatial_scale`; with `aligned`
    half a pixel is subtracted, otherwise regions are at least one pixel large.  (An aligned one
    without area gives 0.)  A bin has `sample_ratio` points along each axis, evenly spread, or as
    many as it has pixels, rounded up, if that is not positive (and no more than eight times those
    of the image, which ends for regions of any size).  Points more than a pixel outside
    of the image count as 0.  With `position_sensitive` each bin has channels of its own: data has
    C PH PW, and bin (i, j) of channel c is from channel (c PH + i) PW + j.  No gradient for rois.
    """

    pooled_size: Shape
    spatial_scale: float
    sample_ratio: int = -1
    position_sensitive: bool = False
    aligned: bool = False

    points: ClassVar = "sample_ratio"

    def channels(self, channels: int) -> int:
        rows, columns = self.grid()
        if not self.position_sensitive:
            return channels
        if channels % (rows * columns):
            raise ShapeMismatch(f"data has {channels} channels, expected a multiple of "
                                f"{rows} x {columns} bins")
        return channels // (rows * columns)

    def workspace(self, data: Spec, out: Shape) -> list[Spec]:
        """Tables, and a bin's worth of channels and the image in blocks."""
        (rows, columns), workers = self.grid(), num_threads()
        tables = [Spec((workers, rows, data.shape[2]), data.dtype),
                  Spec((workers, columns, data.shape[3]), data.dtype),
                  Spec((workers, 2, max(rows, columns), 2), INT64)]
        if not self._in_blocks(data.shape, out):
            return tables
        return [*tables, Spec((workers, rows * columns, BLOCK), data.dtype), blocks_of(data)]

    def _in_blocks(self, data: Shape, out: Shape) -> bool:
        return not self.position_sensitive and blocks_pay(data, out[0] * out[2] * out[3])

    def _sampling(self, dtype: np.dtype) -> np.ndarray:
        """(scale, shift, points)."""
        return np.array([as_float32(self.spatial_scale), 0.5 * self.aligned, self.sample_ratio],
                        dtype)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        (data, rois), y = ins, outs[0]
        sampling = self._sampling(data.dtype)
        if not self._in_blocks(data.shape, y.shape):
            return partial(_planes_forward, data, rois, sampling, self.position_sensitive,
                           *call.scratch[:3], y)
        *tables, means, blocks = call.scratch[:5]

        def run() -> None:
            into_blocks(flat(data), blocks)
            _blocks_forward(blocks, rois, sampling, *tables, means, flat(y))

        return run

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (gy, rois), gx = ins, outs[0]
        fill_zero(outs[1:])
        if gx is None:
            return
        sampling = self._sampling(gy.dtype)
        if self._in_blocks(gx.shape, gy.shape):
            *tables, means, blocks = call.scratch[:5]
            _blocks_backward(flat(gy), rois, sampling, *tables, means, blocks)
            from_blocks(blocks, flat(gx))
        else:
            gx.fill(0)
            _planes_backward(gy, rois, sampling, self.position_sensitive, *call.scratch[:3], gx)
