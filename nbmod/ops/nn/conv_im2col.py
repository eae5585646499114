"""Convolution by explicit im2col and GEMM (Chellapilla et al. 2006), for few, large windows.

Each row of the im2col matrix holds the pixels under the window at one position of one image:

    output             y    = rows w^T         im2col, multiply, transpose
    gradient of data   rows = gy w             transpose, multiply, col2im
    gradient of weight gw   = gy^T rows        both, multiply

The pixels of a window row are contiguous in the image and in the matrix, so they are copied
together however few positions there are.  Taps that only see padding have no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import inf
from typing import Any

import numpy as np

from ..jit import inlined, kernel, prange
from ..linalg.gemm import gemm_workspace, prepare_gemm
from ..linalg.gemm_small import gemm_cycles
from ..op import Run, Spec, all_of
from ..simd.host import lanes
from .sliding_window import Direction, Geometry

__all__ = ["cost", "prepare", "workspace"]

MOST = 1 << 22
"""Elements of the matrix at most."""
TILE = 16
"""Rows and columns that are transposed together."""


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _within(start, step, count, size):
    """Taps [lo, hi) of `count` inside an axis of `size` pixels, where tap 0 is at `start`."""
    lo = 0 if start >= 0 else (-start + step - 1) // step
    hi = 0 if start >= size else (size - 1 - start) // step + 1
    return min(lo, count), min(hi, count)


@inlined
def _copy(image, pixel, step, cols, column, count, inward):
    """Copy pixels a `step` apart to contiguous columns; without `inward`, add these to those."""
    source, target = np.uintp(pixel), np.uintp(column)
    if inward and step == 1:
        for i in range(count):
            cols[target + np.uintp(i)] = image[source + np.uintp(i)]
    elif inward:
        for i in range(count):
            cols[target + np.uintp(i)] = image[source + np.uintp(i * step)]
    elif step == 1:
        for i in range(count):
            image[source + np.uintp(i)] += cols[target + np.uintp(i)]
    else:
        for i in range(count):
            image[source + np.uintp(i * step)] += cols[target + np.uintp(i)]


@inlined
def _row(x, at, cols, to, deep, position, g, inward):
    """Copy the window at a position of `deep` planes, from x[at] on, to the matrix row at cols[to];
    without `inward`, add that row to the planes."""
    area = g[0, 0] * g[0, 1] * g[0, 2]
    z0, y0, x0 = (position[0] * g[2, 0] + g[3, 0], position[1] * g[2, 1] + g[3, 1],
                  position[2] * g[2, 2] + g[3, 2])
    z1, z2 = _within(z0, g[4, 0], g[1, 0], g[0, 0])
    y1, y2 = _within(y0, g[4, 1], g[1, 1], g[0, 1])
    x1, x2 = _within(x0, g[4, 2], g[1, 2], g[0, 2])
    for c in range(deep):
        for z in range(z1, z2):
            for y in range(y1, y2):
                pixel = ((z0 + z * g[4, 0]) * g[0, 1] + y0 + y * g[4, 1]) * g[0, 2]
                pixel += at + c * area + x0 + x1 * g[4, 2]
                column = to + ((c * g[1, 0] + z) * g[1, 1] + y) * g[1, 2] + x1
                _copy(x, pixel, g[4, 2], cols, column, x2 - x1, inward)


@inlined
def _of_image(x, cols, images, sizes, g, job, inward):
    """Process the rows of one image in one group."""
    groups, deep, depth, positions = sizes
    n, group = job // groups, job % groups
    at, first = job * deep * g[0, 0] * g[0, 1] * g[0, 2], (group * images + n) * positions
    for p in range(positions):
        position = (p // (g[5, 1] * g[5, 2]), p // g[5, 2] % g[5, 1], p % g[5, 2])
        to = (first + p) * depth
        if inward:
            for i in range(to, to + depth):
                cols[np.uintp(i)] = 0
        _row(x, at, cols, to, deep, position, g, inward)


@kernel(parallel=True)
def _unroll(x, cols, images, sizes, g):
    """im2col: the matrices cols (groups, N P, channels taps) of images x; all flat.

    sizes  groups, channels per group, columns, positions
    g      per axis: image, taps, stride, -pad, dilation, positions
    """
    for job in prange(images * sizes[0]):
        _of_image(x, cols, images, sizes, g, np.int64(job), True)


@kernel(parallel=True)
def _roll(cols, base, x, images, sizes, g):
    """col2im: x = base + the sum of the rows of its windows."""
    area = g[0, 0] * g[0, 1] * g[0, 2]
    for job in prange(images * sizes[0]):
        for c in range(sizes[1]):
            value, start = base[np.int64(job) % sizes[0] * sizes[1] + c], job * sizes[1] + c
            for i in range(np.int64(start) * area, np.int64(start + 1) * area):
                x[np.uintp(i)] = value
        _of_image(x, cols, images, sizes, g, np.int64(job), False)


@kernel(parallel=True)
def _turn(y, base, out, inward):
    """Transpose y (N, groups, F, P) to out (groups, N, P, F), or back, adding base (groups F)."""
    images, groups, filters, positions = y.shape
    for job in prange(images * groups):
        n, group = np.int64(job) // groups, np.int64(job) % groups
        # By tiles: all columns of a wide matrix would not fit into the L1 cache.
        for tile in range(-(-filters // TILE) * -(-positions // TILE)):
            f0 = tile // -(-positions // TILE) * TILE
            p0 = tile % -(-positions // TILE) * TILE
            for f in range(f0, min(f0 + TILE, filters)):
                for p in range(p0, min(p0 + TILE, positions)):
                    if inward:
                        out[group, n, p, f] = y[n, group, f, p]
                    else:
                        y[n, group, f, p] = out[group, n, p, f] + base[group * filters + f]


# -------------------------------------------------------------------------------------------- sizes

@lru_cache(maxsize=256)
def _live(geo: Geometry) -> tuple[Any, bool]:
    """The window without taps that only see padding, and whether it had any."""
    window = geo.window.trimmed
    return window, window.kernel != geo.window.kernel


def _columns(geo: Geometry) -> int:
    return geo.group_channels * _live(geo)[0].taps


def _matrices(geo: Geometry, direction: Direction) -> tuple[int, int, int, str]:
    """M, K and N of a group's product, and the storage order of its operands."""
    rows, filters, columns = geo.positions, geo.group_filters, _columns(geo)
    return {"forward": (rows, columns, filters, "CF"), "data": (rows, filters, columns, "CC"),
            "weight": (filters, rows, columns, "FC")}[direction]


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """The matrices, the transposed output, the weight of live taps, and the GEMM workspace."""
    rows, depth, columns, order = _matrices(geo, direction)
    weights = geo.filters * _columns(geo) if _live(geo)[1] else 0
    return [Spec((geo.groups, geo.positions, _columns(geo)), dtype),
            Spec((geo.groups, geo.images, geo.window.positions, geo.group_filters), dtype),
            Spec((weights,), dtype), gemm_workspace(rows, depth, columns, dtype, geo.groups, order)]



CALL, GROUP, CYCLE, SEGMENT, MOVE, TURN, STORE = 10_000, 300, 0.5, 6, 0.75, 0.9, 2
"""Nanoseconds (see `convolution`) of a call; of a group; of a cycle as counted by `gemm_plan`; to
start a row of pixels of a window; to copy a strided pixel; to transpose an element, twice that of
matrices of more than LARGE elements; to load or store a vector."""
LARGE = 1 << 20


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction, inf where the matrix is too large."""
    window, trimmed = _live(geo)
    elements = geo.groups * geo.positions * _columns(geo)
    if not elements or elements > MOST:
        return inf
    width = lanes(dtype)
    rows, depth, columns, order = _matrices(geo, direction)
    cycles = gemm_cycles(rows, depth, columns, geo.groups, width, order)
    apart = window.dilate[2] > 1 and window.kernel[2] > 1
    weights, turned = geo.filters * _columns(geo), geo.images * geo.filters * geo.window.positions
    segments = elements / window.kernel[2] + trimmed * weights / window.kernel[2]
    moved = (segments * SEGMENT + elements * (MOVE if apart else STORE / width)
             + (elements + weights) * STORE / width
             + turned * TURN * (2 if turned > LARGE else 1))
    return CALL + GROUP * geo.groups + moved + CYCLE * cycles


# ---------------------------------------------------------------------------------------- functions

def _table(geo: Geometry) -> np.ndarray:
    """The geometry table `g` of `_unroll`."""
    w = _live(geo)[0]
    return np.array([w.image, w.kernel, w.stride, [-pad for pad in w.pad], w.dilate, w.out])


def _sizes(geo: Geometry) -> tuple[int, ...]:
    return geo.groups, geo.group_channels, _columns(geo), geo.window.positions


def _live_weight(geo: Geometry, w: Any) -> Any:
    """The live taps of a weight."""
    taps = tuple(slice(r.start, r.stop) for r in geo.window.live)
    return w.reshape(geo.filters, geo.group_channels, *geo.window.kernel)[(..., *taps)]


def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    cols, out, live, work = scratch[:4]
    outputs = y.reshape(geo.images, geo.groups, geo.group_filters, geo.window.positions)
    rows = out.reshape(geo.groups, geo.positions, -1)
    base = np.zeros(max(geo.channels, geo.filters), y.dtype) if bias is None else bias
    unroll, roll = (partial(kernel, *arrays, geo.images, _sizes(geo), _table(geo))
                    for kernel, arrays in ((_unroll, (x.reshape(-1), cols.reshape(-1))),
                                           (_roll, (cols.reshape(-1), base, x.reshape(-1)))))
    taps, trimmed = _live_weight(geo, w), _live(geo)[1]
    weights = (live if trimmed else w).reshape(geo.groups, geo.group_filters, -1)
    trim = [partial(np.copyto, live.reshape(taps.shape), taps)] if trimmed else []
    if direction == "forward":
        return all_of([*trim, unroll, prepare_gemm(cols, weights.swapaxes(1, 2), rows, work),
                       partial(_turn, outputs, base, out, False)])
    turn = partial(_turn, outputs, base, out, True)
    if direction == "data":
        return all_of([*trim, turn, prepare_gemm(rows, weights, cols, work), roll])
    if trimmed:
        trim = [partial(w.fill, 0), partial(np.copyto, taps, live.reshape(taps.shape))]
    return all_of([turn, unroll, prepare_gemm(rows.swapaxes(1, 2), cols, weights, work), *trim])
