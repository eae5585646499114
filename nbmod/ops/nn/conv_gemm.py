"""Convolution by implicit im2col and GEMM (Chetlur et al., cuDNN, 2014): three directions.

With one row per (channel, tap) and one column per window position, an image becomes the matrix of
columns `cols`; the filters are the matrix `w`.  Then

    output             y    = w cols           gather columns, multiply, store
    gradient of data   cols = w^T gy           multiply, scatter the columns back
    gradient of weight gw   = gy cols^T        gather columns, multiply

`cols` is never stored as a whole: a worker gathers a tile of it that fits the L2 cache, multiplies
it as an operand of `linalg.gemm`, and gathers the next.  An output, which has no window, is read
and written in place, except where a tile has the columns of several small images.

Every sum is formed by one worker in an order that depends on shapes alone, so results are
the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..linalg.gemm import add_dots, add_gemm
from ..linalg.gemm_plan import (
    A_IN_PLACE,
    B_IN_PLACE,
    DOT_PRODUCTS,
    IN_PLACE_ELEMENTS,
    GemmPlan,
    GemmStrides,
    Start,
    split_evenly,
)
from ..op import Run, Spec
from ..simd.gemm_microkernel import DOT_NR, MR
from ..simd.host import lanes as vector_lanes
from ..simd.pixel_rows import add_row, copy_row
from .sliding_window import Direction, Geometry, Window

__all__ = ["cost", "move_columns", "prepare", "workspace"]

TILE, DEPTH = 512, 256
"""Columns and rows per tile: of float32 they are 512 KB."""
SCATTERED = 1 << 15
"""Elements of a product that are multiplied, and scattered, at a time; at least 4 MR rows."""
BLOCK, STRIP, LONG = 512, 128, 1024
"""Most rows of gy and of cols per job of `correlate`, and columns per tile."""


# ------------------------------------------------------------------------------------ moving pixels

@inlined
def _move_row(image, start, step, values, to, count, gathers):
    """Copy `count` pixels a `step` apart to adjacent values; without `gathers`, add these."""
    if step == 1 and gathers:
        copy_row(image, values, (start, to), count)
    elif step == 1:
        add_row(values, image, (to, start), count)
    elif gathers:
        for i in range(count):
            values[np.uintp(to + i)] = image[np.uintp(start + i * step)]
    else:
        for i in range(count):
            image[np.uintp(start + i * step)] += values[np.uintp(to + i)]


@inlined
def move_columns(x, g, k, at, count, values, gathers):
    """Copy `count` columns of row `k` from position `at` on, of images x under window g, to
    `values`; padding is 0.  Without `gathers`, add `values` to the images; padding drops them.

    Images are (N, C, D H W); `at` is (image, z, y, x) of a position.  Indices are unsigned, which
    avoids numba's test for negative ones: it costs more than copying a short row.
    """
    c, row, (n, oz, oy, first), done = k // g[0, 9], 1 + k % g[0, 9], at, 0
    # Loaded once: the compiler does not know that what is written is not `g`.
    deep, high, wide, step_z, step_y, step = g[0, 0], g[0, 1], g[0, 2], g[0, 6], g[0, 7], g[0, 8]
    out_z, out_y, out_x = g[0, 3], g[0, 4], g[0, 5]
    tap_z, tap_y, tap_x, begin, end = g[row, 0], g[row, 1], g[row, 2], g[row, 3], g[row, 4]
    if gathers and g[0, 10]:
        for i in range(count):
            values[i] = 0
    while done < count:
        last = min(out_x, first + count - done)
        z, y = oz * step_z + tap_z, oy * step_y + tap_y
        if z >= 0 and z < deep and y >= 0 and y < high:
            lo, hi = max(first, begin), min(last, end)
            start = (z * high + y) * wide + tap_x
            _move_row(x[np.uintp(n), np.uintp(c)], start + lo * step, step, values,
                      done - first + lo, max(hi - lo, 0), gathers)
        done += last - first
        first, oy = 0, oy + 1
        if oy == out_y:
            oy, oz = 0, oz + 1
            if oz == out_z:
                oz, n = 0, n + 1


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


# ------------------------------------------------------------------------------------------ kernels

class ContractPlan(NamedTuple):
    """The product, of each group, w (rows x depth) times cols (depth x columns).

    w_row, w_term  distances in w; `method` how w and cols are read (`gemm_plan`)
    unit, piece    columns of the images that are processed together, and of a job
    block          rows of a job; `high` of a product, which has `tile` columns and `slab` terms
    reads, writes  whether cols, or the product, is in place: rows of `positions` elements
    """

    groups: int
    rows: int
    depth: int
    w_row: int
    w_term: int
    columns: int
    positions: int
    unit: int
    piece: int
    block: int
    high: int
    tile: int
    slab: int
    reads: bool
    writes: bool
    lanes: int
    method: int


@inlined
def _contract_tile(x, gx, w, y, gy, p, group, span, first, work):
    """Rows [span[0], span[1]) of y, columns [first[0], first[1]): `contract`."""
    q, count = first[0], first[1] - first[0]
    edge, from_, to = p.slab * p.tile, _position(gx, q), _position(gy, q)
    image, pixel, rest = q // p.positions, q % p.positions, edge + p.high * p.tile
    b, c = work[:edge].reshape(p.slab, p.tile), work[edge:rest].reshape(p.high, p.tile)
    for k0 in range(0, p.depth, p.slab):
        k1 = min(p.depth, k0 + p.slab)
        if not p.reads:
            for k in range(k0, k1):
                move_columns(x, gx, group * p.depth + k, from_, count, b[k - k0], True)
        b_start = ((image * x.shape[1] + group * p.depth + k0) * p.positions + pixel if p.reads
                   else 0)
        for m in range(span[0], span[1], p.high):
            rows, row = min(p.high, span[1] - m), group * p.rows + m
            if not p.writes:
                c[:rows, :count] = 0
            c_start = (image * y.shape[1] + row) * p.positions + pixel if p.writes else 0
            add_gemm(
                w, x.reshape(-1) if p.reads else work, y.reshape(-1) if p.writes else work[edge:],
                Start(group * p.rows * p.depth + m * p.w_row + k0 * p.w_term, b_start, c_start),
                GemmStrides(p.w_row, p.w_term, p.positions if p.reads else p.tile, 1,
                            p.positions if p.writes else p.tile),
                (rows, k1 - k0, count), p.lanes, p.method, work[rest:])
            if not p.writes:
                for r in range(rows):
                    move_columns(y, gy, row + r, to, count, c[r], False)


@inlined
def _contract_jobs(worker, workers, x, gx, w, y, gy, base, p, work):
    """The jobs of one worker: gather tiles of columns, multiply by rows of w, scatter."""
    blocks, pieces = (p.rows + p.block - 1) // p.block, (p.unit + p.piece - 1) // p.piece
    units = (p.columns + p.unit - 1) // p.unit
    positions = gy[0, 3] * gy[0, 4] * gy[0, 5]
    for job in range(worker, p.groups * units * pieces * blocks, workers):
        m0, part = job % blocks * p.block, job // blocks
        group, unit = part // (pieces * units), part // pieces % units
        start = unit * p.unit + part % pieces * p.piece
        stop = min(start + p.piece, (unit + 1) * p.unit, p.columns)
        m1 = min(p.rows, m0 + p.block)
        if start < stop:
            for channel in range((group * p.rows + m0) // gy[0, 9],
                                 (group * p.rows + m1) // gy[0, 9]):
                _fill(y, channel, positions, start, stop, base[channel])
        for q in range(start, stop, p.tile):
            _contract_tile(x, gx, w, y, gy, p, group, (m0, m1), (q, min(stop, q + p.tile)), work)


@kernel(parallel=True)
def contract(x, gx, w, y, gy, base, plan, work):
    """y[scattered] = base + w x[gathered]; x, y (N, C, D H W), w flat, base one per channel of y.

    gx, gy: window tables; plan: a `ContractPlan`; work: a row for each worker.
    """
    workers = work.shape[0]
    for worker in prange(workers):
        _contract_jobs(np.int64(worker), workers, x, gx, w, y, gy, base, ContractPlan(*plan),
                       work[worker])


class CorrelatePlan(NamedTuple):
    """The product, of each group, gy (rows x columns) times cols^T (columns x depth).

    unit    columns of the images that are processed together
    block   rows of a job, `strip` its columns; `tile` terms of a product
    reads   whether gy is read in place: rows of `positions` elements
    """

    groups: int
    rows: int
    depth: int
    columns: int
    positions: int
    unit: int
    block: int
    strip: int
    tile: int
    reads: bool
    lanes: int


@inlined
def _correlate_jobs(worker, workers, x, gx, y, gy, gw, p, work):
    """The jobs of one worker: gather tiles of both operands and accumulate a block of gw."""
    blocks, strips = (p.rows + p.block - 1) // p.block, (p.depth + p.strip - 1) // p.strip
    edge = 0 if p.reads else p.block * p.tile
    rest = edge + p.strip * p.tile
    a, b = work[:edge].reshape(edge // p.tile, p.tile), work[edge:rest].reshape(p.strip, p.tile)
    for job in range(worker, p.groups * blocks * strips, workers):
        group = job // (blocks * strips)
        m0, k0 = job // strips % blocks * p.block, job % strips * p.strip
        m1, k1 = min(p.rows, m0 + p.block), min(p.depth, k0 + p.strip)
        at, row = (group * p.rows + m0) * p.depth + k0, group * p.rows + m0
        for m in range(m1 - m0):
            gw[at + m * p.depth:at + m * p.depth + k1 - k0] = 0
        for unit in range(0, p.columns, p.unit):
            stop = min(p.columns, unit + p.unit)
            for q in range(unit, stop, p.tile):
                count, here, there = min(stop - q, p.tile), _position(gx, q), _position(gy, q)
                for m in range(0 if p.reads else m1 - m0):
                    move_columns(y, gy, row + m, there, count, a[m], True)
                for k in range(k0, k1):
                    move_columns(x, gx, group * p.depth + k, here, count, b[k - k0], True)
                a_start = (q // p.positions * y.shape[1] + row) * p.positions + q % p.positions
                add_dots(y.reshape(-1) if p.reads else work, work, gw,
                         Start(a_start if p.reads else 0, edge, at),
                         GemmStrides(p.positions if p.reads else p.tile, 1, 1, p.tile, p.depth),
                         (m1 - m0, count, k1 - k0), p.lanes, work[rest:])


@kernel(parallel=True)
def correlate(x, gx, y, gy, gw, plan, work):
    """gw (flat, filters x depth) = y[gathered] x[gathered]^T; plan: a `CorrelatePlan`."""
    workers = work.shape[0]
    for worker in prange(workers):
        _correlate_jobs(np.int64(worker), workers, x, gx, y, gy, gw, CorrelatePlan(*plan),
                        work[worker])


# ----------------------------------------------------------------------------------------- division

def _pieces(total: int, size: int, unit: int, least: int = 1) -> int:
    """Size of equal pieces of `total`: about `size`, a multiple of `unit`, `least` or more."""
    count = max(-(-total // size), least)
    return -(-total // count // unit) * unit


def _together(geo: Geometry) -> int:
    """Images whose columns share a tile."""
    return max(1, min(geo.images, TILE // max(geo.window.positions, 1)))


def _plan_contract(geo: Geometry, forward: bool, width: int, workers: int) -> ContractPlan:
    """The plan of the output, or of the gradient of the data.

    Jobs of the latter are images by channels, so that no two add to the same pixel.
    """
    rows, depth, strides = geo.group_filters, geo.depth, (geo.depth, 1)
    if not forward:
        rows, depth, strides = depth, rows, (1, geo.depth)
    together, positions = _together(geo), geo.window.positions
    unit = together * positions
    tile = _pieces(unit, TILE, 1)
    piece = tile if forward else unit
    jobs = geo.groups * -(-geo.images // together) * -(-unit // piece)
    parts = -(-workers // jobs)
    block = _pieces(rows, rows, MR, parts) if forward else _pieces(
        geo.group_channels, geo.group_channels, 1, parts) * geo.window.taps
    high = min(max(SCATTERED // tile // MR, 4), -(-rows // MR)) * MR
    in_place = 0 if forward or rows * depth > IN_PLACE_ELEMENTS else A_IN_PLACE
    return ContractPlan(
        geo.groups, rows, depth, *strides, geo.positions, positions, unit, piece, min(block, rows),
        high, tile, split_evenly(depth, DEPTH), not forward and together == 1,
        forward and together == 1, width, in_place | B_IN_PLACE)


def _plan_correlate(geo: Geometry, width: int, workers: int) -> CorrelatePlan:
    """The plan of the gradient of the weight."""
    rows, depth, together = geo.group_filters, geo.depth, _together(geo)
    unit = together * geo.window.positions
    block = _pieces(rows, BLOCK, 1)
    strip = _pieces(depth, STRIP, DOT_NR,
                    -(-workers // (geo.groups * -(-rows // block))))
    return CorrelatePlan(geo.groups, rows, depth, geo.positions, geo.window.positions, unit, block,
                         strip, _pieces(unit, LONG, 1), together == 1, width)


def _plan(geo: Geometry, direction: Direction, dtype: np.dtype, workers: int
          ) -> tuple[tuple[int, ...], int]:
    """The plan of a direction, and the elements of workspace of a worker."""
    width = vector_lanes(dtype)
    if direction == "weight":
        plan = _plan_correlate(geo, width, workers)
        own = (plan.strip + plan.block * (not plan.reads)) * plan.tile
        return tuple(plan), own + GemmPlan(plan.block, plan.tile, plan.strip, 1, width, plan.block,
                                           plan.strip, DOT_PRODUCTS).workspace
    p = _plan_contract(geo, direction == "forward", width, workers)
    return tuple(p), (p.slab + p.high) * p.tile + GemmPlan(
        p.high, p.slab, p.tile, 1, width, p.high, p.tile, B_IN_PLACE).workspace


@lru_cache(maxsize=256)
def _flat(geo: Geometry) -> Window:
    return Window.pixelwise(geo.window.positions)


def _source(geo: Geometry) -> Window:
    """The window over the data; a single row of pixels if it is pixelwise."""
    return _flat(geo) if geo.window.is_pixelwise else geo.window


def _planes(array: Any) -> Any:
    """(N, C, ...) as (N, C, pixels)."""
    return array.reshape(array.shape[0], array.shape[1], -1)


def workspace(geo: Geometry, direction: Direction, dtype: np.dtype) -> list[Spec]:
    """Workspace of a direction."""
    workers = num_threads()
    return [Spec((workers, _plan(geo, direction, dtype, workers)[1]), dtype)]


# -------------------------------------------------------------------------------------------- cost

CALL, GROUP, CYCLE, DOTS, PIXEL, ROW, STORE, WEIGHT = 3000, 350, 0.45, 0.6, 0.5, 7, 4, 0.5
"""Nanoseconds (see `convolution`) of a call; of a group; of a cycle as counted by `gemm_plan`,
also of dot products; to gather or scatter a vector of pixels, or a strided pixel; to gather a row
of pixels; to read or write a vector of the images; to read a weight for a tile.  Rows that are
scattered, and weights that are read in columns, count twice."""


def cost(geo: Geometry, direction: Direction, dtype: np.dtype) -> float:
    """Estimated single-thread nanoseconds of a direction."""
    filters, depth, lanes = geo.group_filters, geo.depth, vector_lanes(dtype)
    taken = _together(geo) * geo.window.positions
    tiles = -(-geo.positions // max(taken, 1)) * -(-taken // TILE)
    columns = -(-max(geo.positions, 1) // max(tiles, 1))
    if direction == "weight":
        plan = GemmPlan(filters, columns, depth, 1, lanes, filters, depth, DOT_PRODUCTS)
        again, twice, cycle = -(-filters // BLOCK), 1, DOTS
    else:
        rows, terms, twice = (depth, filters, 2) if direction == "data" else (filters, depth, 1)
        plan = GemmPlan(rows, terms, columns, 1, lanes, rows, columns, B_IN_PLACE)
        again, cycle = -(-filters // DEPTH) if direction == "data" else 1, CYCLE
    width = geo.window.positions if geo.window.is_pixelwise else geo.window.out[2]
    apart = geo.window.stride[2] > 1 and width > 1
    filled = geo.images * geo.group_channels * geo.window.pixels if direction == "data" else 0
    moved = (depth * geo.positions * again * (PIXEL / (1 if apart else lanes)
                                              + ROW * twice / max(width, 1))
             + STORE / lanes * (geo.positions * filters + filled) + ROW * geo.images * filters)
    return CALL + geo.groups * (GROUP + moved + tiles * (
        cycle * plan.cost(1) + WEIGHT * twice * filters * depth))


# ----------------------------------------------------------------------------------------- function

def prepare(geo: Geometry, direction: Direction, x: Any, w: Any, y: Any, bias: Any,
            scratch: Sequence[Any]) -> Run:
    """A function that computes a direction; see `convolution.convolve`."""
    work, data, flat = scratch[0], _source(geo).table, _flat(geo).table
    plan = _plan(geo, direction, x.dtype, len(work))[0]
    x, w, y = _planes(x), w.reshape(-1), _planes(y)
    if direction == "weight":
        return partial(correlate, x, data, y, flat, w, plan, work)
    source, target = ((x, data), (y, flat)) if direction == "forward" else ((y, flat), (x, data))
    base = np.zeros(target[0].shape[1], w.dtype) if bias is None else bias
    return partial(contract, *source, w, *target, base, plan, work)
