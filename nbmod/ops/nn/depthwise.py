"""Direct depthwise convolution: every channel has a few filters of its own.

Each tap adds a multiple of a shifted row to a row, which stays in the L1 cache over all taps.
Images are (N, C, D H W), outputs (N, F, OD OH OW); filter `f` sees channel `f // (F // C)`.  Taps
that only see padding are skipped.

The gradient of the data is a sum over pairs of tap and position: where rows of taps are longer than
rows of positions, the two are swapped, and the gradient of the output acts as the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np

from ..jit import inlined, kernel, prange
from ..op import Run, Spec
from ..shape import size_of
from ..simd.host import lanes
from .sliding_window import Direction, Geometry, Window, corner, meeting

__all__ = ["applies", "backward_data", "backward_weight", "cost", "data_room", "forward",
           "forward_room", "weight_room"]


@inlined
def _add(value, source, from_step, into, to_step, count):
    """into[i to_step] += value source[i from_step]."""
    if from_step == 1 and to_step == 1:
        for i in range(count):
            into[i] += value * source[i]
    else:
        for i in range(count):
            into[np.uintp(i * to_step)] += value * source[np.uintp(i * from_step)]


@inlined(fastmath=True)
def _dot(a, b, step, count):
    """Sum of a[i] b[i step]."""
    total = a.dtype.type(0)
    if step == 1:
        for i in range(count):
            total += a[i] * b[i]
    else:
        for i in range(count):
            total += a[i] * b[np.uintp(i * step)]
    return total


@kernel(parallel=True)
def _forward(x, w, y, base, g, taps):
    """y = base + w x."""
    filters, size, times = y.shape[1], g[0, 5], y.shape[1] // x.shape[1]
    for plane in prange(y.shape[0] * filters):
        n, f = plane // filters, plane % filters
        image, out = x[n, f // times], y[n, f]
        for i in range(out.size):
            out[i] = base[f]
        for row in range(out.size // size):
            at = corner(g, row)
            for t in taps:
                start, lo, hi = meeting(g, t, at)
                if start >= 0:
                    _add(w[f, t], image[start:], g[0, 8], out[row * size + lo:], 1, hi - lo)


@kernel(parallel=True)
def _backward_data(gy, w, gx, base, g, taps):
    """gx = base + w gy with reversed taps; gy and w (N or 1, F, ...)."""
    channels, size, times = gx.shape[1], g[0, 5], gy.shape[1] // gx.shape[1]
    for plane in prange(gx.shape[0] * channels):
        n, c = plane // channels, plane % channels
        image = gx[n, c]
        for i in range(image.size):
            image[i] = base[c]
        for f in range(c * times, c * times + times):
            grad, weights = gy[n % len(gy), f], w[n % len(w), f]
            for row in range(grad.size // size):
                at = corner(g, row)
                for t in taps:
                    start, lo, hi = meeting(g, t, at)
                    if start >= 0:
                        _add(weights[t], grad[row * size + lo:], 1, image[start:], g[0, 8],
                             hi - lo)


@kernel(parallel=True)
def _backward_weight(x, gy, gw, g, taps):
    """gw = dot products of shifted x and gy."""
    size, step, times = g[0, 5], g[0, 8], gy.shape[1] // x.shape[1]
    for f in prange(gy.shape[1]):
        for t in range(gw.shape[1]):
            gw[f, t] = 0
        for n in range(x.shape[0]):
            image, grad = x[n, f // times], gy[n, f]
            for row in range(grad.size // size):
                at = corner(g, row)
                for t in taps:
                    start, lo, hi = meeting(g, t, at)
                    if start >= 0:
                        gw[f, t] += _dot(grad[row * size + lo:], image[start:], step, hi - lo)


def applies(geo: Geometry) -> bool:
    """Whether the groups have too few filters for a matrix product."""
    return geo.group_channels == 1 and geo.group_filters < 4


CALL, PRODUCT, APART, ROW, TAP = 2500, 1.4, 0.5, 9, 0.8
"""Nanoseconds (see `convolution`) of a call, of a vector multiply-add, of a multiply-add of strided
pixels, to start a row of pixels, to skip a tap that meets no pixel of a row."""


def _window(geo: Geometry, direction: Direction) -> Window:
    """The window, transposed where that gives longer rows."""
    window = geo.window
    return window.transposed if (direction == "data"
                                 and window.kernel[2] > window.out[2]) else window


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf where channels are summed over."""
    if geo.group_channels > 1:
        return inf
    window = _window(geo, direction)
    product = APART if window.stride[2] > 1 else PRODUCT / lanes(dtype)
    rows, lines, seen = (axis.num_pixels for axis in window.axes)
    tested = window.out[0] * window.out[1] * size_of(map(len, window.live))
    each = TAP * tested + rows * lines * (window.kernel[2] * ROW + seen * product)
    return CALL + geo.images * geo.filters * each


def _planes(array: Any) -> Any:
    return array.reshape(array.shape[0], array.shape[1], -1)


def forward_room(geo: Geometry, dtype: np.dtype) -> list[Spec]:
    """No direction needs a workspace."""
    return []


data_room = weight_room = forward_room


def forward(geo: Geometry, x: Any, w: Any, bias: Any, y: Any, room: Sequence[Any]) -> Run:
    """A function that computes y = convolution of x with w, plus bias if given."""
    base = np.zeros(geo.filters, y.dtype) if bias is None else bias
    return partial(_forward, _planes(x), w.reshape(geo.filters, -1), _planes(y), base,
                   geo.window.table(), geo.window.live_taps)


def backward_data(geo: Geometry, gy: Any, w: Any, bias: Any, gx: Any,
                  room: Sequence[Any]) -> Run:
    """A function that computes gx, the gradient of the data, plus bias (for deconvolution)."""
    base = np.zeros(geo.channels, gx.dtype) if bias is None else bias
    window, filters = _window(geo, "data"), w.reshape(1, geo.filters, -1)
    pair = (_planes(gy), filters) if window == geo.window else (filters, _planes(gy))
    return partial(_backward_data, *pair, _planes(gx), base, window.table(), window.live_taps)


def backward_weight(geo: Geometry, x: Any, gy: Any, gw: Any, room: Sequence[Any]) -> Run:
    """A function that computes gw, the gradient of the weight."""
    return partial(_backward_weight, _planes(x), _planes(gy), gw.reshape(geo.filters, -1),
                   geo.window.table(), geo.window.live_taps)
