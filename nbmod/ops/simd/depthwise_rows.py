"""Micro-kernels of depthwise convolutions with the usual filters, row by row, without tables.

Every lane is a channel with filters of its own, as in `lanewise`, and pixels that follow each other
share what they read: of GROUP pixels each number is read once for a row of the filter.

    y = start + sum over rows i of the filter and terms (t, o) of w[i, t] x_i[step q + o]

Forward, q is a pixel of the output, which sees taps side by side.  Backward, from the output's
gradient, q stands for `stride` pixels of the image; each of them sees the taps of its remainder.
The order of a sum depends on the filter only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from .conv_strip import ADD, BIAS, emit_limits, limited
from .host import lanes
from .ir import Micro, Vectors

__all__ = ["SIZES", "STRIDES", "Rows", "along", "row_of"]

LANES = lanes("float32")
GROUP = 7
"""Pixels whose sums are formed together; images of 224 rows halve to 7."""
SIZES, STRIDES = (3, 5), (1, 2)
"""Filters and strides for which there are kernels."""

# at      where to begin in x, w, bias, and in y and r
# steps   pixels q; rows of the filter; numbers of a row of x, of one of w; flags (see `strip`)


class Rows(NamedTuple):
    """`terms` (t, o) of each pixel that belongs to q, whose reads begin at `step` q."""

    terms: Sequence[Sequence[tuple[int, int]]]
    step: int

    @classmethod
    def forward(cls, size: int, stride: int) -> Rows:
        """Of filters with `size` columns; x begins with what the first tap sees."""
        return cls([[(t, t) for t in range(size)]], stride)

    @classmethod
    def backward(cls, size: int, stride: int) -> Rows:
        """Of the same with a padding of half its size; x begins with the first pixel."""
        ahead = [[(t, c + size // 2 - t) for t in range(size)] for c in range(stride)]
        return cls([[(t, o // stride) for t, o in each if o % stride == 0] for each in ahead], 1)


def along(v: Vectors, count: Any, start: Sequence[Any],
           body: Callable[[Any, int, list[Any]], Sequence[Any]]) -> list[Any]:
    """`values = body(first, pixels, values)`: GROUP pixels at a time, and then one by one."""
    b = v.builder
    groups = b.sdiv(count, v.number(GROUP))
    done = v.mul(groups, GROUP)
    rest = b.sub(count, done)

    def some(turns: Any, before: Any, pixels: int, values: Sequence[Any]) -> list[Any]:
        return v.either(b.icmp_signed(">", turns, v.number(0)), lambda: v.loop(
            turns, values, lambda i, now: body(v.add(before, v.mul(i, pixels)), pixels, now)),
            lambda: values)

    return some(rest, done, 1, some(groups, 0, GROUP, start))


def _emit_row(v: Vectors, kind: Rows) -> None:
    a, outputs = v.args, len(kind.terms)
    x, w, bias, y = (v.at(getattr(a, name), start) for name, start in zip(
        ("x", "w", "bias", "y"), a.at, strict=True))
    r = v.at(a.r, a.at[3])
    count, rows, x_row, w_row, flags = a.steps
    low, high = (pick(o for each in kind.terms for _, o in each) for pick in (min, max))
    taps = sorted({t for each in kind.terms for t, _ in each})

    first = v.either(v.has(flags, BIAS), lambda: [v.load(bias)], lambda: [v.zero])[0]

    def pixels(begin: Any, number: int, none: list[Any]) -> list[Any]:
        spots = [v.mul(v.add(v.mul(begin, outputs), k), v.width) for k in range(number * outputs)]
        start = v.either(
            v.has(flags, ADD),
            lambda: [v.builder.fadd(first, v.load(v.at(r, spot))) for spot in spots],
            lambda: [first] * len(spots))
        source = v.at(x, v.mul(begin, kind.step * v.width))

        def row(i: Any, sums: list[Any]) -> list[Any]:
            here, filters = v.at(source, v.mul(i, x_row)), v.at(w, v.mul(i, w_row))
            seen = {o: v.load(v.at(here, o * v.width))
                    for o in range(low, (number - 1) * kind.step + high + 1)}
            weight = {t: v.load(v.at(filters, t * v.width)) for t in taps}
            for place in range(max(map(len, kind.terms))):
                for q, (c, each) in product(range(number), enumerate(kind.terms)):
                    if place < len(each):
                        t, o = each[place]
                        k = q * outputs + c
                        sums[k] = v.fma(seen[q * kind.step + o], weight[t], sums[k])
            return sums

        for total, spot in zip(v.loop(rows, start, row), spots, strict=True):
            v.store(emit_limits(v, total, flags), v.at(y, spot))
        return none

    along(v, count, [], pixels)


def _twin(kind: Rows) -> Any:
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
            y[spot:spot + LANES] = limited(total, flags)

    return row


def row_of(kind: Rows) -> Micro:
    """The micro-kernel of a row."""
    return Micro(("x", "w", "bias", "r", "y", "at", "steps"), lambda v: _emit_row(v, kind),
                 _twin(kind))
