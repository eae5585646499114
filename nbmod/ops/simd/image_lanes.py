"""The micro-kernels of convolutions whose vector lanes are pixels of several images.

    y[r, i] = base[r] + sum over channels c and entries t of w[r, c, t] x[c, t, i]

for ROWS results r (filters, or channels in the gradient of the data) times one to three vectors of
lanes i.  An entry of `taps` is the index of a tap in the weight, and its offset in x, so entries
may be any list of taps.  Every weight that is broadcast is used for all vectors, and every vector
for all ROWS results; the sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .host import registers
from .ir import IRValue, MicroKernel, Vectors, width_of

__all__ = ["ROWS", "VECTORS", "LaneStart", "LaneSums", "lane_sums1", "lane_sums2", "lane_sums3"]

ROWS = 8 if registers().number == 32 else 4
"""Results computed together."""
VECTORS = 3
"""Vectors of lanes at most."""
OPERANDS = ("x", "w", "base", "y", "taps")


class LaneStart(NamedTuple):
    """Offsets in the operands."""

    x: int
    w: int
    base: int
    y: int
    taps: int


class LaneSums(NamedTuple):
    """Channels and entries of each sum; distances of channels in x and w, and of results in w and
    y; results wanted, at most ROWS.  Without channels, results are their `base`."""

    channels: int
    entries: int
    x_channel: int
    w_channel: int
    w_row: int
    y_row: int
    rows: int


def _emit(v: Vectors, vectors: int) -> None:
    x, w, base, y, taps = v.starts(*OPERANDS)
    channels, entries, x_channel, w_channel, w_row, y_row, rows = v.args.steps
    indices = [v.minimum(r, v.add(rows, -1)) for r in range(ROWS)]
    weights = [v.at(w, v.mul(index, w_row)) for index in indices]
    start = [value for index in indices for value in [v.broadcast(v.at(base, index))] * vectors]

    def channel(c: IRValue, sums: list[IRValue]) -> list[IRValue]:
        here, plane = v.mul(c, w_channel), v.at(x, v.mul(c, x_channel))

        def entry(t: IRValue, sums: list[IRValue]) -> list[IRValue]:
            tap = v.at(taps, v.mul(t, 2))
            which, source = v.add(here, v.load_int(tap, 0)), v.at(plane, v.load_int(tap, 1))
            columns = [v.load(v.at(source, o * v.width)) for o in range(vectors)]
            for r, weight in enumerate(weights):
                factor = v.broadcast(v.at(weight, which))
                for o, column in enumerate(columns):
                    sums[r * vectors + o] = v.fma(factor, column, sums[r * vectors + o])
            return sums

        return v.loop(entries, sums, entry)

    sums = v.loop_if_any(channels, start, channel)
    for r, index in reversed(list(enumerate(indices))):
        # rows beyond the last are stored there first, and then overwritten by it
        for o in range(vectors):
            v.store(sums[r * vectors + o], v.at(v.at(y, v.mul(index, y_row)), o * v.width))


def _reference(vectors: int) -> Callable:
    def sums(x, w, base, y, taps, at, steps):
        xo, wo, bo, yo, to = at
        channels, entries, x_channel, w_channel, w_row, y_row, rows = steps
        lanes = vectors * width_of(x.dtype)
        for r in range(min(rows, ROWS)):
            total = np.full(lanes, base[bo + r])
            for c, (which, offset) in ((c, taps[to + 2 * t:][:2]) for c in range(channels)
                                       for t in range(entries)):
                total += (w[wo + r * w_row + c * w_channel + which]
                          * x[xo + c * x_channel + offset:][:lanes])
            y[yo + r * y_row:][:lanes] = total

    return sums


lane_sums1, lane_sums2, lane_sums3 = (
    MicroKernel((*OPERANDS, "at", "steps"), partial(_emit, vectors=vectors), _reference(vectors))
    for vectors in range(1, VECTORS + 1))
