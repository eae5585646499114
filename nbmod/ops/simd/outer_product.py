"""The outer-product micro-kernel: the weight gradient of a convolution, in registers.

    d[k, v] = d[k, v] + sum over pixels p of x[x_p + row_k] g[g_p, v]

for ROWS rows k (input channels of a tap, or taps) and `vectors` vectors v of output channels.  The
accumulators are the tile of the weight gradient itself; x and g are read through tables of pixels,
as in `conv_strip`, so stride, dilation and padding need no other code.

A tile reads little for much arithmetic, but in pieces too short for the hardware prefetcher.  So
each tile also prefetches what another one will read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .host import lanes, registers
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["ROWS", "OuterStart", "OuterSteps", "flat1", "flat2", "outer1", "outer2"]

LANES = lanes("float32")
ROWS = min(8 if registers().number == 32 else 4, LANES)
"""Rows of a tile, within one block of channels: with two vectors each, up to half of the
registers."""

ARGUMENTS = ("x", "g", "d", "rows", "offsets", "at", "steps")
"""at      `OuterStart`
steps   `OuterSteps`
offsets two offsets for a pixel: in x and in g
"""


class OuterStart(NamedTuple):
    """Offsets of a tile in its operands, and in the array that is prefetched."""

    x: int
    g: int
    d: int
    rows: int
    offsets: int
    soon: int


class OuterSteps(NamedTuple):
    """Number of pixels; distance of two vectors in g; 1 to accumulate into d, 0 to overwrite it;
    1 to prefetch pixels of g, 0 those of x."""

    pixels: int
    vector: int
    adds: np.int64
    from_g: np.int64


def _emit_outer(v: Vectors, vectors: int, depth: int) -> None:
    a = v.args
    x, g, d, rows, offsets = v.starts("x", "g", "d", "rows", "offsets")
    count, g_step, adds, which = a.steps
    from_g = v.builder.icmp_signed("!=", which, v.int64(0))
    fetched = v.at(v.builder.select(from_g, a.g, a.x), a.at[5])
    sources = [v.at(x, k if depth > 1 else v.load_int(rows, k)) for k in range(ROWS)]
    targets = [v.at(d, (k * vectors + o) * v.width) for k in range(ROWS) for o in range(vectors)]
    start = v.if_else(v.builder.icmp_signed("!=", adds, v.int64(0)),
                     lambda: [v.load(target) for target in targets],
                     lambda: [v.zero] * len(targets))

    # rank-1 update of the tile by a pixel: ROWS broadcast elements of x times vectors of g
    def pixel(p: IRValue, sums: list[IRValue]) -> list[IRValue]:
        entry = v.at(offsets, v.mul(p, 2))
        if depth > 1:
            v.prefetch(v.at(fetched, v.load_int(entry, which)))
        offset, there = v.load_int(entry, 0), v.at(g, v.load_int(entry, 1))
        factors = [v.load(v.at(there, v.mul(g_step, o))) for o in range(vectors)]
        for k in range(ROWS):
            value = v.broadcast(v.at(sources[k], offset))
            for o in range(vectors):
                sums[k * vectors + o] = v.fma(value, factors[o], sums[k * vectors + o])
        return sums

    for total, target in zip(v.loop(count, start, pixel), targets, strict=True):
        v.store(total, target)


def _reference(vectors: int, depth: int) -> Callable:
    def outer(x, g, d, rows, offsets, at, steps):
        xo, go, do, ro, po, _ = at
        count, g_step, adds, _ = steps
        tile = d[do:do + ROWS * vectors * LANES].reshape(ROWS, vectors, LANES)
        if not adds:
            tile[...] = 0
        for p, k, o in np.ndindex(count, ROWS, vectors):
            x_p, g_p = offsets[po + 2 * p:po + 2 * p + 2]
            begin = go + g_p + o * g_step
            tile[k, o] += x[xo + x_p + (k if depth > 1 else rows[ro + k])] * g[begin:begin + LANES]

    return outer


def outer_of(vectors: int, depth: int) -> MicroKernel:
    """The outer-product kernel of `vectors` vectors of output channels, for taps of `depth`."""
    return MicroKernel(ARGUMENTS, lambda v: _emit_outer(v, vectors, depth),
                       _reference(vectors, depth))


outer2, outer1 = outer_of(2, LANES), outer_of(1, LANES)
flat2, flat1 = outer_of(2, 1), outer_of(1, 1)
