"""Drivers of the tables: strips of an output, tiles of a weight gradient, packing of filters."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..simd.conv_strip import (
    ADD,
    PIXELS,
    STREAM,
    ConvStart,
    ConvSteps,
    plane1,
    plane2,
    row3,
    row7,
    store_fence,
    strip1,
    strip2,
)
from ..simd.depthwise_taps import depthwise_strip
from ..simd.host import l2_cache_bytes
from ..simd.nontemporal import bypasses_cache
from ..simd.outer_product import ROWS, OuterStart, OuterSteps, flat1, flat2, outer1, outer2
from ..simd.transpose import transpose_gather, transpose_scatter
from ..simd.work_queue import COUNTER_STRIDE, job_counters, take_job
from .address_tables import OuterTask, PackPlan, StripTask
from .layout import LANES, flat

__all__ = ["BLOCK", "DEPTHWISE", "PLANE", "StripImages", "image_strips", "pack",
           "run_outer_products", "run_strips", "stream_flag", "unpack"]

BLOCK, PLANE, DEPTHWISE = range(3)
"""Kinds of taps: of a block of channels, of one channel, of one channel for each lane; 3 or 7: of
one channel, and for pairs of vectors that many adjacent ones at a time."""
JOBS = 4
"""Jobs for each thread, for load balance."""
FILTERS_STREAM = 8
"""Strips for each thread from which on pixels stay in the L2 cache while filters stream through it.
Of fewer strips, filters stay: to read them takes longer."""
L2_FILTERS = 2 ** 16
"""Elements of the filters that stay."""
L2_PIXELS = l2_cache_bytes() // 8
"""Elements of x for all filters of a job: half of the L2 cache."""
JOB_SIDE = 256
"""Rows and columns of the weight gradient of a job."""


class StripChunk(NamedTuple):
    """One of the `chunks` of the strips of a group of images; whether that is the `last` group."""

    which: int
    chunks: int
    last: bool


class StripImages(NamedTuple):
    """Offsets of images in x and y; distance of the next group in x, and of planes of y; flags and
    kind of taps."""

    x: int
    y: int
    x_next: int
    plane: int
    flags: int
    kind: int


@inlined
def _strip(x, w, bias, r, y, taps, offsets, at, steps, vectors, kind):
    """One strip by the kernel for one vector or two and a kind of taps."""
    if vectors == 2:
        if kind == BLOCK:
            strip2(x, w, bias, r, y, taps, offsets, at, steps)
        elif kind == PLANE:
            plane2(x, w, bias, r, y, taps, offsets, at, steps)
        elif kind == 3:
            row3(x, w, bias, r, y, taps, offsets, at, steps)
        else:
            row7(x, w, bias, r, y, taps, offsets, at, steps)
    elif kind == BLOCK:
        strip1(x, w, bias, r, y, taps, offsets, at, steps)
    elif kind == DEPTHWISE:
        depthwise_strip(x, w, bias, r, y, taps, offsets, at, steps)
    else:
        plane1(x, w, bias, r, y, taps, offsets, at, steps)


@inlined
def _chunk_strips(x, w, bias, r, y, taps, offsets, spans, chunk, images):
    """The strips of a chunk, span by span."""
    for k in range(len(spans)):
        (x_at, w_at, bias_at, y_at, tap, count, first, strips, last_first, last_strips,
         vectors) = spans[k]
        if chunk.last:
            first, strips = last_first, last_strips
        begin, end = (chunk.which * strips // chunk.chunks,
                      (chunk.which + 1) * strips // chunk.chunks)
        for s in range(begin, end):
            then = s + 1 if s + 1 < end or k + 1 == len(spans) else begin
            current, following = (first + s) * 2 * PIXELS, (first + then % strips) * 2 * PIXELS
            ahead = offsets[following] - offsets[current] + then // strips * images.x_next
            _strip(x, w, bias, r, y, taps, offsets,
                   ConvStart(images.x + x_at, w_at, bias_at, images.y + y_at, tap, current),
                   ConvSteps(count, images.plane, images.flags, ahead), vectors, images.kind)


@inlined
def image_strips(x, w, bias, r, y, taps, offsets, spans, images):
    """All strips of one image."""
    _chunk_strips(x, w, bias, r, y, taps, offsets, spans, StripChunk(0, 1, False), images)


@kernel(parallel=True)
def _strips(x, w, bias, r, y, taps, offsets, spans, steps, options, queue, jobs):
    """y, flat, job by job (see `simd.work_queue`).

    A job is a part of a group of images, for `together` spans of channels; `options`: parts,
    chunks, that number, kind of taps, flags.
    """
    (groups, x_step, y_step, plane), (parts, chunks, together, kind, flags) = steps, options
    for worker in prange(len(queue) // COUNTER_STRIDE):
        job, turn = take_job(queue, np.int64(worker), 0, jobs)
        while job >= 0:
            k, n = job // (groups * parts) * together, job % (groups * parts) // parts
            part = job % parts
            for which in range(part * chunks // parts, (part + 1) * chunks // parts):
                _chunk_strips(x, w, bias, r, y, taps, offsets, spans[k:k + together],
                              StripChunk(which, chunks, n == groups - 1),
                              StripImages(n * x_step, n * y_step, x_step, plane, flags, kind))
            job, turn = take_job(queue, np.int64(worker), turn, jobs)
        store_fence(y)


def run_strips(task: StripTask, x: np.ndarray, w: np.ndarray, bias: np.ndarray, r: np.ndarray,
               y: np.ndarray, kind: int, flags: int) -> None:
    """y from x and packed filters w; with the flag ADD also from r (see `simd.conv_strip`).

    `kind` is that of the taps: BLOCK, PLANE, DEPTHWISE, 3 or 7.  For int8, see `simd.conv_strip`.
    """
    count, (groups, x_step, *_), strips = len(task.spans), task.steps, int(task.spans[0, 7])
    threads = num_threads()
    together = count if groups * strips >= FILTERS_STREAM * threads else max(
        1, min(count, L2_FILTERS * count // len(w)))
    jobs = groups * -(-count // together)
    parts = min(max(-(-JOBS * threads // jobs), 1), max(strips, 1))
    while jobs * parts % threads and parts < strips:
        parts += 1
    chunks = max(parts, min(-(-x_step // L2_PIXELS), strips))
    jobs *= parts
    _strips(flat(x), w, bias, flat(r), flat(y), task.taps, task.offsets, task.spans, task.steps,
            (parts, chunks, together, kind, flags), job_counters(min(jobs, threads)), jobs)


def stream_flag(r: np.ndarray, y: np.ndarray, flags: int) -> int:
    """The flag STREAM for a large y, unless its lines are read anyway, to be added to."""
    return STREAM if bypasses_cache(y, *[r] * bool(flags & ADD)) else 0


@inlined
def _outer(x, g, d, rows, offsets, at, options, kind):
    """One tile of `kind` vectors; plus 2 for planar images."""
    if kind == 2:
        outer2(x, g, d, rows, offsets, at, options)
    elif kind == 1:
        outer1(x, g, d, rows, offsets, at, options)
    elif kind == 4:
        flat2(x, g, d, rows, offsets, at, options)
    else:
        flat1(x, g, d, rows, offsets, at, options)


@inlined
def _prefetch_target(turn, turns, tiles, spans, blocks, g_vector):
    """The prefetch of tile `turn` of `turns` of a job: offset of a block of x, or of a plane of g
    (and 1).  Tiles alternate, so that prefetches are spread over the time of a chunk."""
    k = turn * (blocks + 2 * len(spans)) // turns
    if k < blocks:
        return tiles[k * len(tiles) // blocks, 0] + spans[0, 0], 0
    return spans[(k - blocks) // 2, 1] + (k - blocks) % 2 * g_vector, 1


@kernel(parallel=True)
def _outers(x, g, d, rows, offsets, tiles, spans, steps, parts):
    """d, packed, tile by tile.  A job is a part of the spans with a part of the tiles, for which it
    processes chunks of pixels: x, g and d are read from the cache, and the next chunk is
    prefetched."""
    groups, pixels, last, chunk, x_group, g_group, g_vector, blocks = steps
    flat, (span_parts, tile_parts) = len(rows) > 0, parts
    for job in prange(span_parts * tile_parts):
        part, other = np.int64(job) // tile_parts, np.int64(job) % tile_parts
        ours = spans[part * len(spans) // span_parts:(part + 1) * len(spans) // span_parts]
        mine = tiles[other * len(tiles) // tile_parts:(other + 1) * len(tiles) // tile_parts]
        planes = max(1, blocks * len(mine) // len(tiles))
        for n in range(groups):
            end = pixels if n < groups - 1 else last
            for first in range(0, end, chunk):
                # distance to the next chunk, perhaps of the next group of images, for prefetches
                x_next, g_next, then = n * x_group, n * g_group, first + chunk
                if then >= end:
                    x_next, g_next, then = x_next + x_group, g_next + g_group, 0
                x_next += offsets[2 * then] - offsets[2 * first]
                g_next += offsets[2 * then + 1] - offsets[2 * first + 1]
                # all tiles of the job accumulate the products of this chunk
                for k in range(len(ours)):
                    x_span, g_span, d_span, vectors = ours[k]
                    for i in range(len(mine)):
                        x_tile, rows_tile, row = mine[i]
                        soon, which = _prefetch_target(
                            k * len(mine) + i, len(ours) * len(mine), mine, ours, planes, g_vector)
                        soon += g_next if which else x_next
                        at = OuterStart(n * x_group + x_span + x_tile, n * g_group + g_span,
                                        d_span + row * vectors * LANES, rows_tile, first * 2, soon)
                        options = OuterSteps(min(chunk, end - first), g_vector,
                                             np.int64(n + first > 0), which)
                        _outer(x, g, d, rows, offsets, at, options, vectors + 2 * flat)


def run_outer_products(task: OuterTask, x: np.ndarray, g: np.ndarray, d: np.ndarray) -> None:
    """d, packed, from x and the output's gradient g."""
    most = len(task.spans), len(task.tiles)
    parts = _job_parts(most, task.steps[-1] / 2, num_threads())
    _outers(x.reshape(-1), g.reshape(-1), d, *task, parts)


@lru_cache(maxsize=256)
def _job_parts(most: tuple[int, int], blocks: float, threads: int) -> tuple[int, int]:
    """Parts of spans and tiles: gradients of a part fit the L2 cache, threads are balanced, and x
    (half as many `blocks` as pairs of vectors) and g are read as rarely as possible."""
    least = (-(-most[0] * 2 * LANES // JOB_SIDE), -(-most[1] * ROWS // JOB_SIDE))
    choices = [(i, j) for i in range(least[0], most[0] + 1) for j in range(least[1], most[1] + 1)
               if i * j % threads == 0 or (i, j) == most]
    return min(choices, key=lambda parts: (parts[0] * blocks + parts[1] * most[0], parts))


@inlined
def _row_and_block(job, rows, parts, strides):
    """A row of the table and a block of channels: neighbours in the weight are consecutive."""
    outer, inner = strides
    along = inner < outer
    return (job // parts, job % parts) if along else (job % len(rows), job // len(rows))


@lru_cache
def _packed_orders(taps: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the rows of a square among packed rows: of a block's channels with all their
    taps, which become taps with all channels; and of the taps of one filter."""
    index, line = np.arange(taps * LANES), np.arange(-(-taps // LANES) * LANES)
    return index % taps * LANES + index // taps, np.minimum(line, taps - 1)


@inlined
def _pack_block(w, packed, orders, source, start, sizes):
    """A whole block, by transposing squares; False if that is not possible."""
    by_block, by_tap = orders
    outer, inner, count, width = sizes
    if inner == count:
        for o in range(0, width, LANES):
            for t in range(0, count * LANES, LANES):
                transpose_scatter(w, packed, by_block, (source + o * outer + t, start + o, t),
                                  (outer, width))
        return True
    if outer != count or source + LANES * inner + width * outer + by_tap.size > w.size:
        return False
    for c in range(LANES):
        begin, at = source + c * inner, start + c * width
        if count == 1:
            for o in range(width):
                packed[np.uint64(at + o)] = w[np.uint64(begin + o)]
        else:
            for o in range(0, width, LANES):
                for t in range(0, count, LANES):
                    transpose_scatter(w, packed, by_tap, (begin + o * outer + t, at + o, t),
                                      (outer, LANES * width))
    return True


@kernel(parallel=True)
def _pack(w, rows, positions, orders, strides, depth, packed):
    """By whole blocks where possible, else element by element."""
    outer, inner = strides
    parts = (rows[0, 2] + depth - 1) // depth
    for job in prange(len(rows) * parts):
        line, b = _row_and_block(np.int64(job), rows, parts, strides)
        base, outs, ins, width, target, first, count = rows[line]
        start, have = target + b * count * depth * width, min(depth, ins - b * depth)
        source, sizes = base + b * depth * inner, (outer, inner, count, width)
        if have == depth == LANES and outs == width and _pack_block(
                w, packed, orders, source, start, sizes):
            continue
        for k in range(count):
            for c in range(depth):
                begin = source + c * inner + positions[first + k]
                at = start + (k * depth + c) * width
                for o in range(width):
                    packed[at + o] = w[begin + o * outer] if o < outs and c < have else 0


def pack(plan: PackPlan, w: np.ndarray, packed: np.ndarray) -> None:
    """Pack the weight w."""
    _pack(w.reshape(-1), plan.rows, plan.positions, _packed_orders(len(plan.positions)),
          plan.strides, plan.depth, packed)


@kernel(parallel=True)
def _unpack(packed, rows, positions, order, strides, depth, w, adds):
    outer, inner = strides
    parts = (rows[0, 2] + depth - 1) // depth
    for job in prange(len(rows) * parts):
        line, b = _row_and_block(np.int64(job), rows, parts, strides)
        base, outs, ins, width, target, first, count = rows[line]
        start, have = target + b * count * depth * width, min(depth, ins - b * depth)
        begin = base + b * depth * inner
        if inner == count and have == depth == LANES and outs == width and not adds:
            for o in range(0, width, LANES):
                for t in range(0, count * LANES, LANES):
                    transpose_gather(packed, w, order, (start + o, begin + o * outer + t, t),
                                     (width, outer))
            continue
        for o in range(outs):
            for c in range(have):
                for k in range(count):
                    value = packed[start + (k * depth + c) * width + o]
                    at = begin + o * outer + c * inner + positions[first + k]
                    w[at] = w[at] + value if adds else value


def unpack(plan: PackPlan, packed: np.ndarray, w: np.ndarray, adds: bool) -> None:
    """Unpack to the weight w, or add to it."""
    _unpack(packed, plan.rows, plan.positions, _packed_orders(len(plan.positions))[0], plan.strides,
            plan.depth, w.reshape(-1), adds)
