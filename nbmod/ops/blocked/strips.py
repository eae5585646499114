"""Running the tables: strips over an output, tiles over a weight's gradient, filters packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..simd.lanewise import lanewise
from ..simd.outer import ROWS, outer1, outer2
from ..simd.strip import PIXELS, plane1, plane2, strip1, strip2
from ..simd.transpose import transpose
from .form import LANES
from .tables import OuterTask, Pack, StripTask

__all__ = ["BLOCK", "LANEWISE", "PLANE", "pack", "run_outer", "run_strips", "unpack"]

BLOCK, PLANE, LANEWISE = range(3)
"""Taps of a block of channels, of one channel, of one channel for each lane."""
JOBS = 4
"""Jobs for each thread, so that none waits long for the last."""
NEAR = 2 ** 16
"""Numbers of x, and of filters, that a job goes over again and again: both stay in the L2."""
SIDE = 256
"""Rows and columns of a weight's gradient that a job adds up."""


@inlined
def _strip(x, w, bias, r, y, taps, places, at, steps, kind):
    """One strip by the kernel of its kind: 3 for pairs of vectors, + a kind of taps."""
    if kind == 0:
        strip1(x, w, bias, r, y, taps, places, at, steps)
    elif kind == 1:
        plane1(x, w, bias, r, y, taps, places, at, steps)
    elif kind == 2:
        lanewise(x, w, bias, r, y, taps, places, at, steps)
    elif kind == 3:
        strip2(x, w, bias, r, y, taps, places, at, steps)
    else:
        plane2(x, w, bias, r, y, taps, places, at, steps)


@kernel(parallel=True)
def _strips(x, w, bias, r, y, taps, places, blocks, steps, how):
    """y, flat.  A job is a chunk of the strips of a group of images, for `together` blocks of
    channels; `how`: chunks, that number, the taps' kind, flags."""
    groups, x_step, y_step, vector = steps
    (count, _), (chunks, together, kind, flags) = blocks.shape, how
    each = groups * chunks
    for job in prange(each * ((count + together - 1) // together)):
        part, n, chunk = np.int64(job) // each, np.int64(job) % each // chunks, job % chunks
        for k in range(part * together, min((part + 1) * together, count)):
            b = blocks[k]
            first, strips = (b[8], b[9]) if n == groups - 1 else (b[6], b[7])
            for s in range(chunk * strips // chunks, (chunk + 1) * strips // chunks):
                _strip(x, w, bias, r, y, taps, places,
                       (n * x_step + b[0], b[1], b[2], n * y_step + b[3], b[4],
                        (first + s) * 2 * PIXELS), (b[5], vector, flags), (b[10] - 1) * 3 + kind)


def run_strips(task: StripTask, x: Any, w: Any, bias: Any, r: Any, y: Any, kind: int, flags: int
               ) -> None:
    """y from x and packed filters w; with the flag ADD also from r (see `simd.strip`).

    The taps are of a `kind`: BLOCK, PLANE or LANEWISE.
    """
    count, groups = len(task.blocks), task.steps[0]
    together = max(1, min(count, NEAR * count // len(w)))
    jobs = groups * -(-count // together)
    chunks = min(max(JOBS * num_threads() // jobs, task.steps[1] // NEAR, 1),
                 max(1, int(task.blocks[0, 7])))
    _strips(x.reshape(-1), w, bias, r.reshape(-1), y.reshape(-1), task.taps, task.places,
            task.blocks, task.steps, (chunks, together, kind, flags))


@kernel(parallel=True)
def _outers(x, g, d, rows, places, tiles, spans, steps, parts):
    """d, packed, tile by tile.  A job is a part of the spans with a part of the tiles, for which it
    goes over chunks of pixels: so x, g and d are read from the cache."""
    images, pixels, chunk, x_image, g_image, g_vector = steps
    for job in prange(parts[0] * parts[1]):
        part, other = np.int64(job) // parts[1], np.int64(job) % parts[1]
        for n in range(images):
            for first in range(0, pixels, chunk):
                how = (min(chunk, pixels - first), g_vector, np.int64(n + first > 0))
                for k in range(part * len(spans) // parts[0],
                               (part + 1) * len(spans) // parts[0]):
                    span = spans[k]
                    for i in range(other * len(tiles) // parts[1],
                                   (other + 1) * len(tiles) // parts[1]):
                        tile = tiles[i]
                        at = (n * x_image + span[0] + tile[0], n * g_image + span[1],
                              span[2] + tile[2] * span[3] * LANES, tile[1], first * 2)
                        if span[3] == 2:
                            outer2(x, g, d, rows, places, at, how)
                        else:
                            outer1(x, g, d, rows, places, at, how)


def run_outer(task: OuterTask, x: Any, g: Any, d: Any) -> None:
    """d, packed, from x and the output's gradient g."""
    threads, most = num_threads(), (len(task.spans), len(task.tiles))
    parts = [-(-most[0] * 2 * LANES // SIDE), -(-most[1] * ROWS // SIDE)]
    while parts[0] * parts[1] % threads and parts != [*most]:
        parts[parts[0] == most[0]] += 1
    _outers(x.reshape(-1), g.reshape(-1), d, *task, tuple(parts))


@inlined
def _part(job, rows, parts, strides):
    """A row of the table and a block of channels: neighbours in the weight follow each other."""
    along = strides[1] < strides[0]
    return (job // parts, job % parts) if along else (job % len(rows), job // len(rows))


@kernel(parallel=True)
def _pack(w, rows, positions, strides, depth, packed):
    """Blocks of forward are squares turned over; others go number by number."""
    outer, inner = strides
    parts = (rows[0, 2] + depth - 1) // depth
    for job in prange(len(rows) * parts):
        line, b = _part(np.int64(job), rows, parts, strides)
        base, outs, ins, width, target, first, count = rows[line]
        start, have = target + b * count * depth * width, min(depth, ins - b * depth)
        source = base + b * depth * inner
        if inner == count and have == depth == LANES and outs == width:
            square = np.empty(LANES * LANES, np.float32)
            for o in range(0, width, LANES):
                for t in range(0, count * LANES, LANES):
                    transpose(w, square, (source + o * outer + t, 0), (outer, LANES))
                    for j in range(LANES):
                        at = start + ((t + j) % count * LANES + (t + j) // count) * width + o
                        for c in range(LANES):
                            packed[at + c] = square[j * LANES + c]
            continue
        for k in range(count):
            for c in range(depth):
                place = source + c * inner + positions[first + k]
                at = start + (k * depth + c) * width
                for o in range(width):
                    packed[at + o] = w[place + o * outer] if o < outs and c < have else 0


def pack(plan: Pack, w: Any, packed: Any) -> None:
    """`packed` from the weight w."""
    _pack(w.reshape(-1), plan.rows, plan.positions, plan.strides, plan.depth, packed)


@kernel(parallel=True)
def _unpack(packed, rows, positions, strides, depth, w, adds):
    outer, inner = strides
    parts = (rows[0, 2] + depth - 1) // depth
    for job in prange(len(rows) * parts):
        line, b = _part(np.int64(job), rows, parts, strides)
        base, outs, ins, width, target, first, count = rows[line]
        start, have = target + b * count * depth * width, min(depth, ins - b * depth)
        place = base + b * depth * inner
        if inner == count and have == depth == LANES and outs == width and not adds:
            square = np.empty(LANES * LANES, np.float32)
            for o in range(0, width, LANES):
                for t in range(0, count * LANES, LANES):
                    for j in range(LANES):
                        at = start + ((t + j) % count * LANES + (t + j) // count) * width + o
                        for c in range(LANES):
                            square[j * LANES + c] = packed[at + c]
                    transpose(square, w, (0, place + o * outer + t), (LANES, outer))
            continue
        for o in range(outs):
            for c in range(have):
                for k in range(count):
                    value = packed[start + (k * depth + c) * width + o]
                    at = place + o * outer + c * inner + positions[first + k]
                    w[at] = w[at] + value if adds else value


def unpack(plan: Pack, packed: Any, w: Any, adds: bool) -> None:
    """The weight, or what is added to it, from `packed`."""
    _unpack(packed, plan.rows, plan.positions, plan.strides, plan.depth, w.reshape(-1), adds)
