"""Running the tables: strips over an output, tiles over a weight's gradient, filters packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import inlined, kernel, num_threads, prange
from ..simd.lanewise import lanewise
from ..simd.outer import outer1, outer2
from ..simd.strip import PIXELS, plane1, plane2, strip1, strip2
from .form import LANES
from .tables import OuterTask, Pack, StripTask

__all__ = ["BLOCK", "LANEWISE", "PLANE", "pack", "run_outer", "run_strips", "unpack"]

BLOCK, PLANE, LANEWISE = range(3)
"""Taps of a block of channels, of one channel, of one channel for each lane."""
JOBS = 4
"""Jobs for each thread, so that none waits long for the last."""


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
    """y, flat, block by block of channels; `how`: chunks of a block's strips, taps' kind, flags."""
    groups, x_step, y_step, vector = steps
    (count, _), (chunks, kind, flags) = blocks.shape, how
    for job in prange(groups * count * chunks):
        k, rest = np.int64(job) // (groups * chunks), np.int64(job) % (groups * chunks)
        n, chunk, b = rest // chunks, rest % chunks, blocks[k]
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
    jobs = task.steps[0] * len(task.blocks)
    chunks = max(1, min(JOBS * num_threads() // jobs, int(task.blocks[0, 7])))
    _strips(x.reshape(-1), w, bias, r.reshape(-1), y.reshape(-1), task.taps, task.places,
            task.blocks, task.steps, (chunks, kind, flags))


@kernel(parallel=True)
def _outers(x, g, d, rows, places, tiles, spans, steps):
    """d, packed, tile by tile; chunks of pixels outside, so that they are read from the cache."""
    images, pixels, chunk, x_image, g_image, g_vector, together = steps
    parts = (len(tiles) + together - 1) // together
    for job in prange(len(spans) * parts):
        k, part = np.int64(job) // parts, np.int64(job) % parts
        span = spans[k]
        for n in range(images):
            for first in range(0, pixels, chunk):
                adds = np.int64(n + first > 0)
                for i in range(part * together, min((part + 1) * together, len(tiles))):
                    tile = tiles[i]
                    at = (n * x_image + span[0] + tile[0], n * g_image + span[1],
                          span[2] + tile[2] * span[3] * LANES, tile[1], first * 2)
                    how = (min(chunk, pixels - first), g_vector, adds)
                    if span[3] == 2:
                        outer2(x, g, d, rows, places, at, how)
                    else:
                        outer1(x, g, d, rows, places, at, how)


def run_outer(task: OuterTask, x: Any, g: Any, d: Any) -> None:
    """d, packed, from x and the output's gradient g."""
    _outers(x.reshape(-1), g.reshape(-1), d, *task)


@kernel(parallel=True)
def _pack(w, rows, positions, strides, depth, packed):
    outer, inner = strides
    for job in prange(len(rows)):
        base, outs, ins, width, target, first, count = rows[job]
        for b in range((ins + depth - 1) // depth):
            for k in range(count):
                start = target + (b * count + k) * depth * width
                for o in range(width):
                    source = base + o * outer + b * depth * inner + positions[first + k]
                    for c in range(depth):
                        have = o < outs and b * depth + c < ins
                        packed[start + c * width + o] = w[source + c * inner] if have else 0


def pack(plan: Pack, w: Any, packed: Any) -> None:
    """`packed` from the weight w."""
    _pack(w.reshape(-1), plan.rows, plan.positions, plan.strides, plan.depth, packed)


@kernel(parallel=True)
def _unpack(packed, rows, positions, strides, depth, w, adds):
    outer, inner = strides
    for job in prange(len(rows)):
        base, outs, ins, width, target, first, count = rows[job]
        for o in range(outs):
            for i in range(ins):
                b, c = i // depth, i % depth
                for k in range(count):
                    value = packed[target + ((b * count + k) * depth + c) * width + o]
                    place = base + o * outer + i * inner + positions[first + k]
                    w[place] = w[place] + value if adds else value


def unpack(plan: Pack, packed: Any, w: Any, adds: bool) -> None:
    """The weight, or what is added to it, from `packed`."""
    _unpack(packed, plan.rows, plan.positions, plan.strides, plan.depth, w.reshape(-1), adds)
