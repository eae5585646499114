"""Convolution by explicit im2col and GEMM (Chellapilla et al. 2006), for few, large windows.

Each row of the im2col matrix holds the pixels under the window at one position of one image:

    output             y    = rows w^T         im2col, multiply, transpose
    gradient of data   rows = gy w             transpose, multiply, col2im
    gradient of weight gw   = gy^T rows        both, multiply

The pixels of a window row are contiguous in the image and in the matrix, so they are copied
together however few positions there are, by the packers of `conv_gemm`, whose rows are taps: taps
and positions have each other's roles here.  Taps that only see padding have no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from typing import Any

import numpy as np

from ..jit import kernel, prange
from ..linalg.gemm import gemm_workspace, prepare_gemm
from ..linalg.gemm_small import gemm_cycles
from ..op import Run, Spec, all_of
from ..simd.host import lanes
from .conv_gemm import move_columns
from .sliding_window import Direction, Geometry

__all__ = ["cost", "prepare", "workspace"]

MOST = 1 << 22
"""Elements of the matrix at most."""
TILE = 16
"""Rows and columns that are transposed together."""


# ------------------------------------------------------------------------------------------ kernels

@kernel(parallel=True)
def _unroll(x, cols, groups, g):
    """im2col: the matrices cols (groups, N, P, channels taps) of images x (N, channels, pixels)."""
    images, positions, columns = cols.shape[1:]
    for row in prange(groups * images * positions):
        p, part = np.int64(row) % positions, np.int64(row) // positions
        n, group = part % images, part // images
        image = x[n].reshape(x.shape[1], 1, x.shape[2])
        move_columns(image, g, p, (group * (x.shape[1] // groups), 0, 0, 0), columns,
                     cols[group, n, p], True)


@kernel(parallel=True)
def _roll(cols, base, x, groups, g):
    """col2im: x = base + the sum of the rows of its windows."""
    images, positions, columns = cols.shape[1:]
    deep = x.shape[1] // groups
    for job in prange(images * groups):
        n, group = np.int64(job) // groups, np.int64(job) % groups
        image = x[n].reshape(x.shape[1], 1, x.shape[2])
        for c in range(group * deep, group * deep + deep):
            value, plane = base[c], image[c, 0]
            for i in range(plane.size):
                plane[i] = value
        for p in range(positions):
            move_columns(image, g, p, (group * deep, 0, 0, 0), columns, cols[group, n, p], False)


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
    """The window table in which taps and positions have each other's roles: to gather a row of
    pixels under it is to gather the columns of a position."""
    w = _live(geo)[0]
    return replace(w, out=w.kernel, kernel=w.out, stride=w.dilate, dilate=w.stride).table


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
    matrices = cols.reshape(geo.groups, geo.images, geo.window.positions, -1)
    planes, table = x.reshape(geo.images, geo.channels, -1), _table(geo)
    unroll = partial(_unroll, planes, matrices, geo.groups, table)
    taps, trimmed = _live_weight(geo, w), _live(geo)[1]
    weights = (live if trimmed else w).reshape(geo.groups, geo.group_filters, -1)
    trim = [partial(np.copyto, live.reshape(taps.shape), taps)] if trimmed else []
    if direction == "forward":
        return all_of([*trim, unroll, prepare_gemm(cols, weights.swapaxes(1, 2), rows, work),
                       partial(_turn, outputs, base, out, False)])
    turn = partial(_turn, outputs, base, out, True)
    if direction == "data":
        return all_of([*trim, turn, prepare_gemm(rows, weights, cols, work),
                       partial(_roll, matrices, base, planes, geo.groups, table)])
    if trimmed:
        trim = [partial(w.fill, 0), partial(np.copyto, taps, live.reshape(taps.shape))]
    return all_of([turn, unroll, prepare_gemm(rows.swapaxes(1, 2), cols, weights, work), *trim])
