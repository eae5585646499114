"""Pooling in the blocked layout: for every window, all lanes of a block at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..jit import inlined, kernel, prange
from ..nn.pooling import AVG, MAX, Pooling
from ..nn.sliding_window import Window
from ..op import Call, Op, Run, all_of
from ..param import Shape
from ..simd.pooling_window import (
    LOWEST,
    WindowSteps,
    max_window,
    max_window_grad,
    mean_window,
    mean_window_grad,
)
from .layout import LANES, BlockedLayout, flat, zero_halo
from .ops import BlockedOp

__all__ = ["BlockedPooling"]


class PoolingGeometry(NamedTuple):
    """Rows and columns of the image and of the output; size, stride and padding of windows; whether
    they give maxima."""

    height: int
    width: int
    rows: int
    columns: int
    high: int
    wide: int
    down: int
    right: int
    top: int
    left: int
    is_max: int


@inlined
def _pixels(at, stride, pad, kernel, size):
    """The pixels [first, last) of window `at` along an axis."""
    first = at * stride - pad
    return max(first, 0), min(first + kernel, size)


@inlined
def _equal_windows(at, count, stride, pad, kernel, size):
    """How many windows from `at` of `count` on have the same number of pixels along an axis: all
    inner ones."""
    whole = at * stride >= pad and at * stride - pad + kernel <= size
    return min((size + pad - kernel) // stride + 1, count) - at if whole else 1


@kernel(parallel=True)
def _forward(source, target, g, sizes, halos, planes):
    """Windows of the planes of source, flat, into those of target; `planes`: how many there are, in
    all and of an image; strides of planes and of images in both."""
    g, (in_halo, out_halo) = PoolingGeometry(*g), halos
    in_row, out_row = (g.width + 2 * in_halo) * LANES, (g.columns + 2 * out_halo) * LANES
    count, blocks, in_plane, in_image, out_plane, out_image = planes
    for job in prange(count):
        n, b = np.int64(job) // blocks, np.int64(job) % blocks
        x, y = n * in_image + b * in_plane, n * out_image + b * out_plane
        for i in range(g.rows):
            (y0, y1), j = _pixels(i, g.down, g.top, g.high, g.height), 0
            while j < g.columns:
                x0, x1 = _pixels(j, g.right, g.left, g.wide, g.width)
                more = _equal_windows(j, g.columns, g.right, g.left, g.wide, g.width)
                at = x + (in_halo + y0) * in_row + (in_halo + x0) * LANES
                out = y + (out_halo + i) * out_row + (out_halo + j) * LANES
                steps = WindowSteps(y1 - y0, x1 - x0, in_row, more, g.right * LANES)
                if y1 <= y0 or x1 <= x0:
                    target[out:out + more * LANES] = LOWEST if g.is_max else 0
                elif g.is_max:
                    max_window(source, target, (at, out), steps)
                else:
                    mean_window(source, target, sizes, (at, out, i * g.columns + j), steps)
                j += more


@kernel(parallel=True)
def _backward(gy, x, gx, g, sizes, halos):
    """gx from gy; x is read for maxima only."""
    g, (in_halo, out_halo) = PoolingGeometry(*g), halos
    count, in_row, out_row = gx.shape[0], gx.shape[2] * LANES, gy.shape[2] * LANES
    in_plane, out_plane = gx.shape[1] * in_row, gy.shape[1] * out_row
    grads, source, into = gy.reshape(-1), x.reshape(-1), gx.reshape(-1)
    for job in prange(count):
        k, clear = np.int64(job), 0
        for i in range(g.rows):
            (y0, y1), j = _pixels(i, g.down, g.top, g.high, g.height), 0
            for row in range(clear, in_halo + y1):  # just before they are added to
                gx[k, row] = 0
            clear = max(clear, in_halo + y1)
            while j < g.columns:
                x0, x1 = _pixels(j, g.right, g.left, g.wide, g.width)
                more = _equal_windows(j, g.columns, g.right, g.left, g.wide, g.width)
                at = k * in_plane + (in_halo + y0) * in_row + (in_halo + x0) * LANES
                grad = k * out_plane + (out_halo + i) * out_row + (out_halo + j) * LANES
                steps = WindowSteps(y1 - y0, x1 - x0, in_row, more, g.right * LANES)
                if y1 > y0 and x1 > x0:
                    if g.is_max:
                        max_window_grad(source, grads, into, (at, grad, at), steps)
                    else:
                        mean_window_grad(grads, into, sizes, (grad, at, i * g.columns + j), steps)
                j += more
        gx[k, clear:] = 0


@dataclass(frozen=True)
class BlockedPooling(BlockedOp):
    """The pooling `pool`, maximum, mean or sum, of blocked images.

    data has `channels` channels and the halo `halo`, the output `out_halo`.
    """

    pool: Pooling
    channels: int
    halo: int
    out_halo: int

    name: ClassVar = "_blocked_pooling"
    needs: ClassVar[tuple[str, ...]] = ("ograd", "data")

    def list_needs(self) -> tuple[str, ...]:
        return self.needs if self.pool.mode == MAX else self.needs[:1]

    def layouts(self, data: Shape) -> tuple[Window, BlockedLayout, BlockedLayout]:
        """The window, and the layouts of data and of the output."""
        x = BlockedLayout.of(data, self.channels, self.halo)
        window = self.pool.window((x.height, x.width))
        return window, x, BlockedLayout(self.channels, *window.out[1:], self.out_halo)

    def out_shape(self, data: Shape) -> Shape:
        return self.layouts(data)[2].shape(data[0])

    def strided(self) -> tuple[str, ...]:
        return ("data", "output")

    def tables(self, window: Window) -> tuple[tuple[int, ...], np.ndarray]:
        """The `PoolingGeometry`, and the divisor of each window."""
        axes = (window.image, window.out, window.kernel, window.stride, window.pad)
        sizes = [size for axis in axes for size in axis[1:]]
        return (*sizes, int(self.pool.mode == MAX)), self.pool.sizes(window).astype(np.float32)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        window, a, b = self.layouts(ins[0].shape)
        a, b = a.with_stride_of(ins[0]), b.with_stride_of(outs[0])
        planes = (len(ins[0]) * a.blocks, a.blocks, a.plane, a.image, b.plane, b.image)
        return all_of([partial(_forward, flat(ins[0]), flat(outs[0]), *self.tables(window),
                               (self.halo, self.out_halo), planes),
                       partial(zero_halo, outs[0], self.out_halo)])

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        window, _, _ = self.layouts(outs[0].shape)
        gy, gx, *data = (array.reshape(-1, *array.shape[2:])
                         for array in (ins[0], outs[0], *ins[1:]))
        return partial(_backward, gy, data[0] if data else gx, gx, *self.tables(window),
                       (self.halo, self.out_halo))


def supports_blocks(pool: Op) -> bool:
    """Whether a pooling has a blocked implementation."""
    return (type(pool) is Pooling and not pool.channels_last
            and (pool.mode in (MAX, AVG) or pool.pool_type == "sum"))
