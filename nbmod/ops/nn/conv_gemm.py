"""Convolution by implicit im2col and GEMM (Chetlur et al., cuDNN, 2014): three directions.

With one row per (channel, tap) and one column per window position, an image becomes the matrix of
columns `cols`; the filters are the matrix `w`.  Then

    output             y    = w cols           gather columns, multiply, store
    gradient of data   cols = w^T gy           gather gy, multiply, scatter the columns back
    gradient of weight gw   = gy cols^T        gather both, multiply

`cols` is never stored as a whole: a worker gathers a tile of it that fits the L2 cache, uses it and
gathers the next.  The columns of all images are concatenated, so small images share a tile.  The
first two directions are one kernel, `contract`, with a window for the source and one for the
destination, one of which is pixelwise.

The inner loops are vectorised by the compiler on any CPU: `_quad` adds four rows times four
coefficients to four rows (16 multiply-adds for 4 loads and 4 stores), and `dot_products` forms 16
dot products of eight rows in registers.

Every sum is formed by one worker in an order that depends on shapes alone, so results are
the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..linalg.dot_products import add_gemm_nt
from ..op import Run, Spec
from ..param import Shape
from ..simd.host import lanes as vector_lanes
from .sliding_window import Direction, Geometry, Window

__all__ = ["cost", "prepare", "workspace"]

TILE = 512
"""Columns per tile; longer rows of `_quad` do not gain, shorter ones lose to its prologue."""
DEPTH = 256
"""Rows per tile: TILE x DEPTH float32 are 512 KB."""
BLOCK, STRIP = 512, 128
"""Most rows of gy and of cols per job of `correlate`: gathering cols costs more."""


# ------------------------------------------------------------------------------------ moving pixels

@inlined
def _gather(x, g, k, at, count, out):
    """`count` columns of row `k` from position `at` on, of images x under window g; padding is 0.

    Images are (N, C, D H W); `at` is (image, z, y, x) of a position.  Indices are unsigned, which
    avoids numba's test for negative ones: it costs more than copying a short row.
    """
    c, tap, n, oz, oy, first = k // g[0, 9], g[1 + k % g[0, 9]], at[0], at[1], at[2], at[3]
    step, done = g[0, 8], 0
    if g[0, 10]:
        for i in range(count):
            out[i] = 0
    while done < count:
        last = min(g[0, 5], first + count - done)
        z, y = oz * g[0, 6] + tap[0], oy * g[0, 7] + tap[1]
        if z >= 0 and z < g[0, 0] and y >= 0 and y < g[0, 1]:
            image, to, start = x[n, c], done - first, (z * g[0, 1] + y) * g[0, 2] + tap[2]
            if step == 1:
                for i in range(max(first, tap[3]), min(last, tap[4])):
                    out[np.uintp(to + i)] = image[np.uintp(start + i)]
            else:
                for i in range(max(first, tap[3]), min(last, tap[4])):
                    out[np.uintp(to + i)] = image[np.uintp(start + i * step)]
        done += last - first
        n, oz, oy, first = _next_row(g, n, oz, oy)


@inlined
def _scatter(values, y, g, k, at, count):
    """Add `count` columns of row `k` from position `at` on to images y; padding drops them."""
    c, tap, n, oz, oy, first = k // g[0, 9], g[1 + k % g[0, 9]], at[0], at[1], at[2], at[3]
    step, done = g[0, 8], 0
    while done < count:
        last = min(g[0, 5], first + count - done)
        z, row = oz * g[0, 6] + tap[0], oy * g[0, 7] + tap[1]
        if z >= 0 and z < g[0, 0] and row >= 0 and row < g[0, 1]:
            image, of, start = y[n, c], done - first, (z * g[0, 1] + row) * g[0, 2] + tap[2]
            if step == 1:
                for i in range(max(first, tap[3]), min(last, tap[4])):
                    image[np.uintp(start + i)] += values[np.uintp(of + i)]
            else:
                for i in range(max(first, tap[3]), min(last, tap[4])):
                    image[np.uintp(start + i * step)] += values[np.uintp(of + i)]
        done += last - first
        n, oz, oy, first = _next_row(g, n, oz, oy)


@inlined
def _next_row(g, n, z, y):
    """The position at the start of the next row."""
    y += 1
    if y == g[0, 4]:
        y, z = 0, z + 1
        if z == g[0, 3]:
            z, n = 0, n + 1
    return n, z, y, 0


@inlined
def _position(g, q):
    """(image, z, y, x) of column `q`."""
    row = q // g[0, 5]
    return row // g[0, 4] // g[0, 3], row // g[0, 4] % g[0, 3], row % g[0, 4], q - row * g[0, 5]


@inlined
def _fill(y, channel, positions, start, stop, value):
    """Set all elements that columns [start, stop) can add to: whole images, or pixels of a
    pixelwise window."""
    for n in range(start // positions, (stop - 1) // positions + 1):
        lo, hi = max(start - n * positions, 0), min(stop - n * positions, positions)
        image = y[n, channel]
        if hi - lo == positions:
            lo, hi = 0, image.size
        part = image[lo:hi]
        for i in range(part.size):
            part[i] = value


# -------------------------------------------------------------------------------------- inner loops

@inlined(fastmath=True)
def _quad(a, at, sm, sk, b, k, c, count):
    """c[m] += sum of a[m, j] b[k + j], m and j from 0 to 3; a[m, j] is a[at + m sm + j sk]."""
    a0, a1, a2, a3 = a[at:], a[at + sm:], a[at + 2 * sm:], a[at + 3 * sm:]
    a00, a01, a02, a03 = a0[0], a0[sk], a0[2 * sk], a0[3 * sk]
    a10, a11, a12, a13 = a1[0], a1[sk], a1[2 * sk], a1[3 * sk]
    a20, a21, a22, a23 = a2[0], a2[sk], a2[2 * sk], a2[3 * sk]
    a30, a31, a32, a33 = a3[0], a3[sk], a3[2 * sk], a3[3 * sk]
    b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for i in range(count):
        x0, x1, x2, x3 = b0[i], b1[i], b2[i], b3[i]
        c0[i] += a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
        c1[i] += a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
        c2[i] += a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
        c3[i] += a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3


@inlined(fastmath=True)
def _four(a, at, sk, b, k, c, count):
    """c += sum of a[j] b[k + j], j from 0 to 3: a row of `_quad`."""
    a0, a1, a2, a3 = a[at], a[at + sk], a[at + 2 * sk], a[at + 3 * sk]
    b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
    for i in range(count):
        c[i] += a0 * b0[i] + a1 * b1[i] + a2 * b2[i] + a3 * b3[i]


@inlined(fastmath=True)
def _axpy(a, b, c, count):
    for i in range(count):
        c[i] += a * b[i]


@inlined(fastmath=True)
def _multiply(a, at, sm, sk, b, depth, c, rows, count):
    """c[:rows, :count] = a b[:depth, :count]."""
    for m in range(rows):
        row = c[m]
        for i in range(count):
            row[i] = 0
    done = depth // 4 * 4
    for k in range(0, done, 4):
        if rows == 4:
            _quad(a, at + k * sk, sm, sk, b, k, c, count)
        else:
            for m in range(rows):
                _four(a, at + m * sm + k * sk, sk, b, k, c[m], count)
    for k in range(done, depth):
        for m in range(rows):
            _axpy(a[at + m * sm + k * sk], b[k], c[m], count)


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _contract_jobs(worker, workers, x, gx, w, y, gy, base, plan, work):
    """The jobs of one worker: gather a tile of columns, multiply by 4 rows of w, scatter."""
    groups, rows, depth, sm, sk, total, span, block, tile, slab = (
        plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6], plan[7], plan[8], plan[9])
    spans, blocks = (total + span - 1) // span, (rows + block - 1) // block
    positions, b, c = gy[0, 3] * gy[0, 4] * gy[0, 5], work[:slab], work[slab:]
    for job in range(worker, groups * spans * blocks, workers):
        m0, group = job % blocks * block, job // (spans * blocks)
        start = job // blocks % spans * span
        m1, stop = min(rows, m0 + block), min(total, start + span)
        for channel in range((group * rows + m0) // gy[0, 9], (group * rows + m1) // gy[0, 9]):
            _fill(y, channel, positions, start, stop, base[channel])
        for q in range(start, stop, tile):
            count, from_, to = min(stop - q, tile), _position(gx, q), _position(gy, q)
            for k0 in range(0, depth, slab):
                k1 = min(depth, k0 + slab)
                for k in range(k0, k1):
                    _gather(x, gx, group * depth + k, from_, count, b[k - k0])
                for m in range(m0, m1, 4):
                    # the last rows of a block overlap the quad before
                    first = m if m + 4 <= m1 or rows < 4 else m1 - 4
                    have = min(4, m1 - first)
                    at = group * rows * depth + first * sm + k0 * sk
                    _multiply(w, at, sm, sk, b, k1 - k0, c, have, count)
                    for r in range(m - first, have):
                        _scatter(c[r], y, gy, group * rows + first + r, to, count)


@kernel(parallel=True)
def contract(x, gx, w, y, gy, base, plan, work):
    """y[scattered] = base + w x[gathered]; x, y (N, C, D H W), w flat, base one per channel of y.

    gx, gy: window tables; plan: see `_plan_columns`; work (workers, rows, columns).
    """
    workers = work.shape[0]
    for worker in prange(workers):
        _contract_jobs(np.int64(worker), workers, x, gx, w, y, gy, base, plan, work[worker])


@inlined
def _correlate_jobs(worker, workers, x, gx, y, gy, gw, plan, work):
    """The jobs of one worker: gather tiles of both operands and accumulate a block of gw."""
    groups, rows, depth, total, block, strip, tile = (
        plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6])
    blocks, strips = (rows + block - 1) // block, (depth + strip - 1) // strip
    a, b = work[:block], work[block:]
    for job in range(worker, groups * blocks * strips, workers):
        group = job // (blocks * strips)
        m0, k0 = job // strips % blocks * block, job % strips * strip
        m1, k1 = min(rows, m0 + block), min(depth, k0 + strip)
        at = (group * rows + m0) * depth + k0
        for m in range(m1 - m0):
            row = gw[at + m * depth:]
            for k in range(k1 - k0):
                row[k] = 0
        for q in range(0, total, tile):
            count, here, there = min(total - q, tile), _position(gx, q), _position(gy, q)
            for m in range(m0, m1):
                _gather(y, gy, group * rows + m, there, count, a[m - m0])
            for k in range(k0, k1):
                _gather(x, gx, group * depth + k, here, count, b[k - k0])
            add_gemm_nt(a, m1 - m0, b, k1 - k0, count, gw, at, depth)


@kernel(parallel=True)
def correlate(x, gx, y, gy, gw, plan, work):
    """gw (flat, filters x depth) = y[gathered] x[gathered]^T; plan: see `_plan_rows`."""
    workers = work.shape[0]
    for worker in prange(workers):
        _correlate_jobs(np.int64(worker), workers, x, gx, y, gy, gw, plan, work[worker])


# ----------------------------------------------------------------------------------------- division

def _pieces(total: int, size: int, unit: int, least: int = 1) -> int:
    """Size of equal pieces of `total`: about `size`, a multiple of `unit`, `least` or more."""
    count = max(-(-total // size), least)
    return _round_up(-(-total // count), unit)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _plan_columns(groups: int, rows: int, depth: int, columns: int, strides: tuple[int, int],
                  workers: int) -> tuple[list[int], Shape]:
    """The plan of `contract` and the shape of its workspace, where columns may be split anywhere.

    The product, of each group, is w (rows x depth, `strides`) times cols (depth x columns); a job
    is a block of columns by rows.
    """
    tiles = -(-columns // TILE)
    tile = _pieces(columns, TILE, 16, _round_up(tiles, workers) if tiles > workers else tiles)
    jobs = groups * -(-columns // tile)
    block = _pieces(rows, rows, 4, -(-workers // jobs))
    slab = min(DEPTH, depth)
    plan = [groups, rows, depth, *strides, columns, tile, block, tile, slab]
    return plan, (workers, slab + 4, tile)


def _plan_rows(groups: int, rows: int, depth: int, columns: int, workers: int
               ) -> tuple[list[int], Shape]:
    """The plan of `correlate` and the shape of its workspace: rows x depth sums over columns."""
    block = _pieces(rows, BLOCK, 4)
    strip = _pieces(depth, STRIP, 4, -(-workers // (groups * -(-rows // block))))
    # the same for any number of workers, so that sums are formed in the same order
    tile = min(TILE, (TILE + DEPTH // 2) * DEPTH // (block + STRIP), _round_up(columns, 16))
    plan = [groups, rows, depth, columns, block, strip, tile]
    return plan, (workers, block + strip, tile)


def _flat(geo: Geometry) -> Window:
    return Window.pixelwise(geo.window.positions)


def _source(geo: Geometry) -> Window:
    """The window over the data; a single row of pixels if it is pixelwise."""
    return _flat(geo) if geo.window.is_pixelwise else geo.window


def _planes(array: Any) -> Any:
    """(N, C, ...) as (N, C, pixels)."""
    return array.reshape(array.shape[0], array.shape[1], -1)


def _plan(geo: Geometry, direction: Direction, workers: int) -> tuple[list[int], Shape]:
    """The plan of a direction and the shape of its workspace."""
    if direction == "forward":
        return _plan_columns(geo.groups, geo.group_filters, geo.depth, geo.positions,
                             (geo.depth, 1), workers)
    if direction == "weight":
        return _plan_rows(geo.groups, geo.group_filters, geo.depth, geo.positions, workers)
    # The product w^T gy: jobs are images by channels, so that no two add to the same pixel.
    # Columns per job and tile do not depend on `workers`, so neither does the order of sums.
    positions = geo.window.positions
    together = max(1, min(geo.images, TILE // positions))
    jobs = geo.groups * -(-geo.images // together)
    channels = _pieces(geo.group_channels, geo.group_channels, 4, -(-workers // jobs))
    span, block = together * positions, min(channels, geo.group_channels) * geo.window.taps
    tile, slab = min(TILE, _round_up(span, 16)), min(DEPTH, geo.group_filters)
    plan = [geo.groups, geo.depth, geo.group_filters, 1, geo.depth, geo.positions, span, block,
            tile, slab]
    return plan, (workers, slab + 4, tile)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction."""
    return [Spec(_plan(geo, direction, num_threads())[1], dtype)]


# -------------------------------------------------------------------------------------------- cost

CALL, GROUP, QUAD, FOUR, DOTS, PIXEL, STORE, ROW, LOOP = 7000, 150, 0.32, 0.8, 0.42, 0.4, 4, 12, 25
"""Nanoseconds (see `convolution`) of a call; of a group; of a vector multiply-add, of four rows or
of fewer, or in dot products; to gather or scatter a vector of pixels, or a strided pixel; to read
or write a vector of the side without a window; to start a row of pixels; to start a loop over 16
products."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction."""
    rows, depth, columns, lanes = geo.group_filters, geo.depth, geo.positions, vector_lanes(dtype)
    width = geo.window.positions if geo.window.is_pixelwise else geo.window.out[2]
    apart = geo.window.stride[2] > 1 and width > 1
    again = {"forward": (1, -(-depth // DEPTH)), "data": (-(-rows // DEPTH), 1),
             "weight": (-(-rows // BLOCK), -(-depth // STRIP))}[direction]
    product = (FOUR if min(rows, depth) < 4 else DOTS if direction == "weight" else QUAD) / lanes
    loops = rows * depth * -(-columns // TILE) / 16
    windows = depth * columns * again[0]
    each = (windows * (PIXEL * (1 if apart else 1 / lanes) + ROW / max(width, 1))
            + rows * columns * again[1] * (STORE / lanes + ROW / max(geo.window.positions, 1))
            + rows * depth * columns * product + loops * LOOP)
    return CALL + geo.groups * (GROUP + each)


# ----------------------------------------------------------------------------------------- function

def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.Algorithm.prepare`."""
    work, data, flat = scratch[0], _source(geo).table(), _flat(geo).table()
    plan = np.array(_plan(geo, direction, len(work))[0], np.int64)
    x, w, y = _planes(x), w.reshape(-1), _planes(y)
    if direction == "weight":
        return partial(correlate, x, data, y, flat, w, plan, work)
    source, target = ((x, data), (y, flat)) if direction == "forward" else ((y, flat), (x, data))
    base = np.zeros(target[0].shape[1], w.dtype) if bias is None else bias
    return partial(contract, *source, w, *target, base, plan, work)
