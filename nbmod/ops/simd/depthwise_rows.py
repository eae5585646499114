"""Micro-kernels of depthwise convolutions with common filter sizes, row by row, without tables.

Every lane is a channel with filters of its own, as in `depthwise_taps`.  Adjacent pixels share
loads: each element is loaded once for GROUP pixels and a row of the filter.

    y = start + sum over rows i of the filter and terms (t, o) of w[i, t] x_i[step q + o]

Forward, q is an output pixel, which reads adjacent taps.  For the data gradient, q is a pixel of
the output's gradient and corresponds to `stride` pixels of the image, each of which reads the taps
of its remainder.  The order of a sum depends on the filter only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from .conv_strip import ADD, BIAS, LANES, clip, emit_add, emit_bias, emit_clip
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["SIZES", "STRIDES", "RowStart", "RowSteps", "RowTaps", "grouped_loop", "row_of"]

GROUP = 7
"""Pixels computed together; images of 224 rows halve to 7."""
SIZES, STRIDES = (3, 5), (1, 2)
"""Filter sizes and strides that have kernels."""


class RowStart(NamedTuple):
    """Offsets in x, w, bias, and in y and r."""

    x: int
    w: int
    bias: int
    y: int


class RowSteps(NamedTuple):
    """Pixels q; rows of the filter; row strides of x and w; flags (see `conv_strip`)."""

    pixels: int
    rows: int
    x_row: int
    w_row: int
    flags: int


class RowTaps(NamedTuple):
    """`terms` (t, o) of each pixel of q; loads begin at `step` q."""

    terms: Sequence[Sequence[tuple[int, int]]]
    step: int

    @classmethod
    def forward(cls, size: int, stride: int) -> RowTaps:
        """Taps of filters with `size` columns; x begins at the first tap."""
        return cls([[(t, t) for t in range(size)]], stride)

    @classmethod
    def backward(cls, size: int, stride: int) -> RowTaps:
        """Taps of the gradient, with a padding of half the size; x begins at the first pixel."""
        ahead = [[(t, c + size // 2 - t) for t in range(size)] for c in range(stride)]
        return cls([[(t, o // stride) for t, o in each if o % stride == 0] for each in ahead], 1)


def grouped_loop(v: Vectors, count: IRValue, body: Callable[[IRValue, int], None]) -> None:
    """body(first, pixels) for GROUP pixels at a time, then one by one."""
    groups = v.builder.sdiv(count, v.int64(GROUP))
    done = v.mul(groups, GROUP)
    v.loop_if_any(groups, [], lambda i, _: body(v.mul(i, GROUP), GROUP))
    v.loop_if_any(v.builder.sub(count, done), [], lambda i, _: body(v.add(done, i), 1))


def _emit_row(v: Vectors, kind: RowTaps) -> None:
    a, outputs = v.args, len(kind.terms)
    (x, w, bias, y), r = v.starts("x", "w", "bias", "y"), v.at(a.r, a.at[3])
    width, rows, x_row, w_row, flags = a.steps
    low, high = (pick(o for each in kind.terms for _, o in each) for pick in (min, max))
    taps = sorted({t for each in kind.terms for t, _ in each})

    first = emit_bias(v, flags, [bias])

    def pixels(begin: IRValue, count: int) -> None:
        spots = [v.mul(v.add(v.mul(begin, outputs), k), v.width) for k in range(count * outputs)]
        start = emit_add(v, flags, first * len(spots), (v.at(r, spot) for spot in spots))
        source = v.at(x, v.mul(begin, kind.step * v.width))

        # a row of the filter: every pixel and weight is loaded once, then used by all outputs
        def row(i: IRValue, sums: list[IRValue]) -> list[IRValue]:
            here, filters = v.at(source, v.mul(i, x_row)), v.at(w, v.mul(i, w_row))
            seen = {o: v.load(v.at(here, o * v.width))
                    for o in range(low, (count - 1) * kind.step + high + 1)}
            weight = {t: v.load(v.at(filters, t * v.width)) for t in taps}
            for term in range(max(map(len, kind.terms))):
                for q, (c, each) in product(range(count), enumerate(kind.terms)):
                    if term < len(each):
                        t, o = each[term]
                        k = q * outputs + c
                        sums[k] = v.fma(seen[q * kind.step + o], weight[t], sums[k])
            return sums

        for total, spot in zip(v.loop(rows, start, row), spots, strict=True):
            v.store(emit_clip(v, total, flags), v.at(y, spot))

    grouped_loop(v, width, pixels)


def _reference(kind: RowTaps) -> Callable:
    def row(x, w, bias, r, y, at, steps):
        xo, wo, bo, yo = at
        count, rows, x_row, w_row, flags = steps
        for q, (c, terms) in product(range(count), enumerate(kind.terms)):
            spot = yo + (q * len(kind.terms) + c) * LANES
            total = np.zeros(LANES, np.float32)
            total += bias[bo:bo + LANES] if flags & BIAS else 0
            total += r[spot:spot + LANES] if flags & ADD else 0
            for i, (t, o) in product(range(rows), terms):
                seen = xo + i * x_row + (q * kind.step + o) * LANES
                total += x[seen:seen + LANES] * w[wo + i * w_row + t * LANES:][:LANES]
            y[spot:spot + LANES] = clip(total, flags)

    return row


def row_of(kind: RowTaps) -> MicroKernel:
    """The micro-kernel of a row."""
    return MicroKernel(("x", "w", "bias", "r", "y", "at", "steps"), lambda v: _emit_row(v, kind),
                 _reference(kind))
